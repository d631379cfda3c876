/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl fleet: all hosts, as the collector knows them. */
#include "collector.h"
#include "ctl.h"
#include "fleet_registry.h"
#include "report.h"
#include "screen.h"
#include "words.h"

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
