/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl fleet: all hosts, as the collector knows them; its lists: slices, stalls, suspects. */
#include "answer.h"
#include "fleet_orders.h"
#include "fleet_pairs.h"
#include "json_text.h"
#include "known_names.h"
#include "screens.h"
#include "show.h"
#include "table.h"
#include "texts.h"
#include "verb_words.h"

#define PATH_SIZE 2048
#define MISSING_SHOWN 16
/* Seconds: agents push metrics every 10 s unless configured otherwise; six missed in a row. */
#define HOST_SILENT "60"

#define SLICES_SUMMARY "slices: whether each is whole, and missing hosts, since when and why"

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
                  .cell = "[{gang.conflicts>1}{gang.conflicts} worker ids claimed twice"
                          "|{gang.conflicts>0}a worker id claimed twice"
                          "|{gang.unlike>1}{gang.unlike} differences between its hosts"
                          "|{gang.unlike>0}a difference between its hosts"
                          "|{gang.twins>0}a machine id twice]" },
        };
        const json_t *list = json_object_get(answer, "slices");
        json_t *rows = json_array(), *s;
        size_t i;
        int r = rows ? 0 : -ENOMEM;

        json_array_foreach(list, i, s)
                if (r == 0 && json_is_object(json_object_get(s, "gang")))
                        r = json_array_append(rows, s) < 0 ? -ENOMEM : 0;
        if (r == 0)
                r = show_list(out, rows, now, columns, ELEMENTSOF(columns),
                              "no slice yet: no host has reported to this registry\n");
        json_decref(rows);
        json_array_foreach(list, i, s)
                print_missing(s, now, out);
        return r;
}

/* --- Stalls -------------------------------------------------------------------------------------------- */

#define STALLS_SUMMARY "stalls: whether each run went on, and the host that the verdict names"

static int screen_stalls(json_t *answer, usec_t now, FILE *out) {
        static const struct column columns[] = {
                { .title = "AT", .cell = "{at:time}" },
                { .title = "RUN", .cell = "{run}" },
                { .title = "EPISODE", .cell = "{episode}" },
                { .title = "STATE",
                  .cell = "[{recovered?}went on|{confirmed?}stands|{outcome?}{outcome}|asked]" },
                { .title = "VERDICT", .cell = "{summary}", .shrinks = true },
        };

        return show_list(out, json_object_get(answer, "episodes"), now, columns, ELEMENTSOF(columns),
                         "no stacks were asked for yet\n");
}

/* --- Suspects ------------------------------------------------------------------------------------------ */

#define SUSPECTS_SUMMARY "suspects: hosts that fail again and again, by what was reported in two weeks"

static int screen_suspects(json_t *answer, usec_t now, FILE *out) {
        const json_t *list = json_object_get(answer, "suspects"), *s;
        size_t i;

        if (!json_is_array(list))
                return -EPROTO;
        if (json_array_size(list) == 0)
                fputs("no host fails again and again\n", out);
        json_array_foreach(list, i, s) {
                show(out, s, now,
                     "{host}[ (slice {slice}[, worker {worker_id}])]: score {score}[{runs>1}, in {runs} runs"
                     "|{runs>0}, in one run]\n");
                show_each(out, json_object_get(s, "reports"), now,
                          "  {count}x {name}, the last {last:age} ago: {sentence}\n");
        }
        show(out, answer, now,
             "[{suspects?}to do: tpuctl fleet cordon HOST 'fails again and again' # HOST: one of them\n]"
             "[{cut?}there are more, or the collector has not read all events yet\n]");
        return 0;
}

/* --- Hosts --------------------------------------------------------------------------------------------- */

/* All pages as one answer. A collector without pages says no "next". */
static int ask_all(struct collector *c, const char *slice, const char *state, json_t **ret,
                   struct problem *problem) {
        json_auto_t *all = json_array();
        char offset[24] = "";

        for (bool more = true; more;) {
                char path[PATH_SIZE] = "/api/v1/hosts";
                json_auto_t *answer = NULL;
                const json_t *next;
                int r = path_parameter(path, sizeof(path), "slice", slice);

                if (r == 0)
                        r = path_parameter(path, sizeof(path), "state", state);
                if (r == 0)
                        r = path_parameter(path, sizeof(path), "offset", offset[0] ? offset : NULL);
                if (r < 0)
                        return problem_set(problem, r, NULL, "--slice or --state: %s", strerror(-r));
                r = collector_call(c, NULL, path, NULL, 0, &answer, problem);
                if (r < 0)
                        return r;
                next = json_object_get(answer, "next");
                more = json_is_integer(next);
                (void) snprintf(offset, sizeof(offset), "%lld", (long long) json_integer_value(next));
                if (!json_is_array(json_object_get(answer, "hosts")))
                        return problem_set(problem, -EPROTO, NULL, "the collector's answer has no hosts");
                if (json_array_extend(all, json_object_get(answer, "hosts")) < 0)
                        return problem_set(problem, -ENOMEM, NULL, "out of memory");
        }
        *ret = json_pack("{s:O}", "hosts", all);
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
        for (size_t k = 0; k < ELEMENTSOF(names); k++)
                if (n[k] > 0)
                        text_append(sums, sizeof(sums), ",", " %zu %s", n[k], names[k]);
        fprintf(out, "%zu host%s:%s\n", json_array_size(hosts), json_array_size(hosts) == 1 ? "" : "s",
                sums);
}

int screen_fleet(json_t *answer, usec_t now, FILE *out) {
        const json_t *hosts = json_object_get(answer, "hosts");
        int r;

        if (!json_is_array(hosts))
                return -EPROTO;
        if (json_array_size(hosts) == 0) {
                show(out, answer, now,
                     "[{filtered?}no host[ of slice {slice}][ is {state}]"
                     "|no host has reported to this collector yet]\n");
                return 0;
        }
        r = show_table(out, hosts, now, host_columns, ELEMENTSOF(host_columns));
        if (r == 0)
                print_sums(hosts, out);
        return r;
}

/* A word behind "fleet" that lists something. */
static const struct fleet_list {
        const char *word, *program, *path, *summary;
        int (*screen)(json_t *answer, usec_t now, FILE *out);
} lists[] = {
        { "slices", "tpuctl fleet slices", "/api/v1/slices", "Lists the " SLICES_SUMMARY ".",
          screen_slices },
        { "stalls", "tpuctl fleet stalls", "/api/v1/episodes", "Lists the last 32 " STALLS_SUMMARY ".",
          screen_stalls },
        { "suspects", "tpuctl fleet suspects", "/api/v1/suspects", "Lists the " SUSPECTS_SUMMARY ".",
          screen_suspects },
};

static int fleet_list(const struct fleet_list *l, const struct ctl *c, int argc, char *argv[]) {
        const char *url = NULL;
        bool json = false;
        const struct option_def defs[] = { OPTION_COLLECTOR(&url), OPTION_JSON(&json) };
        struct options o = { .program = l->program,
                             .synopsis = "[--collector URL] [--json]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = l->summary };
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 0, &w);

        if (r < 0)
                return options_exit(r);
        return answer_of_collector(&o, url, l->path, &(struct answer_as){ json, l->screen, NULL });
}

static char *summary_text(void) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        fputs("Lists all hosts that the collector's registry has, and those that send it telemetry alone, "
              "by slice and worker.\nAGE: when it was heard last; LAG: how old its telemetry was then. A "
              "host that has just started appears\nwithin some seconds.\n\nA word behind it asks, or orders "
              "by, the registry ('tpuctl fleet WORD --help' says more):\n  slices                       "
              SLICES_SUMMARY "\n  stalls                       " STALLS_SUMMARY
              "\n  suspects                     " SUSPECTS_SUMMARY
              "\n  pairs SLICE                  " PAIRS_SUMMARY,
              f);
        fleet_orders_list(f);
        return memstream_close(f, &text);
}

static int report_misuse(const char *word) {
        struct known_names k = known_names(word);
        char buf[KNOWN_TEXT_MAX];

        for (size_t i = 0; i < ELEMENTSOF(lists); i++)
                known_names_add(&k, lists[i].word);
        known_names_add(&k, "pairs");
        for (size_t i = 0; fleet_order_name(i); i++)
                known_names_add(&k, fleet_order_name(i));
        return options_fail("tpuctl fleet", EXIT_USAGE,
                            "there is no 'fleet %s'%s\nTry 'tpuctl fleet --help'.", word,
                            known_names_text(&k, buf));
}

/* The word behind "fleet", wherever it stands among the options: it becomes the first. */
static const char *take_word(const struct options *o, int argc, char *argv[]) {
        int i = words_first(o, argc, argv);
        char *word;

        if (i == argc)
                return NULL;
        word = argv[i];
        memmove(argv + 2, argv + 1, (size_t) (i - 1) * sizeof(argv[0]));
        argv[1] = word;
        return streq(word, "help") ? NULL : word;
}

int verb_fleet(const struct ctl *c, int argc, char *argv[]) {
        const char *url = NULL, *slice = NULL, *state = NULL, *word;
        bool json = false;
        const struct option_def defs[] = {
                OPTION_COLLECTOR(&url),
                { "slice", "NAME", "hosts of this slice only", &slice, NULL },
                { "state", "STATE", "one of: ready, degraded, unfit, unknown, silent, missing", &state,
                  NULL },
                OPTION_JSON(&json),
        };
        _cleanup_free_ char *summary = summary_text();
        struct options o = VERB_OPTIONS(
                "fleet", "[WORD …] [--collector URL] [--slice NAME] [--state STATE] [--json]", defs,
                summary ? summary : "");
        const struct fleet_order *order;
        struct collector collector;
        struct problem problem;
        json_auto_t *answer = NULL;
        struct words w;
        int r;

        word = take_word(&o, argc, argv);
        if (word) {
                for (size_t i = 0; i < ELEMENTSOF(lists); i++)
                        if (streq(word, lists[i].word))
                                return fleet_list(&lists[i], c, argc - 1, argv + 1);
                if (streq(word, "pairs"))
                        return fleet_pairs(c, argc - 1, argv + 1);
                order = fleet_order_find(word);
                return order ? fleet_order(order, c, argc - 1, argv + 1) : report_misuse(word);
        }
        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        if (collector_open(&o, url, &collector) < 0)
                return EXIT_USAGE;
        if (ask_all(&collector, slice, state, &answer, &problem) < 0)
                return problem_complain(&problem);
        if (!json)
                r = json_object_update_new(answer,
                                           json_pack("{s:b, s:s?, s:s?}", "filtered", slice || state,
                                                     "slice", slice, "state", state));
        if (r < 0)
                fputs("tpuctl fleet: --slice and --state are UTF-8\n", stderr);
        return r < 0 ? EXIT_USAGE
                     : answer_print(&o, TAKE_PTR(answer), &(struct answer_as){ json, screen_fleet, NULL });
}
