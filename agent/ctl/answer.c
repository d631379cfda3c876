/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"
#include "clock.h"
#include "report.h"

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
        fprintf(stderr, "%s: the answer cannot be shown: %s\n", o->program, strerror(-r));
        return EXIT_NO_ANSWER;
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
