/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpuctl fleet: all hosts, as the collector knows them; and fleet slices | cordon | drain | uncordon |
 * observe | repair | release: its registry (docs/registry.md).
 */
#include "answer.h"
#include "json_text.h"
#include "order.h"
#include "screens.h"
#include "show.h"
#include "table.h"
#include "verb_words.h"

#define PATH_SIZE 2048
#define MISSING_SHOWN 16
/* Seconds: agents push metrics every 10 s unless configured otherwise; six missed in a row. */
#define HOST_SILENT "60"

/* --- Slices -------------------------------------------------------------------------------------------- */

/* The missing hosts, and why. */
static void print_missing(const json_t *slice, usec_t now, FILE *out) {
        const json_t *missing = json_object_get(json_object_get(slice, "gang"), "missing"), *m;
        size_t i;

        if (json_array_size(missing) > 0)
                show(out, slice, now, "{name} waits for:\n");
        json_array_foreach(missing, i, m) {
                if (i == MISSING_SHOWN) {
                        fprintf(out, "  and %zu more\n", json_array_size(missing) - i);
                        return;
                }
                show(out, m, now,
                     "  missing: worker [{worker}|0][, {host}][ ({address.0})], since {since:time}: "
                     "{why}\n");
        }
}

static int screen_slices(json_t *answer, usec_t now, FILE *out) {
        static const struct column columns[] = {
                { .title = "SLICE", .cell = "{name}" },
                { .title = "STATE", .cell = "{gang.state}" },
                { .title = "PRESENT", .cell = "[{gang.present}|0] of [{gang.hosts}|0]" },
                { .title = "GENERATION", .cell = "[{gang.generation}|0]" },
                { .title = "SINCE", .cell = "{gang.since:time}" },
                { .title = "TROUBLE",
                  .cell = "[{gang.conflicts>0}{gang.conflicts} worker ids claimed twice"
                          "|{gang.unlike>0}{gang.unlike} differences between its hosts]" },
        };
        const json_t *list = json_object_get(answer, "slices");
        json_t *rows = json_array(), *s;
        size_t i;
        int r = rows ? 0 : -ENOMEM;

        json_array_foreach(list, i, s)
                if (r == 0 && json_is_object(json_object_get(s, "gang")))
                        r = json_array_append(rows, s) < 0 ? -ENOMEM : 0;
        if (r == 0)
                r = show_table(out, rows, now, columns, ELEMENTSOF(columns));
        json_decref(rows);
        json_array_foreach(list, i, s)
                print_missing(s, now, out);
        return r;
}

/* --- Orders -------------------------------------------------------------------------------------------- */

/* One word of a path: nothing in it may lead elsewhere. */
static bool is_plain(const char *word) {
        return *word &&
               strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
                       strlen(word) &&
               strlen(word) < 64;
}

static int act(struct collector *c, const char *method, const char *path, const char *said) {
        struct problem problem;
        json_t *answer;

        if (collector_call(c, method, path, NULL, 0, &answer, &problem) < 0)
                return problem_complain(&problem);
        json_decref(answer);
        print_clean(stdout, said, false);
        putchar('\n');
        return 0;
}

/* until: a time, or NULL */
static int put_record(struct collector *c, const char *where, const char *kind, const char *reason,
                      const char *until) {
        char path[PATH_SIZE], said[320];

        (void) snprintf(path, sizeof(path), "%s/%s", where, kind);
        if (path_parameter(path, sizeof(path), "reason", *reason ? reason : NULL) < 0 ||
            path_parameter(path, sizeof(path), "until", until) < 0) {
                fputs("tpuctl fleet: the reason is at most 199 bytes\n", stderr);
                return EXIT_USAGE;
        }
        (void) snprintf(said, sizeof(said), "ordered: %s of %s%s%s", kind, where, *reason ? ": " : "",
                        reason);
        return act(c, "PUT", path, said);
}

static int end_orders(struct collector *c, const char *where, const char *host) {
        static const char *const kinds[] = { "cordon", "drain" };
        char path[PATH_SIZE], said[120];
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds) && r == 0; i++) {
                (void) snprintf(path, sizeof(path), "%s/%s", where, kinds[i]);
                (void) snprintf(said, sizeof(said), "%s: no %s is ordered any more", host, kinds[i]);
                r = act(c, "DELETE", path, said);
        }
        return r;
}

static int release(struct collector *c, const struct words *w) {
        char path[PATH_SIZE], said[160];

        if (w->n != 3 || !is_plain(w->items[1]) || !*w->items[2] ||
            strspn(w->items[2], "0123456789") != strlen(w->items[2])) {
                fputs("tpuctl fleet release: it is 'release SLICE WORKER'\n", stderr);
                return EXIT_USAGE;
        }
        (void) snprintf(path, sizeof(path), "/api/v1/slices/%s/slots/%s", w->items[1], w->items[2]);
        (void) snprintf(said, sizeof(said),
                        "worker %s of slice %s is given up: the next that says it is gets it", w->items[2],
                        w->items[1]);
        return act(c, "DELETE", path, said);
}

/* "observe [--host NAME] [REASON …]": the whole fleet without a host. */
static int set_mode(struct collector *c, const struct words *w, const char *host, const char *until) {
        _cleanup_free_ char *reason = words_join(w, 1);
        char where[160], path[168];

        if (!reason)
                return EXIT_REFUSED;
        (void) snprintf(where, sizeof(where), "/api/v1%s%s", host ? "/hosts/" : "", host ? host : "");
        if (streq(w->items[0], "observe"))
                return put_record(c, where, "mode", reason, until);
        (void) snprintf(path, sizeof(path), "%s/mode", where);
        return act(c, "DELETE", path,
                   host ? "the registry orders this host to observe no more"
                        : "the fleet is not ordered to observe any more");
}

static int hold_runs(struct collector *c, const struct words *w, const char *until) {
        _cleanup_free_ char *reason = words_join(w, 2);
        bool ends = streq(w->items[0], "uncordon");
        char where[160];

        if (w->n < 2 || !is_plain(w->items[1]) || (ends ? w->n > 2 : w->n < 3)) {
                fprintf(stderr, "tpuctl fleet %s: it is '%s HOST%s'\n", w->items[0], w->items[0],
                        ends ? "" : " REASON'");
                return EXIT_USAGE;
        }
        (void) snprintf(where, sizeof(where), "/api/v1/hosts/%s", w->items[1]);
        if (!reason)
                return EXIT_REFUSED;
        return ends ? end_orders(c, where, w->items[1]) : put_record(c, where, w->items[0], reason, until);
}

/* The word behind "fleet" is one of the registry's. */
static int fleet_registry(const struct ctl *c, int argc, char *argv[]) {
        const char *url = NULL, *given = NULL, *host = NULL, *verb = argv[1];
        bool json = false;
        const struct option_def defs[] = {
                OPTION_COLLECTOR(&url),
                { "until", "TIME", "the order ends by itself: 2h, 3d or 2026-11-21T10:00:00Z", &given,
                  NULL },
                { "host", "NAME", "observe, repair: this host, not the whole fleet", &host, NULL },
                { "json", NULL, "slices: print JSON", NULL, &json },
        };
        struct options o = { .program = "tpuctl fleet",
                             .synopsis = "slices | cordon HOST REASON | drain HOST REASON | uncordon HOST | "
                                         "observe | repair | release SLICE WORKER",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "What the collector's registry knows of slices, and orders that it "
                                        "passes on to hosts." };
        char end[CLOCK_TEXT_MAX];
        const char *until;
        struct collector collector;
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 1, WORDS_MAX, &w);
        if (r < 0)
                return options_exit(r);
        if (streq(verb, "slices"))
                return answer_of_collector(&o, url, "/api/v1/slices",
                                           &(struct answer_as){ json, screen_slices, NULL });
        if (collector_open(&o, url, &collector) < 0 || (host && !is_plain(host)) ||
            order_until(&o, given, end) < 0)
                return EXIT_USAGE;
        until = given ? end : NULL;
        if (streq(verb, "release"))
                return release(&collector, &w);
        if (streq(verb, "observe") || streq(verb, "repair"))
                return set_mode(&collector, &w, host, until);
        return hold_runs(&collector, &w, until);
}

/* --- Hosts --------------------------------------------------------------------------------------------- */

/* All pages as one answer. A collector without pages says no "next". */
static int ask_all(struct collector *c, const char *slice, const char *state, json_t **ret,
                   struct problem *problem) {
        json_t *all = json_array();
        char offset[24] = "";
        int r = all ? 0 : -ENOMEM;

        for (bool more = true; r == 0 && more;) {
                char path[PATH_SIZE] = "/api/v1/hosts";
                json_t *answer = NULL, *next;

                r = path_parameter(path, sizeof(path), "slice", slice);
                if (r == 0)
                        r = path_parameter(path, sizeof(path), "state", state);
                if (r == 0)
                        r = path_parameter(path, sizeof(path), "offset", offset[0] ? offset : NULL);
                if (r < 0) {
                        (void) problem_set(problem, r, NULL, "--slice or --state: %s", strerror(-r));
                        break;
                }
                r = collector_call(c, NULL, path, NULL, 0, &answer, problem);
                if (r < 0)
                        break;
                next = json_object_get(answer, "next");
                more = json_is_integer(next);
                (void) snprintf(offset, sizeof(offset), "%lld", (long long) json_integer_value(next));
                if (json_is_array(json_object_get(answer, "hosts")))
                        r = json_array_extend(all, json_object_get(answer, "hosts")) < 0 ? -ENOMEM : 0;
                else
                        r = problem_set(problem, -EPROTO, NULL, "the collector's answer has no hosts");
                json_decref(answer);
        }
        if (r < 0) {
                json_decref(all);
                return r;
        }
        *ret = json_pack("{s:o}", "hosts", all);
        return *ret ? 0 : problem_set(problem, -ENOMEM, NULL, "out of memory");
}

/* A host that has been silent for long is shown as that, not in its last known state. */
#define IS_MISSING "{registry=missing}"
#define IS_SILENT  "{age_seconds>" HOST_SILENT "}"

static const struct column host_columns[] = {
        { .title = "SLICE", .cell = "{slice}" },
        { .title = "WORKER", .cell = "{worker_id}" },
        { .title = "HOST", .cell = "{name}" },
        { .title = "STATE", .cell = "[" IS_MISSING "MISSING|" IS_SILENT "SILENT|{state}]" },
        { .title = "RUN", .cell = "{run}" },
        { .title = "STEP", .cell = "{step}" },
        { .title = "AGE", .cell = "{age_seconds:long}" },
        { .title = "LAG", .cell = "{lag_seconds:long}" },
        { .title = "REASON",
          .cell = "[" IS_MISSING "[{missing}]"
                  "|" IS_SILENT
                  "nothing heard for {age_seconds:long}; was [{state}|unknown] then[: {reasons}]"
                  "|[{registry=none}in no registry][{;}{orders}][{;}{reasons}]]",
          .shrinks = true },
};

/* "3 hosts: 1 silent, 2 ready" */
static void print_sums(const json_t *hosts, FILE *out) {
        static const char *const names[] = { "silent", "ready", "degraded", "unfit", "unknown" };
        size_t n[ELEMENTSOF(names)] = { 0 }, i;
        char sums[160] = "", buf[FIELD_TEXT_MAX];
        const json_t *host;

        json_array_foreach(hosts, i, host) {
                const char *state = field_text(host, "state", buf);
                size_t k = 1;

                while (k + 1 < ELEMENTSOF(names) && !streq(names[k], state))
                        k++;
                if (streq(json_text_of(host, "registry"), "missing") ||
                    field_number(host, "age_seconds") > atoi(HOST_SILENT))
                        k = 0;
                n[k]++;
        }
        for (size_t k = 0, len = 0; k < ELEMENTSOF(names); k++)
                if (n[k] > 0)
                        len += (size_t) snprintf(sums + len, sizeof(sums) - len, "%s %zu %s",
                                                 len > 0 ? "," : "", n[k], names[k]);
        fprintf(out, "%zu host%s:%s\n", json_array_size(hosts), json_array_size(hosts) == 1 ? "" : "s",
                sums);
}

int screen_fleet(json_t *answer, usec_t now, FILE *out) {
        const json_t *hosts = json_object_get(answer, "hosts");
        int r;

        if (!json_is_array(hosts))
                return -EPROTO;
        if (json_array_size(hosts) == 0) {
                fputs("no host has reported to this collector yet (on a host: tpuctl status shows its "
                      "registry and its uplink)\n",
                      out);
                return 0;
        }
        r = show_table(out, hosts, now, host_columns, ELEMENTSOF(host_columns));
        if (r == 0)
                print_sums(hosts, out);
        return r;
}

int verb_fleet(const struct ctl *c, int argc, char *argv[]) {
        static const char *const registry[] = { "slices",  "cordon", "drain",  "uncordon",
                                                "observe", "repair", "release" };
        const char *url = NULL, *slice = NULL, *state = NULL;
        bool json = false;
        const struct option_def defs[] = {
                OPTION_COLLECTOR(&url),
                { "slice", "NAME", "hosts of this slice only", &slice, NULL },
                { "state", "STATE", "hosts whose agents said this last: ready, degraded, unfit, unknown",
                  &state, NULL },
                OPTION_JSON(&json),
        };
        struct options o = {
                .program = "tpuctl fleet",
                .synopsis = "[--collector URL] [--slice NAME] [--state STATE] [--json]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary =
                        "Lists all hosts that the collector's registry has, and those that send it "
                        "telemetry alone, by slice and worker; 'fleet slices' "
                        "the slices, with missing hosts "
                        "and why.\n'fleet cordon', 'drain', 'uncordon HOST', 'observe', 'repair' order from "
                        "here, 'release SLICE WORKER' gives up the id of a dead machine. "
                        "AGE: when it was heard "
                        "last; LAG: how old\nits telemetry was then. A host that was started "
                        "just now appears with its "
                        "first report, within some seconds."
        };
        struct collector collector;
        struct problem problem;
        json_t *answer;
        struct words w;
        int r;

        for (size_t i = 0; argc > 1 && i < ELEMENTSOF(registry); i++)
                if (streq(argv[1], registry[i]))
                        return fleet_registry(c, argc, argv);
        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        if (collector_open(&o, url, &collector) < 0)
                return EXIT_USAGE;
        if (ask_all(&collector, slice, state, &answer, &problem) < 0)
                return problem_complain(&problem);
        return answer_print(&o, answer, &(struct answer_as){ json, screen_fleet, NULL });
}
