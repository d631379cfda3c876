/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"
#include "clock.h"
#include "report.h"
#include "show.h"
#include "table.h"

int answer_print(const struct options *o, json_t *answer, const struct answer_as *as) {
        int code = as->verdict ? verdict_exit_code(as->verdict(answer)) : 0, r;

        if (as->json)
                r = report_print_json(stdout, json_incref(answer));
        else
                r = as->screen(answer, clock_real(&clock_system), stdout);
        if (r == 0 && fflush(stdout) == EOF)
                r = -errno;
        json_decref(answer);
        if (r == 0)
                return code;
        return options_fail(o->program, EXIT_NO_ANSWER, "the answer cannot be shown: %s", strerror(-r));
}

int answer_of_hostd(const struct options *o, const char *path, usec_t timeout, const struct answer_as *as) {
        struct problem problem;
        json_t *answer;

        if (hostd_call(o->root, NULL, path, timeout, &answer, &problem) < 0)
                return problem_complain(&problem);
        return answer_print(o, answer, as);
}

int answer_of_collector(const struct options *o, const char *url, const char *path,
                        const struct answer_as *as) {
        struct collector collector;
        struct problem problem;
        json_t *answer;

        if (collector_open(o, url, &collector) < 0)
                return EXIT_USAGE;
        if (collector_call(&collector, NULL, path, NULL, 0, &answer, &problem) < 0)
                return problem_complain(&problem);
        return answer_print(o, answer, as);
}

/* --- Orders ------------------------------------------------------------------------------------------ */

void screen_order(const char *word, const json_t *order, FILE *out) {
        if (!json_is_object(order))
                return;
        print_clean(out, word, false);
        show(out, order, 0, " by {by}[ until {until}][: {reason}]\n");
}

static void print_order(const char *label, const char *word, const json_t *order, FILE *out) {
        if (!json_is_object(order))
                return;
        fprintf(out, "%-9s", label);
        screen_order(word, order, out);
}

void screen_orders(const json_t *s, const char *label, FILE *out) {
        const json_t *drain = json_object_get(s, "drain"), *one;
        size_t i;

        print_order(label, "cordoned", json_object_get(s, "cordon"), out);
        print_order(label, json_is_true(json_object_get(drain, "drained")) ? "drained" : "draining", drain,
                    out);
        print_order(label, "observing", json_object_get(s, "observe"), out);
        if (json_is_true(json_object_get(s, "observe_configured")))
                fprintf(out, "%-9sobserving: Mode=observe of the configuration\n", label);
        json_array_foreach(json_object_get(s, "silences"), i, one) {
                fprintf(out, "%-9s", label);
                show(out, one, 0,
                     "{check}[:{subject}] silenced by {by}[ until {until}][: {reason}]\n");
        }
}
