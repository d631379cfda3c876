/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_watch.h"

#include <linux/types.h>
#include <time.h>

#include "agent_bpf.h"
#include "agent_run_totals.h"
#include "cpu_nodes.h"
#include "io_figures.h"
#include "sched_figures.h"

#define SLOW_CALL (1000 * 1000ull) /* nanoseconds: what a call on a file system of this host's own takes is less */

static const char *const sets[] = { [WATCH_SCHED] = "sched", [WATCH_IO] = "io" };
_Static_assert(ELEMENTSOF(sets) == _WATCH_KIND_MAX, "a set a kind");

static const char *reason_of(const struct bpf_sets *s, const char *set) {
        for (size_t i = 0; s && i < bpf_sets_count(s); i++)
                if (streq(bpf_sets_report(s, i)->name, set))
                        return bpf_sets_report(s, i)->reason;
        return "";
}

static int refuse(int error, const char *text, char why[static WATCH_WHY_MAX]) {
        (void) snprintf(why, WATCH_WHY_MAX, "%.*s", (int) WATCH_WHY_MAX - 1, text);
        return error;
}

/* The clock of bpf_ktime_get_ns(). */
static uint64_t monotonic(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t); /* always there */
        return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* Both are the programs' memory: figures from nothing, and whom they are about. */
static int order(struct bus *b, struct bpf_sets *s, enum watch_kind kind, uint64_t group) {
        size_t figures_size = kind == WATCH_SCHED ? sizeof(struct sched_figures) : sizeof(struct io_figures),
               orders_size = kind == WATCH_SCHED ? sizeof(struct sched_orders) : sizeof(struct io_orders);
        void *figures = bpf_sets_map_memory(s, sets[kind], "figures", figures_size),
             *orders = bpf_sets_map_memory(s, sets[kind], "orders", orders_size);

        if (!figures || !orders)
                return -errno;
        memset(figures, 0, figures_size);
        if (kind == WATCH_SCHED) {
                struct sched_orders *o = orders;

                cpu_nodes(b->host, o->node, SCHED_CPUS);
                o->since = monotonic();
                o->group = group;
        } else
                *(struct io_orders *) orders = (struct io_orders){ .group = group, .since = monotonic(), .slow = SLOW_CALL };
        return 0;
}

int agent_watch_begin(struct bus *b, enum watch_kind kind, const char *run, uint64_t group, char why[static WATCH_WHY_MAX]) {
        struct bpf_sets *s = agent_bpf_sets(b);
        int r;

        if (!s)
                return refuse(-ENOENT, "there are no BPF programs: tpuctl check bpf says why", why);
        if (bpf_sets_watched(s, sets[kind]))
                return refuse(-EBUSY, "a run is being watched already; it ends within 30 s", why);
        r = order(b, s, kind, group);
        if (r >= 0)
                r = bpf_sets_watch(s, sets[kind]);
        if (r == -EPERM)
                return refuse(r, BPF_WATCH_REFUSED, why);
        if (r < 0 && reason_of(s, sets[kind])[0])
                return refuse(r, reason_of(s, sets[kind]), why);
        if (r < 0)
                return refuse(r, strerror(-r), why);
        agent_of(b)->watch_now[kind].began = host_now(b->host);
        (void) snprintf(agent_of(b)->watch_now[kind].run, sizeof(agent_of(b)->watch_now[kind].run), "%s", run);
        return 0;
}

const struct sched_figures *agent_watch_sched(const struct bus *b) {
        return bpf_sets_figures(agent_bpf_sets(b), sets[WATCH_SCHED], sizeof(struct sched_figures));
}

const struct io_figures *agent_watch_io(const struct bus *b) {
        return bpf_sets_figures(agent_bpf_sets(b), sets[WATCH_IO], sizeof(struct io_figures));
}

void agent_watch_end(struct bus *b, enum watch_kind kind) {
        struct bpf_sets *s = agent_bpf_sets(b);

        if (!s || !bpf_sets_watched(s, sets[kind]))
                return;
        bpf_sets_unwatch(s, sets[kind]);
        agent_run_totals_watched(b, kind, host_now(b->host) - agent_of(b)->watch_now[kind].began);
}
