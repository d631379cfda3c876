/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl why: how a run ended, here as tpu-launchd recorded it, or on all its hosts from the collector. */
#include "answer.h"
#include "json_text.h"
#include "logs.h"
#include "screens.h"
#include "show.h"
#include "table.h"
#include "verb_words.h"

#define LINES_SHOWN   20
#define WORDS_SHOWN   12
#define CORE_SHOWN    20
#define LINES_IN_JSON "1000"

/* --- Of all hosts -------------------------------------------------------------------------------------- */

static const struct column event_columns[] = {
        { .title = "TIME", .cell = "{time}" },
        { .title = "HOST", .cell = "{host}" },
        { .title = "WHAT", .cell = "{sentence}", .shrinks = true },
};

static int screen_why(json_t *answer, usec_t now, FILE *out) {
        const json_t *events = json_object_get(answer, "events"), *lines = json_object_get(answer, "lines");
        int r;

        if (!json_is_array(events) || !json_is_array(lines))
                return -EPROTO;
        show(out, answer, now,
             "{run}, ended {ended}: {sentence}\n[  to do: {remedy}\n]"
             "[{silent?}  did not report its end: {silent}\n]"
             "[{cut?}  more was reported than is shown\n]\n");
        r = show_table(out, events, now, event_columns, ELEMENTSOF(event_columns));
        if (r == 0 && json_array_size(lines) > 0) {
                show(out, answer, now, "\nthe last lines of {host}:\n");
                show_each(out, lines, now, "  {text}\n");
        }
        return r;
}

/* --- Of this host -------------------------------------------------------------------------------------- */

#define END                                                                                                 \
        "{name} ended {ended:age} ago: {cause}[ {status}][: {why:lines}]\n[  to do: {remedy:lines}\n]"      \
        "[{restarts>0}  it was restarted {restarts} of {restarts_max} times\n]"                             \
        "[{generation>0}  it is a part of a run over slices: tpuctl why --fleet {name}\n]"

/* Lines [from, to) of what was kept at its end. */
static void show_kept(const json_t *lines, size_t from, size_t to) {
        for (size_t i = from; i < to; i++) {
                fputs("  ", stdout);
                print_clean(stdout, json_string_value(json_array_get(lines, i)), false);
                putchar('\n');
        }
}

/* The worst file comes first; its last lines are those that say why. */
static void show_libtpu(const struct options *o, const char *name) {
        struct problem problem;
        json_auto_t *lines = logs_take_kept(o, name, "libtpu", &problem);
        size_t n = json_array_size(lines), end = 1;

        if (n == 0)
                return; /* most have none */
        while (end < n && !endswith(json_string_value(json_array_get(lines, end)), " bytes:"))
                end++;
        puts("\nlibtpu wrote (all that was kept: tpuctl bundle NAME):");
        show_kept(lines, 0, 1);
        show_kept(lines, end > WORDS_SHOWN ? end - WORDS_SHOWN : 1, end);
}

/* The thread that crashed comes first. */
static void show_core(const struct options *o, const char *name) {
        struct problem problem;
        json_auto_t *lines = logs_take_kept(o, name, "core", &problem);
        size_t n = json_array_size(lines);

        if (n == 0)
                return;
        puts("\nits first core dump (all stacks: tpuctl bundle NAME):");
        show_kept(lines, 0, MIN(n, (size_t) CORE_SHOWN));
}

static int why_here(const struct options *o, const char *name, bool json) {
        struct problem problem;
        json_auto_t *answer = NULL;
        const json_t *run;

        if (runs_of_launchd(o->root, name, &answer, &problem) < 0)
                return problem_complain(&problem);
        run = json_array_get(json_object_get(answer, "runs"), 0);
        if (!streq(json_text_of(run, "state"), "exited")) {
                fprintf(stderr,
                        "tpuctl why: run %s has not ended: tpuctl runs; if it stalls: "
                        "tpuctl diagnose SLICE\n",
                        name);
                return EXIT_REFUSED;
        }
        if (json)
                return answer_print(o, TAKE_PTR(answer), &(struct answer_as){ .json = true });
        show(stdout, run, clock_real(&clock_system), END);
        show_core(o, name);
        show_libtpu(o, name);
        puts("\nits last lines:");
        return logs_show_here(o, name, LINES_SHOWN);
}

int verb_why(const struct ctl *c, int argc, char *argv[]) {
        bool json = false, fleet = false;
        const char *url = NULL;
        const struct option_def defs[] = {
                { "fleet", NULL, "on all its hosts, from the collector", NULL, &fleet },
                OPTION_COLLECTOR(&url),
                OPTION_JSON(&json),
        };
        struct options o = VERB_OPTIONS(
                "why", "NAME [--fleet] [--json]", defs,
                "Shows why a run ended: the host that ended first and its reason, what followed on the "
                "others,\n"
                "and the last lines there.");
        struct words w;
        char path[128];
        int r = words_parse(c, &o, argc, argv, 1, 1, &w);

        if (r < 0)
                return options_exit(r);
        if (words_check_run_name(&o, w.items[0]) < 0)
                return EXIT_USAGE;
        if (!fleet && !url)
                return why_here(&o, w.items[0], json);
        (void) snprintf(path, sizeof(path), "/api/v1/runs/%.63s/why%s", w.items[0],
                        json ? "?lines=" LINES_IN_JSON : "");
        return answer_of_collector(&o, url, path, &(struct answer_as){ json, screen_why, NULL });
}
