/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_part.h"

#include <unistd.h>

#include "proc_pid.h"

struct metrics_state {
        struct bus *bus;
        struct host_metrics *host;
};

static void sample_agent(const struct bus *b, struct sink *s) {
        struct process_cost cost;

        if (process_cost_read(b->host, &cost) < 0)
                return; /* a folder of fixtures has no such files */
        put_double(s, METRIC_PROCESS_CPU, cost.cpu_seconds, NULL, NULL, NULL);
        put_uint(s, METRIC_PROCESS_MEMORY, cost.resident_memory, NULL, NULL, NULL);
}

static void sample_state(struct bus *b, struct sink *s) {
        /* bus->state is the reported one: behind the first round */
        enum host_state now = check_table_state(&b->checks);

        for (enum host_state state = 0; state < _HOST_STATE_MAX; state++)
                put_int(s, METRIC_HOST_STATE, state == now, host_state_name(state), NULL, NULL);
        for (enum order_kind k = 0; k < ORDER_SILENCE; k++)
                put_int(s, METRIC_HOST_ORDERED, orders_find(&b->orders, k) != NULL, order_kind_name(k), NULL,
                        NULL);
        for (size_t i = 0; i < b->checks.n; i++)
                put_int(s, METRIC_CHECK_VERDICT, verdict_gravity(b->checks.health[i].settled),
                        b->checks.entries[i].settled->check, b->checks.entries[i].settled->subject, NULL);
}

static void sample_metrics(void *self, struct bus_sink *s) {
        struct metrics_state *m = self;
        struct bus *b = m->bus;
        const struct host_runs *l = b->runs;

        sample_agent(b, &s->sink);
        sample_state(b, &s->sink);
        s->start_real = b->boot_real;
        host_metrics_look(m->host, host_now(b->host), &s->sink);
        for (size_t i = 0; l->known && i < l->n; i++) {
                if (!host_run_lives(&l->runs[i]))
                        continue;
                s->start_real = l->runs[i].started_real;
                host_metrics_look_at_run(m->host, l->runs[i].name, host_runs_group(l, l->runs[i].name),
                                                 &s->sink);
        }
        host_metrics_runs_end(m->host);
}

static int start_metrics(void *self) {
        struct metrics_state *m = self;
        struct bus *b = m->bus;

        (void) bus_emit(b,
                        EVENT_OF(AGENT_STARTED, .version = TPU_HOSTD_VERSION, .pid = getpid(),
                                 .boot_id = b->boot_id),
                        NULL);
        return host_metrics_new(b->host, &m->host);
}

static void stop_metrics(void *self) {
        struct metrics_state *m = self;

        m->host = host_metrics_free(m->host);
}

const struct part metrics_part = {
        .name = "metrics",
        .size = sizeof(struct metrics_state),
        .start = start_metrics,
        .sample = sample_metrics,
        .stop = stop_metrics,
};

struct host_metrics *metrics_of(const struct bus *b) {
        return ((const struct metrics_state *) bus_part(b, &metrics_part))->host;
}
