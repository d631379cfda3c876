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
#include "capture.h"
#include "host_metrics.h"
#include "http_server.h"
#include "launchd_runs.h"
#include "kernel_log.h"
#include "run_lines.h"
#include "run_log.h"
#include "run_totals.h"
#include "uplink.h"

/* Who a finding or a sample comes from, beside the probes (which are numbered from 0). */
enum agent_source {
        SOURCE_API = 10000, /* above those that the bus gives away */
        SOURCE_ENROLL, /* agent_registry.c */
        SOURCE_BPF,    /* agent_bpf.c */
        SOURCE_RUN_TOTALS, /* agent_run_totals.c: one for each run */
        SOURCE_RUN_TOTALS_LAST = SOURCE_RUN_TOTALS + RUN_TOTALS_MAX - 1,
        SOURCE_LIBTPU, /* agent_libtpu.c: it and all that follow: one for each metric of each port */
};

#define HOSTD_PARTS_MAX 32

struct agent {
        struct bus bus; /* the first member */
        void *states[HOSTD_PARTS_MAX]; /* in the order of agent.c's table */
        struct served *served; /* agent_routes.c */
        size_t n_served;
        bool up; /* all parts were started */

        bool notice_ahead[_METADATA_NOTICE_MAX]; /* agent_notice.c */

        struct host_metrics *host_metrics;
        struct agent_bpf *bpf;       /* in agent_bpf.c */
        struct watch_now watch_now[_WATCH_KIND_MAX];
        struct watch_round *watch_round; /* in agent_watch_capture.c */
        struct watch_call *watch_calls; /* in agent_watch_api.c */
        struct agent_libtpu *libtpu; /* in agent_libtpu.c */
        struct agent_run_totals *run_totals; /* in agent_run_totals.c; NULL: there are none */
        struct agent_deaths *deaths; /* in agent_deaths.c; NULL: they are not seen */
        struct agent_stack_files *stack_files; /* in agent_stack_files.c */
        struct {
                struct kernel_log *log; /* NULL: it is not watched */
                sd_event_source *source;
                unsigned batches; /* since the last tick */
                bool broken, mark_failed;
        } kernel; /* agent_kernel.c */
        struct run_log *run_log; /* NULL: no journal */
        struct run_lines *run_lines; /* NULL: no journal, or RunLogs=no */
        struct agent_progress *progress; /* in agent_progress.c */
        struct launchd_runs *runs;
        struct captures *captures;
        struct agent_capture *capture; /* in agent_capture.c */
        struct agent_events *events; /* in agent_events.c */
        struct agent_registry *enrollment; /* in agent_registry.c */
        struct run_signal *signals; /* runs that are being told of a notice, in agent_notice.c */
        struct http_server *api;
        struct agent_tls *tls; /* in agent_tls.c; NULL: not configured */
        struct agent_stopping *stopping; /* agent_stop.c; NULL: it goes on */
        sd_event_source *tick;
        bool ticking; /* the tick has found its moment: see arm() */
        usec_t runs_asked; /* boot clock: the last question outside the tick */
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
/*
 * Says that it stops, and ends the loop: as soon as what was recorded up to now is delivered, at once when no
 * endpoint takes it, and after 5 s in any case. Called again: at once.
 */
void agent_stop(struct agent *a);
/* Ends all parts. */
struct agent *agent_free(struct agent *a);
DEFINE_CLEANUP(struct agent *, agent_free)
/* SIGHUP: identity, wanted values and the settings that can change are read again. */
void agent_reload(struct agent *a);

/* --- Used by the agent's own files --------------------------------------------------------------------- */


void agent_stop_clear(struct bus *b);

/* agent_notice.c: what is to happen to this host, as the metadata server says. */
/* text: the server's word. The event, and what runs are told. */
void agent_preempted(struct bus *b, enum metadata_notice kind, const char *text);
void agent_preemption_over(struct bus *b, enum metadata_notice kind, const char *text);
/* "preemption", "maintenance", or empty: the gravest that is ahead; the word of a member's record. */
const char *agent_notice(const struct bus *b);

void agent_signal_stop(struct bus *b);

/* agent_registry.c: the slice that this host is in, and what is told of it. */
int agent_registry_start(struct bus *b);
void agent_registry_stop(struct bus *b);
/* Identity or settings may be other ones now. */
void agent_registry_look(struct bus *b);
/* What the registry is told of this host may be another thing now: health, orders, runs. */
void agent_registry_news(struct bus *b);
/* A suspicion began, counts now, or ended: told at once, with the steps of now. */
void agent_registry_suspicion(struct bus *b);
/* tpu-launchd's list of runs is another one. */
void agent_registry_runs(struct bus *b);
/* In the tick. */
void agent_registry_tick(struct bus *b);
/* Adds registry and slice to the status. The reference is taken over; NULL: out of memory. */
json_t *agent_registry_to_status(struct bus *b, json_t *status);

/* agent_kernel.c: the kernel log. A log that cannot be read is said and no failure. */
int agent_kernel_start(struct bus *b);
/* Its numbers; what may be told now is told, and it is listened to again. */
void agent_kernel_tick(struct bus *b, struct sink *s);
/* Tells what waits. */
void agent_kernel_stop(struct bus *b);

/* agent_runs.c: runs and captures. */
int agent_runs_start(struct bus *b);
/* agent_capture.c: this host's part in captures for a diagnosis. */
int agent_capture_start(struct bus *b);
void agent_capture_stop(struct bus *b);
/* The registry may be back, or led by another collector; other: it is another one altogether. */
void agent_capture_registry(struct bus *b, bool other);
/* The record capture/ of this host's slice. fresh: it came while the registry was there, and is not of long ago. */
void agent_capture_record(struct bus *b, const json_t *record, bool fresh);
/* A suspicion that counts began: without a registry that would ask all hosts, this one captures for itself. */
void agent_capture_suspected(struct bus *b, const char *run, uint64_t generation, const struct suspicion *s);
const char *agent_capture_directory(const struct bus *b);
/* One capture of the run ("": of the one that runs here) for somebody: agent_capture_answered() follows. -EBUSY. */
int agent_capture_order(struct bus *b, const char *run, void *token);
/* data: the capture; NULL: why there is none. */
void agent_capture_answered(void *token, const uint8_t *data, size_t len, const char *why);
/* How this host suspects the run now: "stall", "work", "pause"; empty: not at all. */
const char *agent_capture_suspicion(const struct bus *b, const char *run);

/* agent_progress.c: whether runs make steps. */
int agent_progress_start(struct bus *b);
void agent_progress_stop(struct bus *b);
void agent_progress_line(struct bus *b, const struct run_log_line *l);
/* tpu-launchd says that the run was started, is over. */
void agent_progress_started(struct bus *b, const struct host_run *run);
void agent_progress_ended(struct bus *b, const char *run);
/* In the tick, after the host's counters were read: the metrics of it. */
void agent_progress_tick(struct bus *b, struct sink *s);
/* NULL: it is not suspected. Valid until the loop turns. */
const struct suspicion *agent_suspicion(const struct bus *b, const char *run);
/* SUSPICION_STEP_NONE: not known. */
uint64_t agent_last_step(const struct bus *b, const char *run);
/* Its log told of a pause (checkpoint, compile, evaluation) behind its last step, and not of its end. */
bool agent_pause_announced(const struct bus *b, const char *run);
/* The share of its time that went into steps, 0 to 1; NAN: not known. */
double agent_goodput(const struct bus *b, const char *run);
/* The time from one step line to the next that is expected of it; 0: not known. */
usec_t agent_step_time(const struct bus *b, const char *run);

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

/* agent_api.c */
/* A capture that a call waits for has ended. */
void agent_capture_finished(void *token, unsigned status, const struct capture_result *c, const char *error,
                            const char *remedy, void *userdata);


/* agent_tls.c: the query API over TCP, its certificate, and the checks of both. */
int agent_tls_start(struct bus *b);
/* In the tick: files that changed are read, and it listens as soon as it can. */
void agent_tls_look(struct bus *b);
void agent_tls_judge(struct bus *b);
/* The settings may be other ones now. */
void agent_tls_reload(struct bus *b);
void agent_tls_stop(struct bus *b);
