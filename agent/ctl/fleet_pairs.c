/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_pairs.h"

#include "answer.h"
#include "fleet_orders.h"
#include "json_text.h"
#include "show.h"
#include "verb_words.h"

#define PATH_SIZE 2048
#define LOOK_AGAIN (500 * USEC_PER_MSEC)
#define CORE_IS_FULL 90 /* percent */

static int screen_pairs(json_t *answer, usec_t now, FILE *out) {
        if (streq(json_text_of(answer, "state"), "asked")) {
                show(out, answer, now, "slice {slice} is being measured since {number:time}\n");
                return 0;
        }
        show(out, answer, now, 
             "slice {slice}, {hosts} hosts, at {at:time}: [{measured}|0] rates, each within 1 s by TLS "
             "through the agents' port\n");
        show_each(out, json_object_get(answer, "nics"), now,
                  "  NIC [{nic}|0]: the median is {median:bits}; slow is below {limit:bits}: [{slow}|0] of "
                  "{measured}\n");
        if (json_number_of(answer, "core") >= CORE_IS_FULL)
                show(out, answer, now,
                     "  TLS took {core} % of a core: the network may carry more than this, and what is slow "
                     "is slow in any case\n");
        show_each(out, json_object_get(answer, "slow"), now,
                  "SLOW: {host} (worker [{worker}|0]), NIC [{nic}|0][: sends {sends:bits}][, receives "
                  "{receives:bits}], where the median is {median:bits}\n");
        show_each(out, json_object_get(answer, "paths"), now,
                  "SLOW: from {from} to {to} alone, NIC [{nic}|0]: {rate:bits}, where the median is "
                  "{median:bits}\n");
        show_each(out, json_object_get(answer, "unmeasured"), now,
                  "not all measured: {host} (worker [{worker}|0]): {why}\n");
        show(out, answer, now,
             "[{slow?}to do: tpuctl check nic; tpuctl check path; ip -s link # on a slow host\n"
             "|{paths?}to do: tpuctl check path # on both hosts of a slow path\n]");
        return 0;
}

static enum verdict verdict_pairs(const json_t *answer) {
        if (json_array_size(json_object_get(answer, "slow")) > 0 ||
            json_array_size(json_object_get(answer, "paths")) > 0)
                return VERDICT_WARN;
        return json_number_of(answer, "measured") == 0 ||
                               json_array_size(json_object_get(answer, "unmeasured")) > 0 ?
                       VERDICT_UNKNOWN :
                       VERDICT_OK;
}

/* Until the collector has judged, or given up: it does so by itself. */
static int wait_for(struct collector *c, const char *path, json_t **answer, struct problem *problem) {
        while (streq(json_text_of(*answer, "state"), "asked")) {
                json_t *next = NULL;
                int r;

                (void) usleep(LOOK_AGAIN);
                r = collector_call(c, NULL, path, NULL, 0, &next, problem);
                if (r < 0)
                        return r;
                json_decref(*answer);
                *answer = next;
        }
        return 0;
}

int fleet_pairs(const struct ctl *c, int argc, char *argv[]) {
        const char *url = NULL;
        bool json = false, last = false;
        const struct option_def defs[] = {
                { "last", NULL, "show what was measured last, and measure nothing", NULL, &last },
                OPTION_COLLECTOR(&url),
                OPTION_JSON(&json),
        };
        struct options o = { .program = "tpuctl fleet pairs",
                             .synopsis = "SLICE [--last] [--collector URL] [--json]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "Measures " PAIRS_SUMMARY ".\nExit code: 0 nothing is slow, 1 a "
                                        "host or a path is, 3 not all was measured." };
        struct collector collector;
        struct problem problem;
        json_t *answer = NULL;
        char path[PATH_SIZE];
        struct words w;
        int r = words_parse(c, &o, argc, argv, 1, 1, &w);

        if (r < 0)
                return options_exit(r);
        if (!fleet_name_is_plain(w.items[0])) {
                (void) words_misuse(&o, "this is no name:", w.items[0]);
                return EXIT_USAGE;
        }
        if (collector_open(&o, url, &collector) < 0)
                return EXIT_USAGE;
        (void) snprintf(path, sizeof(path), "/api/v1/slices/%.63s/pairs", w.items[0]);
        r = collector_call(&collector, last ? NULL : "POST", path, NULL, 0, &answer, &problem);
        if (r >= 0 && !last)
                r = wait_for(&collector, path, &answer, &problem);
        if (r < 0) {
                json_decref(answer);
                return problem_complain(&problem);
        }
        return answer_print(&o, answer, &(struct answer_as){ json, screen_pairs, verdict_pairs });
}
