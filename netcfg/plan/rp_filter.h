/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part of a plan about reverse-path filters. Pure, but for plan_read_rp_filters(), which reads through
 * the seam.
 */
#include "found.h"
#include "op.h"

/* "net.ipv4.conf.eth0.rp_filter", and of eth0.7 "net.ipv4.conf.eth0/7.rp_filter" */
void rp_filter_name(const char *nic, char buf[static 64]);

/* With several data NICs, none that is strict stays where the profile wants it loose. -ENOMEM. */
int plan_add_rp_filters(struct plan *p, const struct intent *i, const struct found *f);
/* The filters of f->links; what cannot be read is noted there. */
void plan_read_rp_filters(const struct host *h, const struct intent *i, struct found *f);
/* One finding for each data NIC, none where there are fewer than two. Of f only links and filters count. */
int plan_judge_rp_filters(const struct intent *i, const struct found *f, struct finding_list *l);
