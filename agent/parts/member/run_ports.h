/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The ports of a run, tried between its hosts before it starts: a refusal proves the path as well as a
 * connection does, silence or an ICMP error is a firewall, and what the kernel says at once is a route.
 *
 * Which: the coordinator's port, and with several slices that of Multislice, on the coordinator; the port of
 * libtpu's mesh on the 16 hosts after this one in the run's order, and on those 32, 64, 128, … after it. So
 * a host tries RUN_PORTS_MAX at most, is tried by as few, and up to 33 hosts each pair is. 8431 is local.
 */
#include <jansson.h>
#include <systemd/sd-event.h>

#include "finding.h"
#include "port_probe.h"
#include "run.pb-c.h"

#define PORT_TPU_MESH 8471
#define RUN_PORTS_TIME (3 * USEC_PER_SEC) /* silence for so long is a blocked port */
#define RUN_PORTS_NEAR 16
#define RUN_PORTS_MAX 32 /* 2 of the coordinator, 16 near, 11 of at most 65536 hosts that are far */

struct run_port {
        char host[64], address[64];
        uint16_t port;
        bool coordinators, answered;
        enum port_answer answer;
        int error;
};

/* Which ports this host has to reach. chips: whether it has any. Pure. Returns how many. */
size_t run_ports_of(const json_t *run, const Run__Spec *spec, const char *slice, unsigned worker, bool chips,
                    struct run_port ret[static RUN_PORTS_MAX]);

/* The first that is blocked or away, and how many more are. False: none is. Pure. */
bool run_ports_judge(const struct run_port *ports, size_t n, const char *name, struct finding *ret);

struct run_ports;
/* Tries all at once. done is called once, from the loop, and may free it; where n is 0, too. */
int run_ports_new(sd_event *e, const struct run_port *ports, size_t n,
                  void (*done)(const struct run_port *ports, size_t n, void *userdata), void *userdata,
                  struct run_ports **ret);
struct run_ports *run_ports_free(struct run_ports *p);
DEFINE_CLEANUP(struct run_ports *, run_ports_free)
