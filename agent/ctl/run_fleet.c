/* SPDX-License-Identifier: Apache-2.0 */
#include "run_fleet.h"

#include "answer.h"
#include "json_text.h"
#include "screens.h"
#include "show.h"
#include "table.h"

#define PATH_SIZE 128
#define LOOK_AGAIN 1  /* second */
#define PATIENCE 30   /* looks at a collector that does not answer, before it is given up */

/* --- Words --------------------------------------------------------------------------------------------- */

static void slices_text(const json_t *run, char *buf, size_t size) {
        const json_t *s;
        size_t i, n = 0;

        buf[0] = '\0';
        json_array_foreach(json_object_get(run, "slices"), i, s) if (n + 70 < size) n +=
                (size_t) snprintf(buf + n, size - n, "%s%.63s", i > 0 ? ", " : "", json_text_of(s, "slice"));
}

/* Without the remedy, which stands behind a line feed. */
static int plain(const char *why) {
        return (int) MIN(strcspn(why, "\n"), (size_t) 300);
}

void run_fleet_line(const json_t *run, char *buf, size_t size) {
        const char *state = json_text_of(run, "state"), *why = json_text_of(run, "why");
        size_t hosts = json_sizes_sum(json_object_get(run, "slices"), "hosts");
        char slices[300], on[360] = "";

        slices_text(run, slices, sizeof(slices));
        if (slices[0])
                (void) snprintf(on, sizeof(on), ", on %s (%zu host%s)", slices, hosts,
                                hosts == 1 ? "" : "s");
        if (streq(state, "ended"))
                (void) snprintf(buf, size, "ended: %.20s%s%.600s", json_text_of(run, "outcome"),
                                why[0] ? ": " : "", why);
        else if (streq(state, "waiting")) /* waits_for has the remedies */
                (void) snprintf(buf, size, "waiting%s%.*s", why[0] ? ": " : "", plain(why), why);
        else
                (void) snprintf(buf, size, "%.20s, generation %lld%s%s%.*s", state,
                                (long long) json_integer_value(json_object_get(run, "generation")), on,
                                streq(state, "running") || !why[0] ? "" : ": ",
                                streq(state, "running") ? 0 : plain(why), why);
}

static void print_change(FILE *out, const char *name, const char *text) {
        char line[800], *rest = line, *one;

        (void) snprintf(line, sizeof(line), "%s", text);
        fprintf(out, "%s: ", name);
        for (bool first = true; (one = strsep(&rest, "\n")); first = false) {
                fputs(first ? "" : "      to do: ", out);
                print_clean(out, one, false);
                fputc('\n', out);
        }
        (void) fflush(out); /* a failed write is reported at the end */
}

/* Each text that was not said before: a host that is missing is named once, and again when what is said of
 * it changes. */
static void say_waits(FILE *out, const char *name, const char *as, const json_t *now, const json_t *before) {
        const json_t *v, *w;
        size_t i, k;

        json_array_foreach(now, i, v) {
                bool known = false;

                json_array_foreach(before, k, w)
                        known = known || json_equal((json_t *) (uintptr_t) v, (json_t *) (uintptr_t) w);
                if (known || !json_is_string(v))
                        continue;
                fprintf(out, "  %s", as);
                print_change(out, name, json_string_value(v));
        }
}

/* --- Calls --------------------------------------------------------------------------------------------- */

/* The record: 0, -ENOENT when there is none, or -errno with problem. */
static int run_fleet_get(struct collector *c, const char *name, json_t **ret, struct problem *problem) {
        char path[PATH_SIZE];

        (void) snprintf(path, sizeof(path), "/api/v1/runs/%.64s", name);
        return collector_call(c, NULL, path, NULL, 0, ret, problem);
}

int run_fleet_stop(struct collector *c, const char *name, json_t **ret, struct problem *problem) {
        char path[PATH_SIZE];

        (void) snprintf(path, sizeof(path), "/api/v1/runs/%.64s", name);
        return collector_call(c, "DELETE", path, NULL, 0, ret, problem);
}

int run_fleet_start(struct collector *c, const json_t *intent, char ret_serial[static 64]) {
        _cleanup_free_ char *body = json_dumps(intent, JSON_COMPACT);
        struct problem problem;
        json_t *answer = NULL;
        int r;

        if (!body)
                r = problem_set(&problem, -ENOMEM, NULL, "out of memory");
        else
                r = collector_call(c, "POST", "/api/v1/runs", body, 0, &answer, &problem);
        if (r < 0)
                return problem_complain(&problem);
        (void) snprintf(ret_serial, 64, "%s", json_text_of(answer, "serial"));
        json_decref(answer);
        return 0;
}

/* --- The barrier --------------------------------------------------------------------------------------- */

static int exit_code(const json_t *run) {
        return streq(json_text_of(run, "outcome"), "success") ||
                               streq(json_text_of(run, "outcome"), "stopped")
                       ? 0
                       : EXIT_REFUSED;
}

struct watch {
        struct collector *collector;
        const char *name, *serial;
        FILE *out;
        char line[800];
        json_t *waits, *notes;
        unsigned silent;
};

/* Says what is new. 1: it runs, or has ended, with the exit code. */
static int look_at_record(struct watch *w, int *ret_code) {
        struct problem problem;
        json_auto_t *run = NULL;
        char line[800];
        int r = run_fleet_get(w->collector, w->name, &run, &problem);

        if (r < 0 && problem.no_answer && ++w->silent < PATIENCE) {
                if (w->silent == 1)
                        fprintf(stderr, "tpuctl run: %s; trying again\n", problem.text);
                return 0;
        }
        if (r < 0) {
                *ret_code = problem_complain(&problem);
                return 1;
        }
        w->silent = 0;
        if (w->serial[0] && json_text_of(run, "serial")[0] &&
            !streq(json_text_of(run, "serial"), w->serial))
                return 0; /* the record of an older run of this name is still there */
        run_fleet_line(run, line, sizeof(line));
        if (!streq(line, w->line))
                print_change(w->out, w->name, line);
        memcpy(w->line, line, sizeof(line));
        say_waits(w->out, w->name, "", json_object_get(run, "waits_for"), w->waits);
        say_waits(w->out, w->name, "warning: ", json_object_get(run, "notes"), w->notes);
        json_decref(w->waits);
        json_decref(w->notes);
        w->waits = json_incref(json_object_get(run, "waits_for"));
        w->notes = json_incref(json_object_get(run, "notes"));
        *ret_code = streq(json_text_of(run, "state"), "ended") ? exit_code(run) : 0;
        return streq(json_text_of(run, "state"), "running") || streq(json_text_of(run, "state"), "ended");
}

int run_fleet_watch(struct collector *c, const char *name, const char *serial, FILE *out) {
        struct watch w = { .collector = c, .name = name, .serial = serial, .out = out };
        int code = 0;

        while (look_at_record(&w, &code) == 0)
                (void) sleep(LOOK_AGAIN);
        json_decref(w.waits);
        json_decref(w.notes);
        return code;
}

/* --- The list ------------------------------------------------------------------------------------------ */

/* What the table shows of a run, and no member of it says. */
static void add_cells(json_t *run) {
        const char *why = json_text_of(run, "why");
        size_t hosts = json_sizes_sum(json_object_get(run, "slices"), "hosts");
        char slices[300];

        slices_text(run, slices, sizeof(slices));
        (void) json_object_set_new(run, "on", json_string(slices)); /* out of memory: it is not shown */
        if (hosts > 0)
                (void) json_object_set_new(run, "hosts", json_integer((json_int_t) hosts));
        (void) json_object_set_new(run, "why", json_stringn_nocheck(why, (size_t) plain(why)));
}

int screen_runs(json_t *answer, usec_t now, FILE *out) {
        static const struct column columns[] = {
                { .title = "NAME", .cell = "{name}" },
                { .title = "STATE", .cell = "{state}[: {outcome}]" },
                { .title = "USER", .cell = "{intent.user}" },
                { .title = "GENERATION", .cell = "[{generation}|0]" },
                { .title = "SINCE", .cell = "{since:age}" },
                { .title = "SLICES", .cell = "{on}" },
                { .title = "HOSTS", .cell = "{hosts}" },
                { .title = "STEP", .cell = "[{step>0}{step}]" },
                { .title = "WHY", .cell = "{why}" },
        };
        json_t *runs = json_object_get(answer, "runs"), *run;
        size_t i;
        int r;

        if (json_array_size(runs) == 0) {
                fputs("no runs over slices (of one host: tpuctl runs there)\n", out);
                return 0;
        }
        json_array_foreach(runs, i, run)
                add_cells(run);
        r = show_table(out, runs, now, columns, ELEMENTSOF(columns));
        json_array_foreach(runs, i, run)
                if (r == 0 && json_array_size(json_object_get(run, "waits_for")) > 0) {
                        fprintf(out, "\n");
                        say_waits(out, json_text_of(run, "name"), "", json_object_get(run, "waits_for"),
                                  NULL);
                }
        json_array_foreach(runs, i, run)
                if (r == 0)
                        show(out, run, now, "[\n{first_word?}{name}: {first_word:lines}\n]");
        return r;
}
