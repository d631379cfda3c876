/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl sched and tpuctl io: what a run waits for, on one screen each. */
#include <math.h>

#include "ctl.h"
#include "hostd.h"
#include "report.h"
#include "screen.h"
#include "table.h"
#include "words.h"

#define ANSWER_TIME (10 * USEC_PER_SEC) /* beside what is watched */
#define WATCH_MAX 30 /* seconds; docs/api.md */
#define WATCH_USUAL 10
#define CELL 32
#define IO_COLUMNS 6 /* of each table of tpuctl io */

_Static_assert(CELL >= FIELD_TEXT_MAX && CELL >= SPAN_TEXT_MAX, "a cell holds a field, and a span");

/* --- Cells --------------------------------------------------------------------------------------------- */

static double number(const json_t *o, const char *key) {
        const json_t *n = json_object_get(o, key);

        return json_is_number(n) ? json_number_value(n) : NAN;
}

static const char *bytes_cell(double n, char buf[static CELL]) {
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
        size_t u = 0;

        if (!(n >= 0))
                return "-";
        for (; n >= 1024 && u + 1 < ELEMENTSOF(units); u++)
                n /= 1024;
        (void) snprintf(buf, CELL, "%.3g %s", n, units[u]);
        return buf;
}

static const char *count_cell(double n, char buf[static CELL]) {
        if (!(n >= 0))
                return "-";
        (void) snprintf(buf, CELL, "%.0f", n);
        return buf;
}

/* The share of the time that something waited; "-". */
static const char *share_cell(const json_t *o, const char *key, double seconds, char buf[static CELL]) {
        double waited = number(o, key);

        if (!(waited >= 0) || !(seconds > 0))
                return "-";
        (void) snprintf(buf, CELL, "%.0f %%", MIN(100 * waited / seconds, 100.0));
        return buf;
}

static void clean(FILE *out, const json_t *o, const char *key) {
        char n[FIELD_TEXT_MAX];

        print_clean(out, field_text(o, key, n), false);
}

static void print_head(const json_t *answer, FILE *out) {
        char tasks[CELL], span[CELL];

        fputs("run ", out);
        clean(out, answer, "run");
        fprintf(out, ", %s tasks, over %s\n", count_cell(number(answer, "tasks"), tasks), short_span_text(number(answer, "seconds"), span));
}

static void print_foot(const json_t *answer, const char *verb, FILE *out) {
        if (json_is_string(json_object_get(answer, "not_watched"))) {
                fputs("not watched: ", out);
                clean(out, answer, "not_watched");
                fputc('\n', out);
        } else if (!json_is_object(json_object_get(answer, "watch")))
                fprintf(out, "what exactly, and where: sudo tpuctl %s --watch\n", verb);
}

/* --- tpuctl sched -------------------------------------------------------------------------------------- */

static void print_places(const json_t *blocked, FILE *out) {
        const json_t *p;
        size_t i;

        json_array_foreach(json_object_get(blocked, "places"), i, p) {
                char sum[CELL], waits[CELL], longest[CELL];

                fprintf(out, "    %s in %s waits, the longest %s, ", short_span_text(number(p, "seconds"), sum), count_cell(number(p, "waits"), waits),
                        short_span_text(number(p, "longest"), longest));
                clean(out, p, "comm");
                fputs(":\n        ", out);
                clean(out, p, "stack");
                fputc('\n', out);
        }
}

static void print_sched_watch(const json_t *w, FILE *out) {
        const json_t *delays = json_object_get(w, "delays"), *preempted = json_object_get(w, "preempted"), *blocked = json_object_get(w, "blocked"),
                     *softirqs = json_object_get(w, "softirqs"), *moved = json_object_get(w, "migrations");
        char a[CELL], b[CELL], c[CELL], d[CELL], e[CELL], f[CELL];

        fprintf(out, "waits for a CPU    %s in %s waits: half below %s, 99 %% below %s; %s of it in %s after it was preempted\n",
                short_span_text(number(delays, "seconds"), a), count_cell(number(delays, "n"), b), short_span_text(number(delays, "p50"), c),
                short_span_text(number(delays, "p99"), d), short_span_text(number(preempted, "seconds"), e), count_cell(number(preempted, "n"), f));
        fprintf(out, "waits in state D   %s in %s waits\n", short_span_text(number(blocked, "seconds"), a), count_cell(number(blocked, "n"), b));
        print_places(blocked, out);
        fprintf(out, "softirqs on it     %s in %s\n", short_span_text(number(softirqs, "seconds"), a), count_cell(number(softirqs, "n"), b));
        fprintf(out, "moved              %s times to another CPU, %s of them to another NUMA node\n", count_cell(number(moved, "cpus"), a),
                count_cell(number(moved, "nodes"), b));
        if (number(w, "lost") > 0)
                fprintf(out, "%.0f waits found no room and are not counted\n", number(w, "lost"));
}

/* GET /v1/sched, GET /v1/io */
static int screen_sched(const json_t *answer, FILE *out) {
        const json_t *cpu = json_object_get(answer, "cpu"), *pressure = json_object_get(cpu, "pressure"), *watch = json_object_get(answer, "watch");
        double seconds = number(answer, "seconds");
        char a[CELL], b[CELL], c[CELL], d[CELL], e[CELL], f[CELL], g[CELL];

        print_head(answer, out);
        fprintf(out, "CPU                used %s by user, %s by system; held back by its quota %s\n", short_span_text(number(cpu, "user"), a),
                short_span_text(number(cpu, "system"), b), short_span_text(number(cpu, "throttled"), c));
        fprintf(out, "                   %s%s threads waited %s for one; %s of the time one did, %s all did\n",
                count_cell(number(cpu, "threads"), d), json_is_true(json_object_get(cpu, "more_threads")) ? " of its" : "",
                short_span_text(number(cpu, "waited"), e), share_cell(pressure, "some", seconds, f), share_cell(pressure, "full", seconds, g));
        if (json_is_object(watch))
                print_sched_watch(watch, out);
        print_foot(answer, "sched", out);
        return 0;
}

/* --- tpuctl io ----------------------------------------------------------------------------------------- */

struct column {
        const char *head, *key;
        const char *(*number_text)(double n, char buf[static CELL]); /* NULL: the field's own text */
};

static int print_list(const json_t *list, const struct column columns[static IO_COLUMNS], FILE *out) {
        _cleanup_table_ struct table t = TABLE_NULL(IO_COLUMNS);
        const char *cells[IO_COLUMNS];
        const json_t *o;
        size_t i;
        int r;

        if (json_array_size(list) == 0)
                return 0;
        for (size_t k = 0; k < IO_COLUMNS; k++)
                cells[k] = columns[k].head;
        r = table_add(&t, cells);
        json_array_foreach(list, i, o) {
                char text[IO_COLUMNS][CELL];

                for (size_t k = 0; k < IO_COLUMNS; k++)
                        cells[k] = columns[k].number_text ? columns[k].number_text(number(o, columns[k].key), text[k]) :
                                                            field_text(o, columns[k].key, text[k]);
                if (r >= 0)
                        r = table_add(&t, cells);
        }
        return r < 0 ? r : table_print(&t, out);
}

static int print_times(const json_t *list, const char *head, const char *key, FILE *out) {
        const struct column columns[IO_COLUMNS] = {
                { head, key, NULL },
                { "N", "n", count_cell },
                { "TIME", "seconds", short_span_text },
                { "BYTES", "bytes", bytes_cell },
                { "HALF BELOW", "p50", short_span_text },
                { "99 % BELOW", "p99", short_span_text },
        };

        return print_list(list, columns, out);
}

static int print_slow(const json_t *list, const char *head, const char *key, const char *where, FILE *out) {
        const struct column columns[IO_COLUMNS] = {
                { head, key, NULL },
                { "TIME", "seconds", short_span_text },
                { "BYTES", "bytes", bytes_cell },
                { "WHERE", where, NULL },
                { "BY", "comm", NULL },
                { "FILE", "file", NULL },
        };

        return print_list(list, columns, out);
}

static int print_io_watch(const json_t *w, FILE *out) {
        char held[CELL];
        int r = print_times(json_object_get(w, "requests"), "REQUESTS", "operation", out);

        if (r >= 0)
                r = print_slow(json_object_get(w, "slow_requests"), "SLOWEST", "operation", "disk", out);
        if (r >= 0)
                r = print_times(json_object_get(w, "calls"), "SLOW CALLS", "call", out);
        if (r >= 0)
                r = print_slow(json_object_get(w, "slow_calls"), "SLOWEST", "call", "filesystem", out);
        if (r < 0)
                return r;
        fprintf(out, "its writers were held back %s times until the disk had caught up\n", count_cell(number(w, "held_back"), held));
        if (number(w, "lost") > 0)
                fprintf(out, "%.0f requests or calls found no room and are not counted\n", number(w, "lost"));
        return 0;
}

static int screen_io(const json_t *answer, FILE *out) {
        const json_t *s = json_object_get(answer, "storage"), *io = json_object_get(s, "io_pressure"), *memory = json_object_get(s, "memory_pressure"),
                     *watch = json_object_get(answer, "watch");
        double seconds = number(answer, "seconds");
        char a[CELL], b[CELL], c[CELL], d[CELL], e[CELL];
        int r = 0;

        print_head(answer, out);
        fprintf(out, "disks              read %s, written %s; %s of the time a thread waited for them, %s all did\n",
                bytes_cell(number(s, "read_bytes"), a), bytes_cell(number(s, "written_bytes"), b), share_cell(io, "some", seconds, c),
                share_cell(io, "full", seconds, d));
        fprintf(out, "page cache         %s pages thrown out and needed again, %s faults that read from a disk\n", count_cell(number(s, "refaults"), a),
                count_cell(number(s, "major_faults"), b));
        fprintf(out, "memory             %s pages freed by its own threads; %s of the time a thread waited for memory, %s all did\n",
                count_cell(number(s, "direct_reclaim"), c), share_cell(memory, "some", seconds, d), share_cell(memory, "full", seconds, e));
        if (json_is_object(watch))
                r = print_io_watch(watch, out);
        print_foot(answer, "io", out);
        return r;
}

/* --- The verbs ----------------------------------------------------------------------------------------- */

static int show(const char *root, const char *path, usec_t timeout, bool json, int (*screen)(const json_t *answer, FILE *out)) {
        struct problem problem = { 0 };
        json_t *answer;
        int r = hostd_ask(root, path, false, timeout, &answer, &problem);

        if (r < 0)
                return problem_complain(&problem);
        r = json ? report_print_json(stdout, json_incref(answer)) : screen(answer, stdout);
        json_decref(answer);
        return r < 0 ? EXIT_NO_ANSWER : 0;
}

static int verb(const struct ctl *c, int argc, char *argv[], const char *program, const char *summary, const char *call,
                int (*screen)(const json_t *answer, FILE *out)) {
        bool json = false, watch = false;
        const char *span = NULL;
        const struct option_def defs[] = {
                { "watch", NULL, "root: watch it by BPF for 10 seconds", NULL, &watch },
                { "seconds", "N", "watch it for so long, 1 to 30", &span, NULL },
                { "json", NULL, "print JSON", NULL, &json },
        };
        struct options o = { .program = program,
                             .synopsis = "[--watch] [--seconds N] [--json] [RUN]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = summary };
        char path[160], *end = NULL;
        unsigned long seconds = WATCH_USUAL;
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 1, &w);
        if (r < 0)
                return options_exit(r);
        if (w.n > 0 && words_check_run_name(&o, w.items[0]) < 0)
                return EXIT_USAGE;
        if (span)
                seconds = strtoul(span, &end, 10);
        if (span && (end == span || *end || seconds < 1 || seconds > WATCH_MAX)) {
                fprintf(stderr, "%s: --seconds takes 1 to %d\n", program, WATCH_MAX);
                return EXIT_USAGE;
        }
        watch |= span != NULL;
        (void) snprintf(path, sizeof(path), "%s%s%s%s", call, w.n > 0 || watch ? "?" : "", w.n > 0 ? "run=" : "", w.n > 0 ? w.items[0] : "");
        if (watch)
                (void) snprintf(path + strlen(path), sizeof(path) - strlen(path), "%swatch=%lu", w.n > 0 ? "&" : "", seconds);
        return show(o.root, path, ANSWER_TIME + seconds * USEC_PER_SEC, json, screen);
}

int verb_sched(const struct ctl *c, int argc, char *argv[]) {
        return verb(c, argc, argv, "tpuctl sched",
                    "What a run of this host waits for beside its work: a CPU, state D, softirqs; its moves between CPUs. Without RUN: the only one.",
                    "/v1/sched", screen_sched);
}

int verb_io(const struct ctl *c, int argc, char *argv[]) {
        return verb(c, argc, argv, "tpuctl io",
                    "What a run of this host waits for of its storage: disks, page cache, memory, network file systems. Without RUN: the only one.",
                    "/v1/io", screen_io);
}
