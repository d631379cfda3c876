/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one struct that owns everything tpu-hostd has, and how its parts are wired: probes → checks and
 * samples → state, events, metrics → uplink; journal and launchd → runs; the query API on top of all.
 */
#include <jansson.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "base.h"
#include "capture.h"
#include "checks.h"
#include "event_ring.h"
#include "host.h"
#include "host_metrics.h"
#include "http_server.h"
#include "identity.h"
#include "intent.h"
#include "launchd_runs.h"
#include "kernel_log.h"
#include "machine.h"
#include "metadata.h"
#include "metadata_copy.h"
#include "netcfg_call.h"
#include "orders.h"
#include "probe.h"
#include "run_lines.h"
#include "run_log.h"
#include "samples.h"
#include "private_program.h"
#include "schedule.h"
#include "run_totals.h"
#include "settings.h"
#include "suspicion.h"
#include "telemetry.h"
#include "uplink.h"

/* Who a finding or a sample comes from, beside the probes (which are numbered from 0). */
enum agent_source {
        SOURCE_AGENT = SCHEDULE_PROBES_MAX,
        SOURCE_IDENTITY,
        SOURCE_RUNS,
        SOURCE_HEALTH,
        SOURCE_METADATA,
        SOURCE_HOST, /* host_metrics.h */
        SOURCE_RUN_GROUPS,
        SOURCE_KERNEL,
        SOURCE_ENROLL, /* agent_registry.c */
        SOURCE_NET, /* agent_net.c */
        SOURCE_BPF,    /* agent_bpf.c */
        SOURCE_RUN_TOTALS, /* agent_run_totals.c: one for each run */
        SOURCE_RUN_TOTALS_LAST = SOURCE_RUN_TOTALS + RUN_TOTALS_MAX - 1,
        SOURCE_LIBTPU, /* agent_libtpu.c: it and all that follow: one for each metric of each port */
};

struct agent {
        sd_event *event; /* borrowed from main */
        const struct host *host;
        const char *config_file;
        struct settings settings;

        struct identity identity;
        struct intent intent;
        struct probe_context context;
        struct machine_type machine; /* of the context: read once, and at a reload */
        char name[HOST_NAME_SIZE], boot_id[BOOT_ID_MAX], machine_id[40], chips_source[160];
        usec_t started_real, boot_real; /* boot_real: when this boot began, what counters count from */
        struct {
                usec_t since; /* the minute they are counted in */
                unsigned n;
        } refusals[2]; /* of acting calls: local, remote */

        struct metadata *metadata; /* NULL: no server is asked */
        struct file_writer *metadata_writer;
        sd_event_source *metadata_patience; /* its end: the last good copy stands in */
        struct metadata_copy known; /* what is believed of this host by metadata; taken is 0: nothing */
        char known_origin[METADATA_ORIGIN_MAX];
        struct mtu_handover *mtu_handover; /* NULL: nobody is told */
        bool notice_ahead[_METADATA_NOTICE_MAX]; /* agent_notice.c */

        struct check_table checks;
        enum host_state state;
        bool watching; /* every probe has run once: before that, the state is no news */
        bool orders_news;  /* what people ordered changed since the state was told */
        bool status_stale; /* what systemctl status shows is not what is so */
        struct sample_store samples;
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
        struct event_ring ring;
        struct telemetry telemetry;
        struct uplink *uplink;
        struct probe_program probe_program;
        struct schedule *schedule;
        struct run_log *run_log; /* NULL: no journal */
        struct run_lines *run_lines; /* NULL: no journal, or RunLogs=no */
        struct agent_progress *progress; /* in agent_progress.c */
        struct launchd_runs *runs;
        struct captures *captures;
        struct agent_capture *capture; /* in agent_capture.c */
        struct agent_call *calls; /* that are answered later, in agent_caller.c */
        struct agent_path *path; /* in agent_path.c */
        struct agent_net *net; /* in agent_net.c */
        struct orders order_list;
        struct agent_orders *orders; /* in agent_orders.c */
        struct agent_events *events; /* in agent_events.c */
        struct agent_registry *enrollment; /* in agent_registry.c */
        struct run_signal *signals; /* runs that are being told of a notice, in agent_notice.c */
        struct http_server *api;
        struct agent_tls *tls; /* in agent_tls.c; NULL: not configured */
        struct agent_stopping *stopping; /* agent_stop.c; NULL: it goes on */
        sd_event_source *tick;
        bool ticking; /* the tick has found its moment: see arm() */
        unsigned ticks;
        uint64_t damaged[_UPLINK_CLASS_MAX], table_full;
        usec_t runs_asked; /* boot clock: the last question outside the tick */
};

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

/* To the journal and the ring alone: what others tell the fleet. */
void agent_note(struct agent *a, const struct event *e);
/* To the journal, the ring and the uplink. ret_seq (may be NULL): the record's. Returns what the uplink
 * said. */
int agent_emit(struct agent *a, const struct event *e, uint64_t *ret_seq);
/* One finding, and what follows from it. */
void agent_take_finding(struct agent *a, unsigned source, unsigned run, const struct finding *f);
/* After the findings of one run: forgets what was not reported, and says it when the host's state changed.
 */
void agent_settle(struct agent *a, unsigned source, unsigned run);
/* A sample of the agent's own: start_real for counters. */
void agent_take_sample(struct agent *a, unsigned source, unsigned run, const struct sample *m,
                       usec_t start_real);

/* The event that says so. */
void agent_stop_tell(struct agent *a);
void agent_stop_clear(struct agent *a);

/* agent_tick.c: every MetricsInterval. */
int agent_tick_start(struct agent *a);
void agent_tick(struct agent *a);
/* The metrics and the check of the agent's own, without pushing. */
void agent_collect(struct agent *a);

/* Identity and wanted values are read again, and what follows from them. */
void agent_look_again(struct agent *a);

/* agent_uplink.c: where records go, with which certificates, and the checks of it. */
/* "credential:NAME" becomes the file in which systemd keeps it for this service. Logs what is wrong. */
int agent_tls_path(const char *key, const char *value, char ret[static TLS_PATH_MAX]);
int agent_uplink_start(struct agent *a);
/* In the tick, before the statistics are read. */
void agent_uplink_look(struct agent *a);
void agent_uplink_judge(struct agent *a, const struct uplink_stats *u);
void agent_uplink_stop(struct agent *a);

/* agent_metadata.c: the metadata server, its last good copy, and what tpu-netcfg is told of it. */
int agent_metadata_start(struct agent *a);
/* What the static file does not give, and what follows from it. -ENOMEM. */
int agent_metadata_fill(struct agent *a, struct identity *i);
/* The check of the server, in the tick. */
void agent_metadata_judge(struct agent *a);
void agent_metadata_stop(struct agent *a);

/* agent_notice.c: what is to happen to this host, as the metadata server says. */
/* text: the server's word. The event, and what runs are told. */
void agent_preempted(struct agent *a, enum metadata_notice kind, const char *text);
void agent_preemption_over(struct agent *a, enum metadata_notice kind, const char *text);
/* "preemption", "maintenance", or empty: the gravest that is ahead; the word of a member's record. */
const char *agent_notice(const struct agent *a);

void agent_signal_stop(struct agent *a);

/* agent_registry.c: the slice that this host is in, and what is told of it. */
int agent_registry_start(struct agent *a);
void agent_registry_stop(struct agent *a);
/* Identity or settings may be other ones now. */
void agent_registry_look(struct agent *a);
/* What the registry is told of this host may be another thing now: health, orders, runs. */
void agent_registry_news(struct agent *a);
/* A suspicion began, counts now, or ended: told at once, with the steps of now. */
void agent_registry_suspicion(struct agent *a);
/* tpu-launchd's list of runs is another one. */
void agent_registry_runs(struct agent *a);
/* In the tick. */
void agent_registry_tick(struct agent *a);
/* Adds registry and slice to the status. The reference is taken over; NULL: out of memory. */
json_t *agent_registry_to_status(struct agent *a, json_t *status);

/* agent_kernel.c: the kernel log. A log that cannot be read is said and no failure. */
int agent_kernel_start(struct agent *a);
/* Its numbers; what may be told now is told, and it is listened to again. */
void agent_kernel_tick(struct agent *a, struct sink *s);
/* Tells what waits. */
void agent_kernel_stop(struct agent *a);

/* agent_runs.c: runs and captures. */
int agent_runs_start(struct agent *a);
/* The run of this host, as long as one alone lives; else "": whose a thing is that names no run. */
const char *agent_only_run(const struct agent *a);
/* What is configured, else this machine's own; with another root nothing of the machine is that host's:
 * NULL. */
const char *agent_own(const struct agent *a, const char *configured, const char *own);
/* NULL: nobody answers there. */
const char *agent_launchd_socket(const struct agent *a);
/* How many runs live here, as far as tpu-launchd says. */
size_t agent_count_runs(const struct agent *a);

/* agent_capture.c: this host's part in captures for a diagnosis. */
int agent_capture_start(struct agent *a);
void agent_capture_stop(struct agent *a);
/* The registry may be back, or led by another collector; other: it is another one altogether. */
void agent_capture_registry(struct agent *a, bool other);
/* The record capture/ of this host's slice. fresh: it came while the registry was there, and is not of long ago. */
void agent_capture_record(struct agent *a, const json_t *record, bool fresh);
/* A suspicion that counts began: without a registry that would ask all hosts, this one captures for itself. */
void agent_capture_suspected(struct agent *a, const char *run, uint64_t generation, const struct suspicion *s);
const char *agent_capture_directory(const struct agent *a);
/* One capture of the run ("": of the one that runs here) for somebody: agent_capture_answered() follows. -EBUSY. */
int agent_capture_order(struct agent *a, const char *run, void *token);
/* data: the capture; NULL: why there is none. */
void agent_capture_answered(void *token, const uint8_t *data, size_t len, const char *why);
/* How this host suspects the run now: "stall", "work", "pause"; empty: not at all. */
const char *agent_capture_suspicion(const struct agent *a, const char *run);

/* agent_progress.c: whether runs make steps. */
int agent_progress_start(struct agent *a);
void agent_progress_stop(struct agent *a);
void agent_progress_line(struct agent *a, const struct run_log_line *l);
/* tpu-launchd says that the run was started, is over. */
void agent_progress_started(struct agent *a, const struct launchd_run *run);
void agent_progress_ended(struct agent *a, const char *run);
/* In the tick, after the host's counters were read: the metrics of it. */
void agent_progress_tick(struct agent *a, struct sink *s);
/* NULL: it is not suspected. Valid until the loop turns. */
const struct suspicion *agent_suspicion(const struct agent *a, const char *run);
/* SUSPICION_STEP_NONE: not known. */
uint64_t agent_last_step(const struct agent *a, const char *run);
/* Its log told of a pause (checkpoint, compile, evaluation) behind its last step, and not of its end. */
bool agent_pause_announced(const struct agent *a, const char *run);
/* The share of its time that went into steps, 0 to 1; NAN: not known. */
double agent_goodput(const struct agent *a, const char *run);
/* The time from one step line to the next that is expected of it; 0: not known. */
usec_t agent_step_time(const struct agent *a, const char *run);

/* agent_routes.c: the calls of docs/api.md. */
/* Serves them on fd, which is taken over: a Unix socket, or with a certificate TCP, where nobody may call
 * before http_server_allow(). */
int agent_api_serve(struct agent *a, int fd, struct server_certificate *certificate,
                    struct http_server **ret);

/* agent_events.c: those who wait for events. */
int agent_events_start(struct agent *a);
/* There is one more. */
void agent_events_news(struct agent *a);
/* Answers all who wait. */
void agent_events_stop(struct agent *a);

/* agent_api.c: what answers are made with. */
/* An answer's body; the reference is taken over, NULL means that memory ran out. Return 0. */
int agent_answer_json(struct http_reply *ret, unsigned status, json_t *v);
int agent_answer_error(struct http_reply *ret, unsigned status, const char *remedy, const char *fmt, ...)
        _printf_(4, 5);
/* A capture that a call waits for has ended. */
void agent_capture_finished(void *token, unsigned status, const struct capture_result *c, const char *error,
                            const char *remedy, void *userdata);

/* Says it when the host's state or what people ordered is another one now. */
void agent_tell_state(struct agent *a);

/* agent_orders.c: what people ordered, and the file that it and the health of checks outlive the agent in.
 */
int agent_orders_start(struct agent *a); /* before the first finding */
void agent_orders_stop(struct agent *a);
void agent_orders_save(struct agent *a);
void agent_orders_tick(struct agent *a);  /* what has come to its end */
void agent_orders_mark(struct agent *a);  /* which checks are silenced */
/* PUT or DELETE of /v1/cordon, /v1/drain, /v1/observe, /v1/silence. */
int agent_orders_call(struct agent *a, const struct http_request *r, struct http_reply *ret);
json_t *agent_orders_status(struct agent *a, json_t *status);
/* "cordoned by root: bad cable; …", empty when nothing is ordered. Returns buf. */
const char *agent_orders_text(struct agent *a, char *buf, size_t size);

/* Whether the agents of this host change nothing: by configuration, or by order. */
bool agent_observes(const struct agent *a);

/* agent_caller.c: who may make which call, and the trace that acting calls leave. */
#define AGENT_CALLER_MAX 360
/* "uid 0 (pid 12)" or "spiffe://site/x from 10.0.0.7". Returns buf. */
const char *agent_caller_text(const struct http_caller *c, char buf[static AGENT_CALLER_MAX]);
/* Root of this very host. */
bool agent_caller_is_root(const struct http_caller *c);
/* Who may decide about everybody's runs on this host. */
bool agent_caller_may_order(const struct http_caller *c);
/* What no call needs to look at: strangers, and readers who would act. True: *ret says why. */
bool agent_caller_is_refused(struct agent *a, const struct http_request *r, struct http_reply *ret);
/* Forgets the calls that still wait. */
void agent_calls_clear(struct agent *a);
/* Says why to the caller and in the trace. what: NULL: method and path. Returns 0. */
int agent_refuse(struct agent *a, const struct http_request *r, struct http_reply *ret, const char *what,
                 unsigned status, const char *why, const char *remedy);
/* The event of an acting call. */
void agent_audit(struct agent *a, const char *call, const struct http_caller *who, const char *result);
/* The same of a refused one: beyond some a minute, the journal alone is told. */
void agent_audit_refusal(struct agent *a, const char *call, const struct http_caller *who, const char *result);

/* agent_tls.c: the query API over TCP, its certificate, and the checks of both. */
int agent_tls_start(struct agent *a);
/* In the tick: files that changed are read, and it listens as soon as it can. */
void agent_tls_look(struct agent *a);
void agent_tls_judge(struct agent *a);
/* The settings may be other ones now. */
void agent_tls_reload(struct agent *a);
void agent_tls_stop(struct agent *a);

/* agent_path.c: full-size packets to the peers, for the API's callers. */
int agent_path_start(struct agent *a);
void agent_path_stop(struct agent *a);
/* The configured peers are read again. */
void agent_path_reload(struct agent *a);
int agent_path_get(struct agent *a, const struct http_request *r, struct http_reply *ret);
int agent_path_post(struct agent *a, const struct http_request *r, struct http_reply *ret);
