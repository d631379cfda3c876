/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From what is wanted and what was found to the writes that are still to do, and to verdicts, which probes
 * give in the same words. Pure.
 *
 * Holds, and is tested: applying a plan reaches what is wanted; a second plan is empty; no write of a plan
 * sets an MTU above the NIC's maximum or the network's own; one may stop after any write, for each stands by
 * itself.
 */
#include "base.h"
#include "finding.h"
#include "intent.h"
#include "op.h"

/* One sysctl, blanks collapsed. -ENOENT: this kernel has none of that name; -EROFS: it is there, but no one
 * in this network namespace may write it. Through the seam, as the next. */
int plan_read_sysctl(const struct host *h, const char *name, struct found_sysctl *ret);
/* The wanted sysctls and parameters. What cannot be read, or what this process may not write (-EROFS), is
 * noted there. */
void plan_read_sysctls(const struct host *h, const struct intent *i, struct found *f);

/* What could not be read gives no write. -ENOMEM. */
int plan_make(const struct intent *i, const struct found *f, struct plan *ret);
/* One finding for each wanted sysctl and parameter. */
int plan_judge_sysctls(const struct intent *i, const struct found *f, struct finding_list *l);
/* One finding for each route that is wrong, one for all that are right. Of f only links and routes count; i
 * has to want a least retransmission time of routes. */
int plan_judge_routes(const struct intent *i, const struct found *f, struct finding_list *l);
/* One finding for each wanted setting of each data-centre NIC. */
int plan_judge_nic_settings(const struct intent *i, const struct found *f, struct finding_list *l);
/* Verdicts on every wanted setting, on the choice of the profile, and on there being NICs at all. Adds to
 * *l. */
int plan_findings(const struct intent *i, const struct found *f, struct finding_list *l);

/* --- Reverse-path filters, a part of a plan. Pure, but for plan_read_rp_filters(), which reads through the
 * seam. --- */

/* "net.ipv4.conf.eth0.rp_filter", and of eth0.7 "net.ipv4.conf.eth0/7.rp_filter" */
void rp_filter_name(const char *nic, char buf[static 64]);

/* With several data NICs, none that is strict stays where the profile wants it loose. -ENOMEM. */
int plan_add_rp_filters(struct plan *p, const struct intent *i, const struct found *f);
/* The filters of f->links; what cannot be read is noted there. */
void plan_read_rp_filters(const struct host *h, const struct intent *i, struct found *f);
/* One finding for each data NIC, none where there are fewer than two. Of f only links and filters count. */
int plan_judge_rp_filters(const struct intent *i, const struct found *f, struct finding_list *l);
