/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one struct that owns everything tpu-hostd has, and how its parts are wired: probes → checks and
 * samples → state, events, metrics → uplink; journal and launchd → runs; the query API on top of all.
 */
#include <jansson.h>
#include <systemd/sd-event.h>

#include "bus.h"
#include "calls.h"
#include "host_metrics.h"
#include "http_server.h"
#include "kernel_log.h"
#include "run_log.h"
#include "run_totals.h"
#include "capture.h"
#include "launchd_runs.h"
#include "run_lines.h"
#include "private_program.h"
#include "schedule.h"
#include "uplink.h"

/* Who a finding or a sample comes from, beside the probes (which are numbered from 0). */
enum agent_source {
};

#define PARTS 22

struct agent {
        struct bus bus; /* the first member */
        void *states[PARTS];
        struct served *served; /* agent_routes.c */
        size_t n_served;

        struct http_server *api;
        struct agent_events *events; /* in agent_events.c */
        struct agent_tls *tls; /* in agent_tls.c; NULL: not configured */
        sd_event_source *tick;
        bool ticking; /* the tick has found its moment: see arm() */
};

/* Until every part has a state of its own. */
static inline struct agent *agent_of(const struct bus *b) {
        return (struct agent *) (uintptr_t) b;
}

/*
 * Starts everything: every probe has run when this returns. e, h and config_file are borrowed, settings are
 * copied. What fails is logged with what to do; -errno then.
 */
int agent_new(sd_event *e, const struct host *h, const char *config_file, const struct settings *s,
              struct agent **ret);
/* On a signal: leave.h. */
void agent_stop(struct agent *a);
/* Ends all parts. */
struct agent *agent_free(struct agent *a);
DEFINE_CLEANUP(struct agent *, agent_free)
/* SIGHUP: identity, wanted values and the settings that can change are read again. */
void agent_reload(struct agent *a);

/* --- Used by the agent's own files --------------------------------------------------------------------- */



/* agent_routes.c: the calls of docs/api.md. */
int agent_routes_start(struct bus *b);
/* Serves them on fd, which is taken over: a Unix socket, or with a certificate TCP, where nobody may call
 * before http_server_allow(). */
int agent_api_serve(struct bus *b, int fd, struct server_certificate *certificate,
                    struct http_server **ret);

/* agent_events.c: those who wait for events. */
int agent_events_start(struct bus *b);
/* There is one more. */
void agent_events_news(struct bus *b);
/* Answers all who wait. */
void agent_events_stop(struct bus *b);

/* agent_tls.c: the query API over TCP, its certificate, and the checks of both. */
int agent_tls_start(struct bus *b);
/* In the tick: files that changed are read, and it listens as soon as it can. */
void agent_tls_look(struct bus *b);
void agent_tls_judge(struct bus *b);
/* The settings may be other ones now. */
void agent_tls_reload(struct bus *b);
void agent_tls_stop(struct bus *b);
