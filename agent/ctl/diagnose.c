/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl diagnose: who holds a run up, out of the captures of its hosts. */
#include "capture_files.h"
#include "ctl.h"
#include "diagnosis_print.h"
#include "report.h"
#include "words.h"

struct wish {
        const char *slice, *from, *hosts, *run;
        bool json, folded, all;
};

static int parse_hosts(const struct options *o, const char *text, uint32_t *ret) {
        char *end;
        unsigned long n = text ? strtoul(text, &end, 10) : 0;

        if (text && (*end || end == text || n == 0 || n > SCENE_CAPTURES_MAX / 2)) {
                fprintf(stderr, "%s: --hosts is a number from 1 to %u, not '%s'\n", o->program,
                        SCENE_CAPTURES_MAX / 2, text);
                return -EINVAL;
        }
        *ret = (uint32_t) n;
        return 0;
}

static int parse_run(const struct options *o, const char *text, enum run_state *ret) {
        if (text && !streq(text, "stalled") && !streq(text, "running")) {
                fprintf(stderr, "%s: --run is 'stalled' or 'running', not '%s'\n", o->program, text);
                return -EINVAL;
        }
        *ret = !text ? RUN_UNKNOWN : streq(text, "stalled") ? RUN_STALLED : RUN_GOES_ON;
        return 0;
}

static int load(const struct wish *wish, const struct words *w, struct scene *s, struct problem *problem) {
        int r = capture_files_load(wish->from, s, problem);

        for (size_t i = 1; i < w->n && r == 0; i++)
                r = capture_files_load(w->items[i], s, problem);
        return r;
}

static int print(const struct wish *wish, const struct diagnosis *d) {
        if (wish->json)
                return report_print_json(stdout, diagnosis_to_json(d, wish->all));
        if (wish->folded)
                return diagnosis_print_folded(stdout, d, wish->all);
        return diagnosis_print_text(stdout, d, wish->all);
}

static int exit_code(enum outcome o) {
        switch (o) {
        case OUTCOME_NAMED:
                return verdict_exit_code(VERDICT_FAIL);
        case OUTCOME_GOES_ON:
                return verdict_exit_code(VERDICT_OK);
        case OUTCOME_NOBODY:
        case OUTCOME_WORKS:
        case OUTCOME_NO_EVIDENCE:
        case _OUTCOME_MAX:
                break;
        }
        return verdict_exit_code(VERDICT_UNKNOWN);
}

static int run(const struct wish *wish, const struct diagnose_options *how, const struct words *w) {
        _cleanup_(diagnosis_freep) struct diagnosis *d = NULL;
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct problem problem = { .no_answer = true };
        int r = load(wish, w, &scene, &problem);

        if (r < 0) {
                problem.no_answer = true;
                return problem_complain(&problem);
        }
        r = diagnose(&scene, how, &d);
        if (r == 0)
                r = print(wish, d);
        if (r < 0) {
                fprintf(stderr, "tpuctl diagnose: %s\n", strerror(-r));
                return EXIT_NO_ANSWER;
        }
        return exit_code(d->outcome);
}

int verb_diagnose(const struct ctl *c, int argc, char *argv[]) {
        struct wish wish = { 0 };
        struct diagnose_options how = { 0 };
        const struct option_def defs[] = {
                { "from", "FILE", "saved captures: files or folders, the further ones behind SLICE",
                  &wish.from, NULL },
                { "hosts", "N", "how many hosts the slice has: who is missing is evidence, too", &wish.hosts,
                  NULL },
                { "run", "STATE", "whether it is 'stalled' or 'running'; default: told by the captures",
                  &wish.run, NULL },
                { "all-threads", NULL, "show every thread, not only those that make steps", NULL,
                  &wish.all },
                { "folded", NULL, "print one line a stack, for flame graphs", NULL, &wish.folded },
                { "json", NULL, "print JSON", NULL, &wish.json },
        };
        struct options o = {
                .program = "tpuctl diagnose",
                .synopsis = "SLICE --from FILE [FILE…] [--hosts N] [--run STATE] [--all-threads] "
                            "[--folded|--json]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary =
                        "Says which host holds a run up, and where it is stuck, from the captures of all "
                        "its hosts.\nSLICE: its name, or 'all'. Exit codes: 0 the run goes on, 2 a host is "
                        "named, 3 nobody can be named."
        };
        struct words w;
        int r = words_parse(c, &o, argc, argv, 1, WORDS_MAX, &w);

        if (r < 0)
                return options_exit(r);
        if (!wish.from || (wish.json && wish.folded)) {
                fprintf(stderr, "tpuctl diagnose: %s\n",
                        wish.from ? "--json or --folded, not both"
                                  : "--from FILE is missing: saved captures of the hosts");
                return EXIT_USAGE;
        }
        if (parse_hosts(&o, wish.hosts, &how.hosts) < 0 || parse_run(&o, wish.run, &how.run) < 0)
                return EXIT_USAGE;
        how.slice = streq(w.items[0], "all") ? NULL : w.items[0];
        return run(&wish, &how, &w);
}
