/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl sched and tpuctl io: what a run waits for, on one screen each. GET /v1/sched, GET /v1/io */
#include "answer.h"
#include "config.h"
#include "show.h"
#include "verb_words.h"

#define ANSWER_TIME (10 * USEC_PER_SEC) /* beside what is watched */
#define WATCH_MAX 30 /* seconds; docs/api.md */
#define WATCH_USUAL 10

#define HEAD "run {run}, {tasks:count} tasks, over {seconds:span}\n"
#define FOOT(verb)                                \
        "[not watched: {not_watched}\n|{watch!}" \
        "what exactly, and where: sudo tpuctl " verb " --watch\n]"

static int screen_sched(json_t *answer, usec_t now, FILE *out) {
        const json_t *watch = json_object_get(answer, "watch");

        show(out, answer, now,
             HEAD "CPU                used {cpu.user:span} by user, {cpu.system:span} by system; held back "
                  "by its quota {cpu.throttled:span}\n"
                  "                   {cpu.threads:count}[{cpu.more_threads?} of its] threads waited "
                  "{cpu.waited:span} for one; {cpu.pressure.some:share} of the time one did, "
                  "{cpu.pressure.full:share} all did\n");
        if (json_is_object(watch)) {
                show(out, watch, now,
                     "waits for a CPU    {delays.seconds:span} in {delays.n:count} waits: half below "
                     "{delays.p50:span}, 99 % below {delays.p99:span}; {preempted.seconds:span} of it in "
                     "{preempted.n:count} after it was preempted\n"
                     "waits in state D   {blocked.seconds:span} in {blocked.n:count} waits\n");
                show_each(out, json_object_get(json_object_get(watch, "blocked"), "places"), now,
                          "    {seconds:span} in {waits:count} waits, the longest {longest:span}, {comm}:\n"
                          "        {stack}\n");
                show(out, watch, now,
                     "softirqs on it     {softirqs.seconds:span} in {softirqs.n:count}\n"
                     "moved              {migrations.cpus:count} times to another CPU, "
                     "{migrations.nodes:count} of them to another NUMA node\n"
                     "[{lost>0}{lost:count} waits found no room and are not counted\n]");
        }
        show(out, answer, now, FOOT("sched"));
        return 0;
}

static int print_list(const json_t *list, const struct column *columns, size_t n, FILE *out) {
        return json_array_size(list) > 0 ? show_table(out, list, 0, columns, n) : 0;
}

static int print_times(const json_t *list, const char *title, const char *cell, FILE *out) {
        const struct column columns[] = {
                { .title = title, .cell = cell },
                { .title = "N", .cell = "{n:count}" },
                { .title = "TIME", .cell = "{seconds:span}" },
                { .title = "BYTES", .cell = "{bytes:bytes}" },
                { .title = "HALF BELOW", .cell = "{p50:span}" },
                { .title = "99 % BELOW", .cell = "{p99:span}" },
        };

        return print_list(list, columns, ELEMENTSOF(columns), out);
}

static int print_slow(const json_t *list, const char *cell, const char *where, FILE *out) {
        const struct column columns[] = {
                { .title = "SLOWEST", .cell = cell },
                { .title = "TIME", .cell = "{seconds:span}" },
                { .title = "BYTES", .cell = "{bytes:bytes}" },
                { .title = "WHERE", .cell = where },
                { .title = "BY", .cell = "{comm}" },
                { .title = "FILE", .cell = "{file}", .shrinks = true },
        };

        return print_list(list, columns, ELEMENTSOF(columns), out);
}

static int print_io_watch(const json_t *w, usec_t now, FILE *out) {
        int r = print_times(json_object_get(w, "requests"), "REQUESTS", "{operation}", out);

        if (r == 0)
                r = print_slow(json_object_get(w, "slow_requests"), "{operation}", "{disk}", out);
        if (r == 0)
                r = print_times(json_object_get(w, "calls"), "SLOW CALLS", "{call}", out);
        if (r == 0)
                r = print_slow(json_object_get(w, "slow_calls"), "{call}", "{filesystem}", out);
        if (r < 0)
                return r;
        show(out, w, now,
             "its writers were held back {held_back:count} times until the disk had caught up\n"
             "[{lost>0}{lost:count} requests or calls found no room and are not counted\n]");
        return 0;
}

static int screen_io(json_t *answer, usec_t now, FILE *out) {
        const json_t *watch = json_object_get(answer, "watch");
        int r = 0;

        show(out, answer, now,
             HEAD
             "disks              read {storage.read_bytes:bytes}, written {storage.written_bytes:bytes}; "
             "{storage.io_pressure.some:share} of the time a thread waited for them, "
             "{storage.io_pressure.full:share} all did\n"
             "page cache         {storage.refaults:count} pages thrown out and needed again, "
             "{storage.major_faults:count} faults that read from a disk\n"
             "memory             {storage.direct_reclaim:count} pages freed by its own threads; "
             "{storage.memory_pressure.some:share} of the time a thread waited for memory, "
             "{storage.memory_pressure.full:share} all did\n");
        if (json_is_object(watch))
                r = print_io_watch(watch, now, out);
        show(out, answer, now, FOOT("io"));
        return r;
}

/* --- The verbs ----------------------------------------------------------------------------------------- */

static int verb(const struct ctl *c, int argc, char *argv[], struct options *o, const char *call,
                int (*screen)(json_t *answer, usec_t now, FILE *out)) {
        bool json = false, watch = false;
        const char *span = NULL;
        const struct option_def defs[] = {
                { "watch", NULL, "root: watch it by BPF for 10 seconds", NULL, &watch },
                { "seconds", "N", "watch it for so long, 1 to 30", &span, NULL },
                OPTION_JSON(&json),
        };
        char path[160], number[24], why[96];
        uint32_t seconds = WATCH_USUAL;
        struct words w;
        int r;

        o->synopsis = "[--watch] [--seconds N] [--json] [RUN]";
        o->defs = defs;
        o->n_defs = ELEMENTSOF(defs);
        r = words_parse(c, o, argc, argv, 0, 1, &w);
        if (r < 0)
                return options_exit(r);
        if (w.n > 0 && words_check_run_name(o, w.items[0]) < 0)
                return EXIT_USAGE;
        if (span && config_parse_u32_within(span, 1, WATCH_MAX, &seconds, why) < 0)
                return options_fail(o->program, EXIT_USAGE, "--seconds takes 1 to %d", WATCH_MAX);
        (void) snprintf(path, sizeof(path), "%s", call);
        (void) snprintf(number, sizeof(number), "%" PRIu32, seconds);
        if (path_parameter(path, sizeof(path), "run", w.n > 0 ? w.items[0] : NULL) < 0 ||
            path_parameter(path, sizeof(path), "watch", watch || span ? number : NULL) < 0)
                return EXIT_USAGE;
        return answer_of_hostd(o, path, ANSWER_TIME + seconds * USEC_PER_SEC,
                               &(struct answer_as){ json, screen, NULL });
}

int verb_sched(const struct ctl *c, int argc, char *argv[]) {
        struct options o = { .program = "tpuctl sched",
                             .summary = "Shows how long a run of this host waits for CPUs, in state D and "
                                        "for softirqs, and how it moves between CPUs. "
                                        "Without RUN: the only one." };

        return verb(c, argc, argv, &o, "/v1/sched", screen_sched);
}

int verb_io(const struct ctl *c, int argc, char *argv[]) {
        struct options o = { .program = "tpuctl io",
                             .summary =
                                     "Shows how long a run of this host waits for storage: disks, page "
                                     "cache, memory, network file systems. Without RUN: the only one." };

        return verb(c, argc, argv, &o, "/v1/io", screen_io);
}
