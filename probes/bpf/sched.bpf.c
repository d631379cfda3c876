/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * How long the threads of one run waited: for a CPU, in state D, for softirqs on top of them; and where they
 * were moved. Watch programs all: they hang on every switch of the host, and are attached for seconds.
 */
#include "task_kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "sched_figures.h"
#include "task_names.bpf.h"

#define THREADS 8192
#define RUNNING 0
#define UNINTERRUPTIBLE 0x02 /* include/linux/sched.h */
#define NO_LOAD 0x400        /* of TASK_IDLE: it counts for nobody's load */
#define OWN_FRAMES 3         /* this program, who calls it, __schedule() */

char LICENSE[] SEC("license") = "GPL";

struct sched_orders orders SEC(".data") = { 0 };
struct sched_figures figures;

struct thread {
        __u64 since;
        __u32 kind; /* enum wait */
        __u32 place;
        __u64 frames[SCHED_FRAMES];
};

enum wait { WAIT_CPU = 1, WAIT_PREEMPTED, WAIT_BLOCKED };

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, THREADS);
        __type(key, __u32);
        __type(value, struct thread);
} threads SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, __u64);
} softirq_since SEC(".maps");

static __always_inline bool is_watched(struct task_struct *task) {
        return is_below(task, orders.group);
}

static __always_inline struct sched_shard *shard(void) {
        return &figures.shards[bpf_get_smp_processor_id() % SCHED_SHARDS];
}

static __always_inline void add(__u64 *counter, __u64 n) {
        __sync_fetch_and_add(counter, n);
}

static __always_inline long state_of(struct task_struct *task) {
        if (bpf_core_field_exists(task->__state))
                return BPF_CORE_READ(task, __state);
        return BPF_CORE_READ((struct task_struct___before_514 *) task, state);
}

/* --- Waiting for a CPU --------------------------------------------------------------------------------- */

static __always_inline void begin(struct task_struct *task, enum wait kind) {
        struct thread t = { .since = bpf_ktime_get_ns(), .kind = kind };
        __u32 tid = BPF_CORE_READ(task, pid);

        if (bpf_map_update_elem(&threads, &tid, &t, BPF_ANY) < 0)
                add(&figures.lost, 1);
}

static __always_inline unsigned bucket_of(__u64 ns) {
        __u64 us = ns / 1000;
        unsigned b = 0;

        for (int i = 0; i < SCHED_BUCKETS - 1; i++)
                if (us >> i)
                        b = i + 1;
        return b;
}

static __always_inline void got_a_cpu(const struct thread *t) {
        __u64 ns = bpf_ktime_get_ns() - t->since;
        struct sched_shard *s = shard();
        unsigned b = bucket_of(ns);

        add(&s->delays, 1);
        add(&s->delay_ns, ns);
        if (b < SCHED_BUCKETS)
                add(&s->buckets[b], 1);
        if (t->kind != WAIT_PREEMPTED)
                return;
        add(&s->preemptions, 1);
        add(&s->preempted_ns, ns);
        if (b < SCHED_BUCKETS)
                add(&s->preempted_buckets[b], 1);
}

/* --- State D ------------------------------------------------------------------------------------------- */

/* A thread of the run is about to wait, and is the one that runs: its stack is ours. */
static __always_inline void begin_blocked(void *ctx, struct task_struct *task) {
        struct thread t = { .since = bpf_ktime_get_ns(), .kind = WAIT_BLOCKED };
        __u32 tid = BPF_CORE_READ(task, pid);

        if (bpf_get_stack(ctx, t.frames, sizeof(t.frames), OWN_FRAMES) < 0)
                t.frames[0] = 0;
        if (bpf_map_update_elem(&threads, &tid, &t, BPF_ANY) < 0)
                add(&figures.lost, 1);
}

static __always_inline __u64 place_of(const struct thread *t) {
        __u64 place = 1469598103934665603ull; /* FNV-1a, a word at a time */

        for (int i = 0; i < SCHED_FRAMES; i++)
                place = (place ^ t->frames[i]) * 1099511628211ull;
        return place ? place : 1;
}

static const char stack_format[] = "%pB %pB %pB %pB %pB %pB %pB %pB %pB %pB";

/* Two waits that end at the same moment may meet here: a count is lost then, nothing more. */
static __always_inline void keep_wait(struct task_struct *task, struct thread *t, __u64 ns) {
        __u64 place = place_of(t);
        int least = 0;

        for (int i = 0; i < SCHED_WAITS; i++) {
                struct sched_wait *w = &figures.waits[i];

                if (w->place == place) {
                        w->waits++;
                        w->ns += ns;
                        if (ns > w->longest_ns)
                                w->longest_ns = ns;
                        return;
                }
                if (w->ns < figures.waits[least & (SCHED_WAITS - 1)].ns)
                        least = i;
        }
        least &= SCHED_WAITS - 1;
        if (figures.waits[least].ns >= ns && figures.waits[least].place)
                return;
        figures.waits[least].place = place;
        figures.waits[least].waits = 1;
        figures.waits[least].ns = figures.waits[least].longest_ns = ns;
        BPF_CORE_READ_STR_INTO(&figures.waits[least].comm, task, comm);
        figures.waits[least].stack[0] = 0;
        if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_snprintf)) /* from 5.13 on */
                bpf_snprintf(figures.waits[least].stack, sizeof(figures.waits[0].stack), stack_format,
                             t->frames, sizeof(t->frames));
}

static __always_inline void unblocked(struct task_struct *task, struct thread *t) {
        __u64 ns = bpf_ktime_get_ns() - t->since;
        struct sched_shard *s = shard();
        unsigned b;

        add(&s->blocked, 1);
        add(&s->blocked_ns, ns);
        keep_wait(task, t, ns);
        b = bucket_of(ns); /* last: the verifier follows all that comes behind for each bucket */
        if (b < SCHED_BUCKETS)
                add(&s->blocked_buckets[b], 1);
}

/* --- Hooks --------------------------------------------------------------------------------------------- */

static __always_inline int woken(struct task_struct *task) {
        __u32 tid = BPF_CORE_READ(task, pid);
        struct thread *t;

        if (!is_watched(task))
                return 0;
        t = bpf_map_lookup_elem(&threads, &tid);
        if (t && t->kind == WAIT_BLOCKED && t->since >= orders.since)
                unblocked(task, t);
        begin(task, WAIT_CPU);
        return 0;
}

SEC("tp_btf/sched_wakeup")
int on_wakeup(__u64 *ctx) {
        return woken((void *) ctx[0]);
}

SEC("tp_btf/sched_wakeup_new")
int on_wakeup_new(__u64 *ctx) {
        return woken((void *) ctx[0]);
}

/* Whether it was preempted, who ran, who is to run. */
SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx) {
        struct task_struct *before = (void *) ctx[1], *next = (void *) ctx[2];
        bool preempted = ctx[0];
        long state;

        add(&shard()->switches, 1);
        if (is_watched(before)) {
                state = state_of(before);
                if (preempted || state == RUNNING)
                        begin(before, WAIT_PREEMPTED);
                else if ((state & UNINTERRUPTIBLE) && !(state & NO_LOAD))
                        begin_blocked(ctx, before);
        }
        if (is_watched(next)) {
                __u32 tid = BPF_CORE_READ(next, pid);
                struct thread *t = bpf_map_lookup_elem(&threads, &tid);

                if (t && t->kind != WAIT_BLOCKED && t->since >= orders.since)
                        got_a_cpu(t);
                if (t)
                        bpf_map_delete_elem(&threads, &tid);
        }
        return 0;
}

static __always_inline __u32 cpu_of(struct task_struct *task) {
        if (bpf_core_field_exists(task->thread_info.cpu))
                return BPF_CORE_READ(task, thread_info.cpu);
        return BPF_CORE_READ((struct task_struct___cpu_before_516 *) task, cpu);
}

SEC("tp_btf/sched_migrate_task")
int on_migrate(__u64 *ctx) {
        struct task_struct *task = (void *) ctx[0];
        __u32 from, to = (__u32) ctx[1];

        if (!is_watched(task))
                return 0;
        from = cpu_of(task);
        add(&shard()->migrations, 1);
        if (from >= SCHED_CPUS || to >= SCHED_CPUS)
                return 0;
        barrier_var(from); /* or the compiler leaves the masks out, which old verifiers want */
        barrier_var(to);
        if (orders.node[from & (SCHED_CPUS - 1)] != orders.node[to & (SCHED_CPUS - 1)])
                add(&shard()->node_migrations, 1);
        return 0;
}

SEC("tp_btf/softirq_entry")
int on_softirq_entry(__u64 *ctx) {
        __u32 zero = 0;
        __u64 *since = bpf_map_lookup_elem(&softirq_since, &zero);

        if (since)
                *since = bpf_ktime_get_ns();
        return 0;
}

SEC("tp_btf/softirq_exit")
int on_softirq_exit(__u64 *ctx) {
        __u32 zero = 0;
        __u64 *since = bpf_map_lookup_elem(&softirq_since, &zero);

        if (!since || *since == 0)
                return 0;
        if (is_watched((void *) bpf_get_current_task())) {
                add(&shard()->softirqs, 1);
                add(&shard()->softirq_ns, bpf_ktime_get_ns() - *since);
        }
        *since = 0;
        return 0;
}
