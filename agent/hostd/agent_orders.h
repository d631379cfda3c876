/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What agent_orders.c and agent_orders_api.c share. */
#include "agent.h"
#include "file_writer.h"
#include "netcfg_call.h"

/* A call that waits for the disk. */
struct order_call {
        struct agent_orders *owner;
        struct http_call *call; /* NULL: nobody waits any more */
        uint64_t number;       /* of the text that must be written */
        json_t *answer;
        struct order_call *next;
};

struct agent_orders {
        struct bus *bus;
        struct file_writer *writer; /* NULL: nothing is kept */
        char path[256];
        struct observe_handover *observe; /* NULL: nobody is told */
        struct order_call *calls;
        bool failed;          /* the last write: said once */
        uint64_t drain_asked; /* launchd_runs_asked() when the drain was ordered: older lists may lack a run */
        bool told_observe;    /* what tpu-netcfg was told last … */
        usec_t told_until;    /* … and until when */
};

/* Where orders and the health of checks are kept; NULL: nothing is. */
const char *agent_orders_file(const struct bus *b);
/* Puts all into the file. Only with a writer. */
int agent_orders_put(struct bus *b, uint64_t *ret_number);
/* The event that o begins or ends. by: who does it now, or "its end". */
void agent_orders_tell(struct bus *b, const struct order *o, bool begins, const char *by);
/* What follows from another list of orders. */
void agent_orders_changed(struct bus *b);
/* Whether tpu-launchd said, asked after the drain was ordered, that no run is left. */
bool agent_orders_no_run_left(const struct bus *b);
