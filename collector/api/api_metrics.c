/* SPDX-License-Identifier: Apache-2.0 */
#include "api_calls.h"
#include "exposition.h"
#include "counters.h"
#include "host.h"
#include "proc_pid.h"

static const unsigned statuses[COUNTERS_STATUSES_N] = COUNTERS_STATUSES;

static void print_requests(struct exposition *e, const struct counters *c) {
        static const char *const paths[_COUNTERS_PATH_MAX] = { "/v1/metrics", "/v1/logs", "other" };
        static const struct exposition_family family = { .name = "tpu_collectord_requests",
                                                         .help = "OTLP requests answered.",
                                                         .kind = EXPOSITION_COUNTER };

        exposition_family(e, &family);
        for (size_t i = 0; i < _COUNTERS_PATH_MAX; i++)
                for (size_t s = 0; s < COUNTERS_STATUSES_N; s++) {
                        char code[16] = "other";
                        const struct exposition_label labels[] = { { "path", paths[i] }, { "code", code } };

                        if (c->requests[i][s] == 0)
                                continue;
                        if (statuses[s])
                                (void) snprintf(code, sizeof(code), "%u", statuses[s]);
                        exposition_int(e, labels, ELEMENTSOF(labels), (int64_t) c->requests[i][s]);
                }
}

static void print_build(struct exposition *e) {
        static const struct exposition_family family = { .name = "tpu_collectord_build",
                                                         .help = "The program that says these numbers.",
                                                         .kind = EXPOSITION_INFO };
        static const struct exposition_label version = { "version", TPU_HOSTD_VERSION };

        exposition_family(e, &family);
        exposition_int(e, &version, 1, 1);
}

static void print_process(struct exposition *e) {
        static const struct exposition_family cpu = { "process_cpu_seconds",
                                                      "CPU time of the collector, user and system.",
                                                      EXPOSITION_COUNTER },
                                              memory = { "process_resident_memory_bytes",
                                                         "Resident memory of the collector.",
                                                         EXPOSITION_GAUGE };
        _cleanup_host_ struct host host = HOST_NULL;
        struct process_cost cost;

        if (host_open(NULL, &host) < 0 || process_cost_read(&host, &cost) < 0)
                return; /* what the kernel does not tell is left out */
        exposition_family(e, &cpu);
        exposition_real(e, NULL, 0, cost.cpu_seconds);
        exposition_family(e, &memory);
        exposition_int(e, NULL, 0, (int64_t) cost.resident_memory);
}

static void print_hosts(struct exposition *e, const struct fleet_sum *sum) {
        static const struct exposition_family family = {
                .name = "tpu_collectord_hosts",
                .help = "Hosts by what their agents said last; silent ones are counted apart."
        };
        const struct {
                const char *state;
                size_t n;
        } counts[] = {
                { "ready", sum->ready },     { "degraded", sum->degraded }, { "unfit", sum->unfit },
                { "unknown", sum->unknown }, { "silent", sum->silent },
        };

        exposition_family(e, &family);
        for (size_t i = 0; i < ELEMENTSOF(counts); i++) {
                const struct exposition_label state = { "state", counts[i].state };

                exposition_int(e, &state, 1, (int64_t) counts[i].n);
        }
}

struct row {
        struct exposition_family family;
        double value;
};

static void print_rows(struct exposition *e, const struct row *rows, size_t n) {
        for (size_t i = 0; i < n; i++) {
                exposition_family(e, &rows[i].family);
                exposition_real(e, NULL, 0, rows[i].value);
        }
}

#define COUNTED(name, help, value) { { name, help, EXPOSITION_COUNTER }, (double) (value) }
#define GAUGED(name, help, value)  { { name, help, EXPOSITION_GAUGE }, (double) (value) }

static void print_counters(struct exposition *e, const struct counters *c) {
        const struct row rows[] = {
                COUNTED("tpu_collectord_received_bytes", "Bytes of OTLP bodies, as they came.",
                        c->bytes),
                COUNTED("tpu_collectord_points", "Metric points stored.", c->points),
                COUNTED("tpu_collectord_events", "Log records stored, but for lines of runs.",
                        c->events),
                COUNTED("tpu_collectord_run_lines", "Lines that runs printed, stored.", c->lines),
                COUNTED("tpu_collectord_captures", "Captures of stacks stored.", c->captures),
                COUNTED("tpu_collectord_rejected", "Points and log records reported as rejected.",
                        c->rejected),
                COUNTED("tpu_collectord_refused_for_another_host",
                        "Calls of agents that were refused because their certificate is another host's.",
                        c->not_proved),
                COUNTED("tpu_collectord_commits", "Transactions committed.", c->commits),
                COUNTED("tpu_collectord_duplicates",
                        "Pushes that were stored before and answered 200.", c->duplicates),
                COUNTED("tpu_collectord_databases_replaced",
                        "Damaged databases that were moved aside.", c->started_over),
        };

        print_requests(e, c);
        print_rows(e, rows, ELEMENTSOF(rows));
}

static void print_database(struct exposition *e, const struct store_size *size, uint64_t line_bytes) {
        const struct row rows[] = {
                GAUGED("tpu_collectord_database_bytes", "Size of the database file.", size->file),
                GAUGED("tpu_collectord_database_used_bytes",
                       "The same without free pages, what RetainBytes= limits.", size->used),
                GAUGED("tpu_collectord_retention_ratio",
                       "What RetainBytes= leaves of the age of series.", size->squeeze),
                COUNTED("tpu_collectord_damaged_rows", "Rows of series that could not be read.",
                        size->damaged_rows),
                GAUGED("tpu_collectord_run_line_bytes", "Bytes of the lines of runs that are kept.",
                       line_bytes),
        };

        print_rows(e, rows, ELEMENTSOF(rows));
}

/* Of a collector that hands nothing on they are 0. */
static const struct remote_counters *handed(const struct api *a, enum remote_what what) {
        static const struct remote_counters none;

        return a->remote ? remote_write_counters(a->remote, what) : &none;
}

static void print_remote(struct exposition *e, const struct api *a, const struct handover_state *store) {
        const struct exposition_family refused = {
                .name = "tpu_collectord_remote_refused_samples",
                .help = "Samples that their receiver refused for good, by reason.",
                .kind = EXPOSITION_COUNTER
        };
        const struct remote_counters *c = handed(a, REMOTE_POINTS);
        usec_t behind = a->remote ? remote_write_behind(a->remote) : 0;
        const struct row rows[] = {
                COUNTED("tpu_collectord_remote_written_samples", "Samples handed on.", c->written),
                COUNTED("tpu_collectord_remote_failures", "Requests to hand on that are tried again.",
                        c->failures + handed(a, REMOTE_EVENTS)->failures +
                                handed(a, REMOTE_LINES)->failures),
                COUNTED("tpu_collectord_remote_expired_pushes",
                        "Pushes that retention removed before they were handed on.", store->expired),
                GAUGED("tpu_collectord_remote_waiting_pushes", "Pushes that wait to be handed on.",
                       store->waiting),
                GAUGED("tpu_collectord_remote_behind_seconds", "How long something may have waited.",
                       (double) behind / (double) USEC_PER_SEC),
        };

        print_rows(e, rows, ELEMENTSOF(rows));
        exposition_family(e, &refused);
        for (enum remote_reason i = 0; i < _REMOTE_REASON_MAX; i++) {
                const struct exposition_label reason = { "reason", remote_reason_name(i) };

                exposition_int(e, &reason, 1, (int64_t) c->refused[i]);
        }
}

/* The same of events and lines, which OTLP alone hands on. */
static const struct {
        enum remote_what what;
        const char *kind;
} records[] = { { REMOTE_EVENTS, "events" }, { REMOTE_LINES, "lines" } };

static void print_refused_records(struct exposition *e, const struct api *a) {
        static const struct exposition_family family = {
                .name = "tpu_collectord_remote_refused_records",
                .help = "Events and lines that their receiver refused for good, by reason.",
                .kind = EXPOSITION_COUNTER
        };

        exposition_family(e, &family);
        for (size_t i = 0; i < ELEMENTSOF(records); i++)
                for (enum remote_reason k = 0; k < _REMOTE_REASON_MAX; k++) {
                        const struct exposition_label labels[] = { { "kind", records[i].kind },
                                                                   { "reason", remote_reason_name(k) } };

                        exposition_int(e, labels, ELEMENTSOF(labels),
                                       (int64_t) handed(a, records[i].what)->refused[k]);
                }
}

static void print_records(struct exposition *e, const struct api *a,
                          const uint64_t waiting[static ELEMENTSOF(records)]) {
        static const struct exposition_family families[] = {
                { "tpu_collectord_remote_written_records", "Events and lines handed on.",
                  EXPOSITION_COUNTER },
                { "tpu_collectord_remote_expired_records",
                  "Events and lines that retention removed before they were handed on.",
                  EXPOSITION_COUNTER },
                { "tpu_collectord_remote_waiting_records", "Events and lines that wait to be handed on.",
                  EXPOSITION_GAUGE },
        };

        for (size_t f = 0; f < ELEMENTSOF(families); f++) {
                exposition_family(e, &families[f]);
                for (size_t i = 0; i < ELEMENTSOF(records); i++) {
                        const struct remote_counters *c = handed(a, records[i].what);
                        const uint64_t values[ELEMENTSOF(families)] = { c->written, c->expired, waiting[i] };
                        const struct exposition_label kind = { "kind", records[i].kind };

                        exposition_int(e, &kind, 1, (int64_t) values[f]);
                }
        }
        print_refused_records(e, a);
}

static int count_waiting(const struct api *a, uint64_t ret[static ELEMENTSOF(records)]) {
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(records) && a->remote && r >= 0; i++)
                r = remote_write_waiting(a->remote, records[i].what, &ret[i]);
        return r;
}

static void print_registry(struct exposition *e, struct registry *r) {
        const struct registry_counters *c = registry_counters(r);
        const struct row rows[] = {
                GAUGED("tpu_collectord_registry_members",
                       "Hosts whose lease in the registry has not ended.", registry_members(r)),
                GAUGED("tpu_collectord_registry_leads",
                       "Whether this collector leads (1) or another does (0).", registry_leads(r)),
                COUNTED("tpu_collectord_registry_elsewhere",
                        "Requests of hosts that came while another collector led, or none.", c->elsewhere),
                COUNTED("tpu_collectord_registry_syncs", "Requests of hosts to the registry.",
                        c->syncs),
                COUNTED("tpu_collectord_registry_answers",
                        "Answers with records, or after the time to wait.", c->answers),
                COUNTED("tpu_collectord_registry_answered_bytes", "Bytes of these answers.",
                        c->answered_bytes),
                COUNTED("tpu_collectord_registry_refused",
                        "Requests that could not be understood or taken.", c->refused),
                COUNTED("tpu_collectord_registry_leases_ended", "Hosts that fell silent.", c->expired),
                COUNTED("tpu_collectord_registry_decisions", "Times that the planner decided.",
                        c->decisions),
                COUNTED("tpu_collectord_registry_decision_seconds",
                        "Time that this took, commits included.",
                        (double) c->decided / (double) USEC_PER_SEC),
                COUNTED("tpu_collectord_registry_failed_commits",
                        "Decisions that the database did not take at once.", c->failed_commits),
        };

        print_rows(e, rows, ELEMENTSOF(rows));
}

static int count_hosts(const struct api *a, struct fleet_sum *ret_sum, struct store_size *ret_size) {
        json_t *hosts, *host;
        size_t i;
        int r = fleet_list(a, &(struct fleet_filter){ .name = NULL }, &hosts);

        if (r < 0)
                return r;
        json_array_foreach (hosts, i, host)
                fleet_sum_add(ret_sum, host);
        json_decref(hosts);
        return store_size(a->store, ret_size);
}

void api_metrics(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct fleet_sum sum = { .hosts = 0 };
        struct exposition e;
        struct store_size size;
        struct handover_state handover = { 0 };
        uint64_t lines = 0, waiting[ELEMENTSOF(records)] = { 0 };
        char *text;
        size_t len;
        int r;

        (void) q;
        r = count_hosts(a, &sum, &size);
        if (r >= 0)
                r = store_line_bytes(a->store, &lines);
        if (r >= 0)
                r = store_handover_state(a->store, &handover);
        if (r >= 0)
                r = count_waiting(a, waiting);
        if (r >= 0)
                r = exposition_begin(&e);
        if (r >= 0) {
                print_build(&e);
                print_process(&e);
                print_counters(&e, a->counters);
                print_hosts(&e, &sum);
                print_database(&e, &size, lines);
                print_remote(&e, a, &handover);
                print_records(&e, a, waiting);
                if (a->registry)
                        print_registry(&e, a->registry);
                r = exposition_end(&e, &text, &len);
        }
        if (r < 0) {
                api_reply_result(reply, a, r, NULL);
                return;
        }
        *reply = (struct http_reply) {
                .status = 200, .content_type = EXPOSITION_TYPE, .body = text, .len = len
        };
}
