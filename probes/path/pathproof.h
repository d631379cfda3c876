/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An interface at 8896 proves nothing about the path: this sends packets of full size with "don't fragment"
 * from each data-centre NIC to the matching NIC of each peer and says what arrives (proof.h), as findings
 * "path.mtu", one a NIC and peer. Beside them a connection to a port of runs is tried (port_probe.h), for a
 * filter of TCP lets echoes pass: "path.tcp", where no answer comes. Nothing is sent over it. Runs in the
 * caller's loop, blocks nothing, needs no right but net.ipv4.ping_group_range, and is over
 * two seconds after the names are known.
 */
#include <systemd/sd-event.h>

#include "host.h"
#include "intent.h"
#include "path_report.h"
#include "peers.h"

#define PATHPROOF_NAMES_TIME (USEC_PER_SEC) /* at most, for names that are no addresses */
/* The kernel asks again after a second: one lost packet is no silence, and a second try is counted. */
#define PATHPROOF_PORTS_TIME (1300 * USEC_PER_MSEC)

struct pathproof;
/*
 * intent says which NICs are data-centre NICs; borrowed, as h. peers is copied. asked_for: the peers were
 * named for this one question, so that NICs without any peer among them are no finding unless a peer's name
 * could have had one. done is called once, from the loop, and may free the proof; the report is its to keep
 * (leaving PATH_REPORT_NULL) or leave. -errno when nothing could be started at all; what a run cannot find
 * out (no permission, no peers, no NIC) is a finding.
 */
int pathproof_new(sd_event *e, const struct host *h, const struct intent *intent,
                  const struct path_peers *peers, bool asked_for,
                  void (*done)(struct path_report *r, void *userdata), void *userdata,
                  struct pathproof **ret);
struct pathproof *pathproof_free(struct pathproof *p);
DEFINE_CLEANUP(struct pathproof *, pathproof_free)
