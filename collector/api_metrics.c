/* SPDX-License-Identifier: Apache-2.0 */
#include "api_json.h"
#include "fleet.h"
#include "host.h"
#include "process_cost.h"

static void print_build(struct exposition *e) {
        static const struct exposition_family family = { .name = "tpu_collectord_build",
                                                         .help = "The program that says these numbers.",
                                                         .kind = EXPOSITION_INFO };
        static const struct exposition_label version = { "version", TPU_HOSTD_VERSION };

        exposition_family(e, &family);
        exposition_int(e, &version, 1, 1);
}

static void print_process(struct exposition *e) {
        static const struct exposition_family cpu = { "process_cpu_seconds", "seconds",
                                                      "CPU time of the collector, user and system.",
                                                      EXPOSITION_COUNTER },
                                              memory = { "process_resident_memory_bytes", "bytes",
                                                         "Resident memory of the collector.", EXPOSITION_GAUGE };
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

static void print_database(struct exposition *e, const struct store_size *size) {
        const struct {
                struct exposition_family family;
                double value;
        } rows[] = {
                { { "tpu_collectord_database_bytes", "bytes", "Size of the database file.", EXPOSITION_GAUGE },
                  (double) size->file },
                { { "tpu_collectord_database_used_bytes", "bytes",
                    "The same without free pages, what RetainBytes= limits.", EXPOSITION_GAUGE },
                  (double) size->used },
                { { "tpu_collectord_retention_ratio", "ratio",
                    "What RetainBytes= leaves of the age of series.", EXPOSITION_GAUGE },
                  size->squeeze },
                { { "tpu_collectord_damaged_rows", NULL, "Rows of series that could not be read.",
                    EXPOSITION_COUNTER },
                  (double) size->damaged_rows },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                exposition_family(e, &rows[i].family);
                exposition_real(e, NULL, 0, rows[i].value);
        }
}

static void print_registry(struct exposition *e, struct registry *r) {
        const struct registry_counters *c = registry_counters(r);
        const struct {
                struct exposition_family family;
                double value;
        } rows[] = {
                { { "tpu_collectord_registry_members", NULL,
                    "Hosts whose lease in the registry has not ended.", EXPOSITION_GAUGE },
                  registry_members(r) },
                { { "tpu_collectord_registry_leads", NULL,
                    "Whether this collector leads (1) or another does (0).", EXPOSITION_GAUGE },
                  registry_leads(r) },
                { { "tpu_collectord_registry_elsewhere", NULL,
                    "Requests of hosts that came while another collector led, or none.",
                    EXPOSITION_COUNTER },
                  (double) c->elsewhere },
                { { "tpu_collectord_registry_syncs", NULL, "Requests of hosts to the registry.",
                    EXPOSITION_COUNTER },
                  (double) c->syncs },
                { { "tpu_collectord_registry_answers", NULL,
                    "Answers with records, or after the time to wait.", EXPOSITION_COUNTER },
                  (double) c->answers },
                { { "tpu_collectord_registry_answered_bytes", "bytes", "Bytes of these answers.",
                    EXPOSITION_COUNTER },
                  (double) c->answered_bytes },
                { { "tpu_collectord_registry_refused", NULL,
                    "Requests that could not be understood or taken.", EXPOSITION_COUNTER },
                  (double) c->refused },
                { { "tpu_collectord_registry_leases_ended", NULL, "Hosts that fell silent.",
                    EXPOSITION_COUNTER },
                  (double) c->expired },
                { { "tpu_collectord_registry_decisions", NULL, "Times that the planner decided.",
                    EXPOSITION_COUNTER },
                  (double) c->decisions },
                { { "tpu_collectord_registry_decision_seconds", "seconds",
                    "Time that this took, commits included.", EXPOSITION_COUNTER },
                  (double) c->decided / (double) USEC_PER_SEC },
                { { "tpu_collectord_registry_failed_commits", NULL,
                    "Decisions that the database did not take at once.", EXPOSITION_COUNTER },
                  (double) c->failed_commits },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                exposition_family(e, &rows[i].family);
                exposition_real(e, NULL, 0, rows[i].value);
        }
}

static void print_lines(struct exposition *e, uint64_t bytes) {
        static const struct exposition_family family = { "tpu_collectord_run_line_bytes", "bytes",
                                                         "Bytes of the lines of runs that are kept.",
                                                         EXPOSITION_GAUGE };

        exposition_family(e, &family);
        exposition_int(e, NULL, 0, (int64_t) bytes);
}

static int look(const struct api *a, struct fleet_sum *ret_sum, struct store_size *ret_size) {
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
        bool open_metrics = exposition_wants_open_metrics(http_header(q, "Accept"));
        struct fleet_sum sum = { .hosts = 0 };
        struct exposition e;
        struct store_size size;
        uint64_t lines = 0;
        char *text;
        size_t len;
        int r;

        r = look(a, &sum, &size);
        if (r >= 0)
                r = store_line_bytes(a->store, &lines);
        if (r >= 0)
                r = exposition_begin(&e, open_metrics);
        if (r >= 0) {
                print_build(&e);
                print_process(&e);
                counters_print(&e, a->counters);
                print_hosts(&e, &sum);
                print_database(&e, &size);
                print_lines(&e, lines);
                if (a->registry)
                        print_registry(&e, a->registry);
                r = exposition_end(&e, &text, &len);
        }
        if (r < 0) {
                api_reply_result(reply, a, r, NULL);
                return;
        }
        *reply = (struct http_reply) {
                .status = 200, .content_type = exposition_type(open_metrics), .body = text, .len = len
        };
}
