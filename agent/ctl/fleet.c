/* SPDX-License-Identifier: Apache-2.0 */
#include "collector.h"
#include "ctl.h"
#include "json_text.h"
#include "order.h"
#include "report.h"
#include "screen.h"
#include "table.h"
#include "words.h"

/*
 * tpuctl fleet slices | cordon | drain | uncordon | observe | repair | release: the collector's registry
 * (docs/registry.md).
 */

#define FLEET_REGISTRY_PATH_SIZE     2048
#define MISSING_SHOWN 16

/* --- Slices -------------------------------------------------------------------------------------------- */

static void print_since(FILE *out, const json_t *o) {
        char buf[CLOCK_TEXT_MAX];

        print_clean(out, clock_text((usec_t) json_integer_value(json_object_get(o, "since")), buf), false);
}

/* "  worker 2, h2 (10.0.0.3), since …: its lease ended" */
static void print_missing(const json_t *list, FILE *out) {
        const json_t *m;
        size_t i;

        json_array_foreach (list, i, m) {
                const char *host = json_text_of(m, "host"),
                           *address = json_string_value(json_array_get(json_object_get(m, "address"), 0));

                if (i == MISSING_SHOWN) {
                        fprintf(out, "  and %zu more\n", json_array_size(list) - i);
                        return;
                }
                fprintf(out, "  missing: worker %lld",
                        (long long) json_integer_value(json_object_get(m, "worker")));
                if (*host) {
                        fputs(", ", out);
                        print_clean(out, host, false);
                }
                if (address) {
                        fputs(" (", out);
                        print_clean(out, address, false);
                        fputc(')', out);
                }
                fputs(", since ", out);
                print_since(out, m);
                fputs(": ", out);
                print_clean(out, json_text_of(m, "why"), false);
                fputc('\n', out);
        }
}

static int show_table(const json_t *list, FILE *out) {
        _cleanup_table_ struct table t = TABLE_NULL(6);
        static const char *const head[] = { "SLICE", "STATE", "PRESENT", "GENERATION", "SINCE", "TROUBLE" };
        const json_t *s;
        size_t i;
        int r = table_add(&t, head);

        json_array_foreach (list, i, s) {
                const json_t *g = json_object_get(s, "gang");
                long long conflicts = json_integer_value(json_object_get(g, "conflicts")),
                          unlike = json_integer_value(json_object_get(g, "unlike"));
                char present[48] = "", generation[24], since[CLOCK_TEXT_MAX] = "", trouble[80] = "";

                if (!json_is_object(g))
                        continue;
                (void) snprintf(present, sizeof(present), "%lld of %lld",
                                (long long) json_integer_value(json_object_get(g, "present")),
                                (long long) json_integer_value(json_object_get(g, "hosts")));
                (void) snprintf(generation, sizeof(generation), "%lld",
                                (long long) json_integer_value(json_object_get(g, "generation")));
                (void) clock_text((usec_t) json_integer_value(json_object_get(g, "since")), since);
                if (conflicts > 0)
                        (void) snprintf(trouble, sizeof(trouble), "%lld worker ids claimed twice",
                                        conflicts);
                else if (unlike > 0)
                        (void) snprintf(trouble, sizeof(trouble), "%lld differences between its hosts",
                                        unlike);
                if (r >= 0)
                        r = table_add(&t, (const char *const[]){ json_text_of(s, "name"),
                                                                 json_text_of(g, "state"), present,
                                                                 generation, since, trouble });
        }
        return r < 0 ? r : table_print(&t, out);
}

static int show_slices(const json_t *answer, FILE *out) {
        const json_t *list = json_object_get(answer, "slices"), *s;
        size_t i;
        int r = show_table(list, out);

        json_array_foreach (list, i, s) {
                const json_t *missing = json_object_get(json_object_get(s, "gang"), "missing");

                if (json_array_size(missing) == 0)
                        continue;
                print_clean(out, json_text_of(s, "name"), false);
                fputs(" waits for:\n", out);
                print_missing(missing, out);
        }
        return r;
}

static int slices(const struct collector *c, bool json) {
        struct problem problem;
        json_t *answer;
        int r;

        if (collector_ask(c, "/api/v1/slices", 0, &answer, &problem) < 0)
                return problem_complain(&problem);
        r = json ? report_print_json(stdout, json_incref(answer)) : show_slices(answer, stdout);
        json_decref(answer);
        return r < 0 ? EXIT_NO_ANSWER : 0;
}

/* --- Orders ----------------------------------------------------------------------------------------------
 */

static char *join(const struct words *w, size_t from) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        for (size_t i = from; i < w->n; i++)
                fprintf(f, "%s%s", i > from ? " " : "", w->items[i]);
        if (fclose(f) == EOF) {
                free(text);
                return NULL;
        }
        return text;
}

/* One word of a path: nothing in it may lead elsewhere. */
static bool is_plain(const char *word) {
        return *word &&
               strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
                       strlen(word) &&
               strlen(word) < 64;
}

static int act(const struct collector *c, const char *method, const char *path, const char *said) {
        struct problem problem;
        json_t *answer;

        if (collector_act(c, method, path, &answer, &problem) < 0)
                return problem_complain(&problem);
        json_decref(answer);
        print_clean(stdout, said, false);
        putchar('\n');
        return 0;
}

static int put(const struct collector *c, const char *where, const char *kind, const char *reason,
               const char *until) {
        char path[FLEET_REGISTRY_PATH_SIZE], end[CLOCK_TEXT_MAX], said[320];

        if (until && order_until_text(until, end) < 0) {
                fprintf(stderr,
                        "tpuctl fleet: --until is a span as 30min, 2h or 3d, or a time as "
                        "2026-11-21T10:00:00Z, not '%s'\n",
                        until);
                return EXIT_USAGE;
        }
        (void) snprintf(path, sizeof(path), "%s/%s", where, kind);
        if (collector_parameter(path, sizeof(path), "reason", *reason ? reason : NULL) < 0 ||
            collector_parameter(path, sizeof(path), "until", until ? end : NULL) < 0) {
                fputs("tpuctl fleet: the reason is at most 199 bytes\n", stderr);
                return EXIT_USAGE;
        }
        (void) snprintf(said, sizeof(said), "ordered: %s of %s%s%s", kind, where, *reason ? ": " : "",
                        reason);
        return act(c, "PUT", path, said);
}

static int end_orders(const struct collector *c, const char *where, const char *host) {
        static const char *const kinds[] = { "cordon", "drain" };
        char path[FLEET_REGISTRY_PATH_SIZE], said[120];
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds) && r == 0; i++) {
                (void) snprintf(path, sizeof(path), "%s/%s", where, kinds[i]);
                (void) snprintf(said, sizeof(said), "%s: no %s is ordered any more", host, kinds[i]);
                r = act(c, "DELETE", path, said);
        }
        return r;
}

static int release(const struct collector *c, const struct words *w) {
        char path[FLEET_REGISTRY_PATH_SIZE], said[160];

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
static int mode(const struct collector *c, const struct words *w, const char *host, const char *until) {
        _cleanup_free_ char *reason = join(w, 1);
        char where[160];

        if (!reason)
                return EXIT_REFUSED;
        (void) snprintf(where, sizeof(where), "/api/v1%s%s", host ? "/hosts/" : "", host ? host : "");
        if (streq(w->items[0], "observe"))
                return put(c, where, "mode", reason, until);
        (void) snprintf(where, sizeof(where), "/api/v1%s%s/mode", host ? "/hosts/" : "", host ? host : "");
        return act(c, "DELETE", where,
                   host ? "the registry orders this host to observe no more"
                        : "the fleet is not ordered to observe any more");
}

static int hold(const struct collector *c, const struct words *w, const char *until) {
        _cleanup_free_ char *reason = join(w, 2);
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
        return ends ? end_orders(c, where, w->items[1]) : put(c, where, w->items[0], reason, until);
}

/* Whether the word behind "fleet" is one of these; *ret: the exit code. */
static bool fleet_registry(const struct ctl *c, int argc, char *argv[], int *ret) {
        static const char *const verbs[] = { "slices",  "cordon", "drain",  "uncordon",
                                             "observe", "repair", "release" };
        const char *url = NULL, *until = NULL, *host = NULL, *verb = argc > 1 ? argv[1] : "";
        bool json = false, known = false;
        const struct option_def defs[] = {
                { "collector", "URL",
                  "where the collector's API is; default: tpuctl.conf, else " COLLECTOR_DEFAULT, &url,
                  NULL },
                { "until", "TIME", "the order ends by itself: 2h, 3d or 2026-11-21T10:00:00Z", &until,
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
        struct collector collector;
        struct words w;
        int r;

        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                known = known || streq(verb, verbs[i]);
        if (!known)
                return false;
        r = words_parse(c, &o, argc, argv, 1, WORDS_MAX, &w);
        if (r < 0)
                *ret = options_exit(r);
        else if (collector_open(&o, url, &collector) < 0 || (host && !is_plain(host)))
                *ret = EXIT_USAGE;
        else if (streq(verb, "slices"))
                *ret = slices(&collector, json);
        else if (streq(verb, "release"))
                *ret = release(&collector, &w);
        else if (streq(verb, "observe") || streq(verb, "repair"))
                *ret = mode(&collector, &w, host, until);
        else
                *ret = hold(&collector, &w, until);
        return true;
}

/* tpuctl fleet: all hosts, as the collector knows them. */

#define PATH_SIZE 2048

/* All pages as one answer. A collector without pages says no "next". */
static int ask_all(const struct collector *c, const char *slice, const char *state, json_t **ret,
                   struct problem *problem) {
        json_t *all = json_array();
        char offset[24] = "";
        int r = all ? 0 : -ENOMEM;

        for (bool more = true; r == 0 && more;) {
                char path[PATH_SIZE] = "/api/v1/hosts";
                json_t *answer = NULL, *next;

                r = collector_parameter(path, sizeof(path), "slice", slice);
                if (r == 0)
                        r = collector_parameter(path, sizeof(path), "state", state);
                if (r == 0)
                        r = collector_parameter(path, sizeof(path), "offset", offset[0] ? offset : NULL);
                if (r < 0) {
                        (void) problem_set(problem, r, NULL, "--slice or --state: %s", strerror(-r));
                        break;
                }
                r = collector_ask(c, path, 0, &answer, problem);
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

int verb_fleet(const struct ctl *c, int argc, char *argv[]) {
        const char *url = NULL, *slice = NULL, *state = NULL;
        bool json = false;
        const struct option_def defs[] = {
                { "collector", "URL",
                  "where the collector's API is; default: tpuctl.conf, else " COLLECTOR_DEFAULT, &url,
                  NULL },
                { "slice", "NAME", "hosts of this slice only", &slice, NULL },
                { "state", "STATE", "hosts whose agents said this last: ready, degraded, unfit, unknown",
                  &state, NULL },
                { "json", NULL, "print JSON", NULL, &json },
        };
        struct options o = {
                .program = "tpuctl fleet",
                .synopsis = "[--collector URL] [--slice NAME] [--state STATE] [--json]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary =
                        "Lists all hosts that the collector's registry has, and those that send it "
                        "telemetry alone, by slice and worker; 'fleet slices' "
                        "the slices, who is missing "
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

        if (fleet_registry(c, argc, argv, &r))
                return r;
        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        if (collector_open(&o, url, &collector) < 0)
                return EXIT_USAGE;
        r = ask_all(&collector, slice, state, &answer, &problem);
        if (r < 0)
                return problem_complain(&problem);
        r = json ? report_print_json(stdout, json_incref(answer)) : screen_fleet(answer, stdout);
        json_decref(answer);
        if (r == 0)
                return 0;
        fprintf(stderr, "tpuctl fleet: the collector's answer cannot be shown: %s\n", strerror(-r));
        return EXIT_NO_ANSWER;
}
