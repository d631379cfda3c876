/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_json.h"

#include <math.h>

#include "json_text.h"
#include "texts.h"
#include "utf8.h"

#define NSEC 1e9

static const char *const operations[] = { "read", "write", "flush", "other" };
_Static_assert(ELEMENTSOF(operations) == IO_OPERATIONS, "a name an operation");
static const char *const calls[] = { "open", "read", "write", "sync", "close" };
_Static_assert(ELEMENTSOF(calls) == IO_CALLS, "a name a call");

/* --- Two looks ----------------------------------------------------------------------------------------- */

static json_t *seconds_json(int64_t from, int64_t to) {
        return from < 0 || to < from ? json_null() : json_real((double) (to - from) / USEC_PER_SEC);
}

static json_t *count_json(int64_t from, int64_t to) {
        return from < 0 || to < from ? json_null() : json_integer((json_int_t) (to - from));
}

static json_t *pressure_json(const struct run_look *from, const struct run_look *to,
                             enum pressure_resource r) {
        return json_pack("{s:o, s:o}", "some", seconds_json(from->some[r], to->some[r]), "full",
                         seconds_json(from->full[r], to->full[r]));
}

json_t *watch_json_cpu(const struct run_look *from, const struct run_look *to) {
        int64_t waited = run_look_waited(from, to);

        return json_pack("{s:o, s:o, s:o, s:o, s:I, s:b, s:o}", "user",
                         seconds_json(from->cpu.user_usec, to->cpu.user_usec), "system",
                         seconds_json(from->cpu.system_usec, to->cpu.system_usec), "throttled",
                         seconds_json(from->cpu.throttled_usec, to->cpu.throttled_usec), "waited",
                         waited < 0 ? json_null() : json_real((double) waited / NSEC), "threads",
                         (json_int_t) to->n_threads, "more_threads", to->more_threads, "pressure",
                         pressure_json(from, to, PRESSURE_CPU));
}

json_t *watch_json_storage(const struct run_look *from, const struct run_look *to) {
        const struct cgroup_memory *a = &from->memory, *b = &to->memory;

        return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "read_bytes",
                         count_json(from->io.read_bytes, to->io.read_bytes), "written_bytes",
                         count_json(from->io.written_bytes, to->io.written_bytes), "major_faults",
                         count_json(a->major_faults, b->major_faults), "refaults",
                         count_json(a->refaults, b->refaults), "direct_reclaim",
                         count_json(a->reclaimed, b->reclaimed), "io_pressure",
                         pressure_json(from, to, PRESSURE_IO), "memory_pressure",
                         pressure_json(from, to, PRESSURE_MEMORY));
}

/* --- Figures ------------------------------------------------------------------------------------------- */

/* Bucket 0: below 1 us; i: below 2^i us. */
static double bucket_end(size_t i) {
        return ldexp(1e-6, (int) i);
}

/* Below which time, in seconds, that share lies; infinite: in the last bucket; NAN: all are empty. */
static double bucket_quantile(const __u64 *buckets, size_t n, double share) {
        __u64 all = 0, seen = 0;

        for (size_t i = 0; i < n; i++)
                all += buckets[i];
        for (size_t i = 0; i < n && all > 0; i++) {
                seen += buckets[i];
                if ((double) seen >= share * (double) all)
                        return i + 1 < n ? bucket_end(i) : INFINITY;
        }
        return NAN;
}

static json_t *quantile_json(const __u64 *buckets, size_t n, double share) {
        double q = bucket_quantile(buckets, n, share);

        return isnan(q) ? json_null() : json_real(isinf(q) ? bucket_end(n - 1) : q);
}

/* [{below: SECONDS or null, n}]: those that hold something. */
static json_t *buckets_json(const __u64 *buckets, size_t n) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < n; i++)
                if (buckets[i] > 0)
                        list = json_list_add(list,
                                             json_pack("{s:o, s:I}", "below",
                                                       i + 1 < n ? json_real(bucket_end(i)) : json_null(),
                                                       "n", (json_int_t) buckets[i]));
        return list;
}

static json_t *text_json(const char *text, size_t size) {
        char copy[512];

        (void) snprintf(copy, sizeof(copy), "%.*s", (int) MIN(size - 1, sizeof(copy) - 1), text);
        utf8_scrub(copy, strlen(copy));
        return json_string(copy);
}

/* All shards together. */
static void sched_sum(const struct sched_figures *f, struct sched_shard *ret) {
        __u64 *sum = (__u64 *) (void *) ret;

        *ret = (struct sched_shard){ .delays = 0 };
        for (size_t i = 0; i < SCHED_SHARDS; i++)
                for (size_t k = 0; k < sizeof(*ret) / sizeof(*sum); k++)
                        sum[k] += ((const __u64 *) (const void *) &f->shards[i])[k];
}

/* Without what is no frame: a stack ends in "0x0 0x0" where it is shorter than the room for it. */
static json_t *stack_json(const struct sched_wait *w) {
        char copy[SCHED_STACK_TEXT], *end;

        (void) snprintf(copy, sizeof(copy), "%.*s", (int) sizeof(copy) - 1, w->stack);
        end = strstr(copy, " 0x0");
        if (end)
                *end = '\0';
        return text_json(copy, sizeof(copy));
}

static json_t *places_json(const struct sched_figures *f) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < SCHED_WAITS; i++) {
                const struct sched_wait *w = &f->waits[i];

                if (w->place)
                        list = json_list_add(list, json_pack("{s:I, s:f, s:f, s:o, s:o}", "waits",
                                                             (json_int_t) w->waits, "seconds",
                                                             (double) w->ns / NSEC, "longest",
                                                             (double) w->longest_ns / NSEC, "comm",
                                                             text_json(w->comm, sizeof(w->comm)), "stack",
                                                             stack_json(w)));
        }
        return list;
}

json_t *watch_json_sched(const struct sched_figures *f) {
        struct sched_shard s;

        sched_sum(f, &s);
        return json_pack("{s:{s:I, s:f, s:o, s:o, s:o}, s:{s:I, s:f}, s:{s:I, s:f, s:o}, s:{s:I, s:f}, "
                         "s:{s:I, s:I}, s:I, s:I}",
                         "delays", "n", (json_int_t) s.delays, "seconds", (double) s.delay_ns / NSEC, "p50",
                         quantile_json(s.buckets, SCHED_BUCKETS, 0.5), "p99",
                         quantile_json(s.buckets, SCHED_BUCKETS, 0.99), "buckets",
                         buckets_json(s.buckets, SCHED_BUCKETS), "preempted", "n",
                         (json_int_t) s.preemptions, "seconds", (double) s.preempted_ns / NSEC, "blocked",
                         "n", (json_int_t) s.blocked, "seconds", (double) s.blocked_ns / NSEC, "places",
                         places_json(f), "softirqs", "n", (json_int_t) s.softirqs, "seconds",
                         (double) s.softirq_ns / NSEC, "migrations", "cpus", (json_int_t) s.migrations,
                         "nodes", (json_int_t) s.node_migrations, "switches", (json_int_t) s.switches,
                         "lost", (json_int_t) f->lost);
}

static json_t *times_json(const struct io_times *times, const char *const *names, size_t n,
                          const char *key) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < n; i++) {
                const struct io_times *t = &times[i];

                if (t->n > 0)
                        list = json_list_add(list,
                                             json_pack("{s:s, s:I, s:f, s:I, s:o, s:o, s:o}", key, names[i],
                                                       "n", (json_int_t) t->n, "seconds",
                                                       (double) t->ns / NSEC, "bytes", (json_int_t) t->bytes,
                                                       "p50", quantile_json(t->buckets, IO_BUCKETS, 0.5),
                                                       "p99", quantile_json(t->buckets, IO_BUCKETS, 0.99),
                                                       "buckets", buckets_json(t->buckets, IO_BUCKETS)));
        }
        return list;
}

static int slower(const void *a, const void *b) {
        const struct io_slow *x = a, *y = b;

        return COMPARE(y->ns, x->ns);
}

static json_t *slow_json(const struct io_slow *kept, const char *const *names, size_t n_names,
                         const char *key, bool is_call) {
        struct io_slow sorted[IO_KEPT];
        json_t *list = json_array(), *o;

        memcpy(sorted, kept, sizeof(sorted));
        qsort(sorted, IO_KEPT, sizeof(sorted[0]), slower);
        for (size_t i = 0; list && i < IO_KEPT; i++) {
                const struct io_slow *s = &sorted[i];

                if (s->ended == 0 || s->kind >= n_names)
                        continue;
                o = json_pack("{s:s, s:f, s:I, s:o, s:o}", key, names[s->kind], "seconds",
                              (double) s->ns / NSEC, "bytes", (json_int_t) s->bytes, "comm",
                              text_json(s->comm, sizeof(s->comm)), is_call ? "filesystem" : "disk",
                              text_json(s->where, sizeof(s->where)));
                if (is_call)
                        o = json_member_add(o, "file", text_json(s->file, sizeof(s->file)));
                list = json_list_add(list, o);
        }
        return list;
}

json_t *watch_json_io(const struct io_figures *f) {
        return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I}", "requests",
                         times_json(f->requests, operations, IO_OPERATIONS, "operation"), "slow_requests",
                         slow_json(f->slow_requests, operations, IO_OPERATIONS, "operation", false), "calls",
                         times_json(f->calls, calls, IO_CALLS, "call"), "slow_calls",
                         slow_json(f->slow_calls, calls, IO_CALLS, "call", true), "held_back",
                         (json_int_t) f->stalls, "lost", (json_int_t) f->lost);
}

/* --- Sentences ----------------------------------------------------------------------------------------- */

#define NOTABLE 0.05 /* of the time that was watched */

static const struct sched_wait *worst_wait(const struct sched_figures *f) {
        const struct sched_wait *worst = NULL;

        for (size_t i = 0; i < SCHED_WAITS; i++)
                if (f->waits[i].place && (!worst || f->waits[i].ns > worst->ns))
                        worst = &f->waits[i];
        return worst;
}

/* The function that it waits in, of "io_schedule+0x1/0x2 folio_wait+0x3/0x4 …": not what schedules. */
static int place_name(const char *stack, char *buf, size_t size) {
        static const char *const schedulers[] = { "__schedule", "schedule", "io_schedule",
                                                  "schedule_timeout", "io_schedule_timeout",
                                                  "__wait_for_common", "__traceiter_sched_switch" };

        for (const char *p = stack; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
                size_t len = strcspn(p, "+ ");
                bool scheduler = false;

                for (size_t i = 0; i < ELEMENTSOF(schedulers); i++)
                        scheduler |= strlen(schedulers[i]) == len && strncmp(p, schedulers[i], len) == 0;
                if (scheduler || len == 0)
                        continue;
                return snprintf(buf, size, " in %.*s", (int) MIN(len, (size_t) 64), p);
        }
        buf[0] = '\0';
        return 0;
}

#define say(buf, ...) text_append(buf, WATCH_SENTENCE_MAX, "; ", __VA_ARGS__)

static void say_standing(size_t n, const char *comm, const char *what, double seconds,
                         char buf[static WATCH_SENTENCE_MAX]) {
        if (n > 0)
                say(buf, "%zu of its threads (%s%s) %s all of %.0f s", n, comm, n > 1 ? ", …" : "", what,
                    seconds);
}

static void say_waits(const struct sched_figures *f, double seconds, char buf[static WATCH_SENTENCE_MAX]) {
        const struct sched_wait *w = worst_wait(f);
        struct sched_shard s;
        char place[80] = "", stack[sizeof(w->stack) + 1];

        sched_sum(f, &s);
        if ((double) s.blocked_ns >= NOTABLE * seconds * NSEC) {
                if (w) {
                        (void) snprintf(stack, sizeof(stack), "%.*s", (int) sizeof(w->stack),
                                        w->stack); /* may have no end */
                        (void) place_name(stack, place, sizeof(place));
                }
                say(buf, "its threads stood %.1f s of %.0f s in state D%s", (double) s.blocked_ns / NSEC,
                    seconds, place);
        }
        if ((double) s.delay_ns >= NOTABLE * seconds * NSEC)
                say(buf, "its threads waited %.1f s of %.0f s for a CPU (%.1f s preempted)",
                    (double) s.delay_ns / NSEC, seconds, (double) s.preempted_ns / NSEC);
        if ((double) s.softirq_ns >= NOTABLE * seconds * NSEC)
                say(buf, "softirqs took %.1f s of %.0f s on top of its threads",
                    (double) s.softirq_ns / NSEC, seconds);
}

const char *watch_sentence_sched(const struct sched_figures *f, const struct run_standing *standing,
                                 double seconds, char buf[static WATCH_SENTENCE_MAX]) {
        buf[0] = '\0';
        say_standing(standing->starved, standing->starved_comm, "wanted a CPU and got next to none", seconds,
                     buf);
        say_standing(standing->blocked, standing->blocked_comm, "stood in state D", seconds, buf);
        if (f)
                say_waits(f, seconds, buf);
        utf8_scrub(buf, strlen(buf));
        return buf;
}

bool watch_is_starved(const struct sched_figures *f, const struct run_look *from,
                      const struct run_look *to) {
        const struct cgroup_cpu *a = &from->cpu, *b = &to->cpu;
        double ran = (double) (b->user_usec - a->user_usec + b->system_usec - a->system_usec) * 1000;
        struct sched_shard s;

        if (a->user_usec < 0 || a->system_usec < 0 || b->user_usec < a->user_usec ||
            b->system_usec < a->system_usec)
                return false; /* not known */
        sched_sum(f, &s);
        return (double) s.delay_ns > ran && (double) s.delay_ns >= (double) (to->at - from->at) * 1000 / 2;
}

static const struct io_slow *slowest(const struct io_slow kept[static IO_KEPT], size_t kinds) {
        const struct io_slow *s = NULL;

        for (size_t i = 0; i < IO_KEPT; i++)
                if (kept[i].ended && kept[i].kind < kinds && (!s || kept[i].ns > s->ns))
                        s = &kept[i];
        return s;
}

const char *watch_sentence_io(const struct io_figures *f, double seconds,
                              char buf[static WATCH_SENTENCE_MAX]) {
        const struct io_slow *call = slowest(f->slow_calls, IO_CALLS),
                             *request = slowest(f->slow_requests, IO_OPERATIONS);

        buf[0] = '\0';
        if (call && (double) call->ns >= NOTABLE * seconds * NSEC)
                say(buf, "a %s of %.40s on %.12s took %.1f s", calls[call->kind], call->file, call->where,
                    (double) call->ns / NSEC);
        if (request && (double) request->ns >= NOTABLE * seconds * NSEC)
                say(buf, "a %s of disk %.16s took %.1f s", operations[request->kind], request->where,
                    (double) request->ns / NSEC);
        if (f->stalls > 0)
                say(buf, "its writers were held back %llu times until the disk caught up",
                    (unsigned long long) f->stalls);
        utf8_scrub(buf, strlen(buf));
        return buf;
}

/* --- NUMA nodes ---------------------------------------------------------------------------------------- */

#define NODES_MAX 64u

bool cpu_list_mark(const char *text, uint8_t mark, uint8_t *node, size_t n) {
        uint64_t first, last;
        int r;

        while ((r = range_next(&text, &first, &last)) > 0)
                for (uint64_t c = first; c <= last && c < n; c++)
                        node[c] = mark;
        return r == 0;
}

void cpu_nodes(const struct host *h, uint8_t *node, size_t n) {
        char path[64], text[4096];

        memset(node, 0, n);
        for (unsigned i = 0; i < NODES_MAX; i++) {
                (void) snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", i);
                if (host_read(h, path, text, sizeof(text), NULL) >= 0)
                        (void) cpu_list_mark(text, (uint8_t) i, node, n); /* up to a fault */
        }
}
