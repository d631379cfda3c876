/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl diagnose: who holds a run up, out of the captures of its hosts. */
#include "ask.h"
#include "capture_files.h"
#include "ctl.h"
#include "diagnose_captures.h"
#include "diagnosis_print.h"
#include "json_text.h"
#include "report.h"
#include "show.h"
#include "verb_words.h"

enum source { SOURCE_FILES, SOURCE_COLLECTOR, SOURCE_AGENTS };

struct wish {
        const char *slice, *from, *hosts, *run, *collector, *episode;
        bool json, all, capture;
        enum source source;
        const struct options *options;
        struct collector asked;   /* of SOURCE_COLLECTOR */
        struct kept_verdict kept; /* likewise */
};

static int parse_hosts(const struct options *o, const char *text, uint32_t *ret) {
        char why[96];

        if (!text || config_parse_u32_within(text, 1, SCENE_HOSTS_MAX, ret, why) == 0)
                return 0;
        return options_fail(o->program, -EINVAL, "--hosts is a number from 1 to %u, not '%s'",
                            SCENE_HOSTS_MAX, text);
}

static int parse_run(const struct options *o, const char *text, enum stall_state *ret) {
        if (text && !streq(text, "stalled") && !streq(text, "running"))
                return options_fail(o->program, -EINVAL, "--run is 'stalled' or 'running', not '%s'", text);
        *ret = !text ? RUN_UNKNOWN : streq(text, "stalled") ? RUN_STALLED : RUN_GOES_ON;
        return 0;
}

static int load_files(const struct wish *wish, const struct words *w, struct scene *s,
                      struct problem *problem) {
        int r = capture_files_load(wish->from, s, problem);

        for (size_t i = 1; i < w->n && r == 0; i++)
                r = capture_files_load(w->items[i], s, problem);
        return r;
}

static int load_from_collector(struct wish *wish, struct scene *s, struct problem *problem) {
        struct collector *c = &wish->asked;
        char episode[64] = "";
        int r = 0;

        if (wish->capture)
                r = diagnose_collector_capture(c, wish->slice, episode, problem);
        return r < 0 ? r
                     : diagnose_collector_load(c, wish->slice, wish->capture ? episode : wish->episode, s,
                                               &wish->kept, problem);
}

static int load_scene(struct wish *wish, const struct words *w, struct scene *s, struct problem *problem) {
        switch (wish->source) {
        case SOURCE_COLLECTOR:
                return load_from_collector(wish, s, problem);
        case SOURCE_AGENTS:
                return diagnose_agents_load(wish->options, wish->slice, s, problem);
        case SOURCE_FILES:
                break;
        }
        return load_files(wish, w, s, problem);
}

/* What the collector knows besides. */
static void print_words(const struct wish *wish) {
        show(stdout, wish->kept.words, 0,
             "[{episode?}\nepisode {episode}: [run {run}, ]asked for at {at} by {by}[ ({why})]; "
             "[{answered}|0] of [{hosts}|0] hosts answered\n"
             "[{first_word}\n]"
             "[the stall was confirmed at {confirmed}[, over at {recovered}]\n]]");
}

static int print_diagnosis(const struct wish *wish, const struct diagnosis *d) {
        int r;

        if (wish->json)
                return report_print_json(stdout, diagnosis_to_json(d, wish->all));
        r = diagnosis_print_text(stdout, d, wish->all);
        if (r == 0)
                print_words(wish);
        return r;
}

static int exit_code(enum outcome o) {
        switch (o) {
        case OUTCOME_NAMED:
        case OUTCOME_OUTSIDE:
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

/* The verdict of captures that the collector does not have: another one did, or they made room. */
static int print_kept(const struct wish *wish, const json_t *report) {
        const char *outcome = json_text_of(report, "outcome");
        const json_t *suspect = json_array_get(json_object_get(report, "suspects"), 0);

        if (wish->json)
                /* the result does not count: standard output may be closed */
                (void) report_print_json(stdout, json_incref((json_t *) (uintptr_t) report));
        else {
                show(stdout, report, 0, "{summary}\n");
                if (streq(outcome, "named"))
                        show_each(stdout, json_object_get(suspect, "details"), 0, "  {}\n");
                puts("\nthe captures are not kept any more: this is what was found out from them");
                print_words(wish);
        }
        return exit_code(streq(outcome, "named") || streq(outcome, "outside") ? OUTCOME_NAMED
                         : streq(outcome, "goes_on") ? OUTCOME_GOES_ON
                                                     : OUTCOME_NOBODY);
}

static int run(struct wish *wish, const struct diagnose_options *how, const struct words *w) {
        _cleanup_(diagnosis_freep) struct diagnosis *d = NULL;
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct problem problem = { .no_answer = true };
        int r = load_scene(wish, w, &scene, &problem);

        if (r < 0) {
                /* A name that was mistyped is no question without an answer. */
                problem.no_answer = r != -ENOENT || wish->source != SOURCE_COLLECTOR ||
                                    !diagnose_collector_lacks(&wish->asked, wish->slice);
                return problem_complain(&problem);
        }
        if (wish->kept.report)
                return print_kept(wish, wish->kept.report);
        r = diagnose(&scene, how, &d);
        if (r == 0)
                r = print_diagnosis(wish, d);
        if (r < 0)
                return options_fail("tpuctl diagnose", EXIT_NO_ANSWER, "%s", strerror(-r));
        return exit_code(d->outcome);
}

/* What belongs together. */
static int check_wish(const struct wish *wish) {
        bool collector = wish->source == SOURCE_COLLECTOR;
        const char *wrong = NULL;

        if (!collector && (wish->episode || wish->capture || wish->collector))
                wrong = "--episode, --capture and --collector are of captures that a collector has, not of "
                        "files or agents";
        else if (wish->episode && wish->capture)
                wrong = "--episode or --capture, not both";
        else if (wish->source != SOURCE_FILES && streq(wish->slice, "all"))
                wrong = "a collector and agents are asked about one slice: SLICE is its name";
        if (!wrong)
                return 0;
        return options_fail("tpuctl diagnose", -EINVAL, "%s", wrong);
}

int verb_diagnose(const struct ctl *c, int argc, char *argv[]) {
        struct wish wish = { 0 };
        struct diagnose_options how = { 0 };
        const struct option_def defs[] = {
                { "from", "SOURCE",
                  "'collector' (default where one is configured), 'agents', or saved captures: files or "
                  "folders, the further ones behind SLICE",
                  &wish.from, NULL },
                { "collector", "URL", "another collector than the configured one", &wish.collector, NULL },
                { "episode", "EPISODE", "an earlier stall of this slice; default: the last", &wish.episode,
                  NULL },
                { "capture", NULL, "ask the hosts for their stacks now, and wait for the verdict", NULL,
                  &wish.capture },
                { "hosts", "N", "how many hosts the slice has: a missing host is evidence, too", &wish.hosts,
                  NULL },
                { "run", "STATE", "whether it is 'stalled' or 'running'; default: what the captures show",
                  &wish.run, NULL },
                { "all-threads", NULL, "show every thread, not only those that make steps", NULL,
                  &wish.all },
                { "json", NULL, "print JSON", NULL, &wish.json },
        };
        struct options o = VERB_OPTIONS(
                "diagnose",
                "SLICE [--episode EPISODE|--capture | --from agents | --from FILE [FILE…]] [--hosts N] "
                "[--run STATE] [--all-threads] [--json]", defs,
                "Says which host holds a run up, and where it is stuck, from the captures of all its "
                "hosts.\n"
                "SLICE: its name; of files also 'all'. Exit codes: 0 the run goes on, 1 there is no such "
                "slice, 2 a host is named, 3 nobody can be named.");
        struct words w;
        int r = words_parse(c, &o, argc, argv, 1, WORDS_MAX, &w);

        if (r < 0)
                return options_exit(r);
        wish.options = &o;
        wish.slice = w.items[0];
        wish.source = !wish.from || streq(wish.from, "collector") ? SOURCE_COLLECTOR
                      : streq(wish.from, "agents")                ? SOURCE_AGENTS
                                                                  : SOURCE_FILES;
        if (check_wish(&wish) < 0 || parse_hosts(&o, wish.hosts, &how.hosts) < 0 ||
            parse_run(&o, wish.run, &how.run) < 0)
                return EXIT_USAGE;
        if (wish.source != SOURCE_FILES && w.n > 1)
                return options_fail("tpuctl diagnose", EXIT_USAGE, "'%s': files come with --from FILE",
                                    w.items[1]);
        if (wish.source == SOURCE_COLLECTOR && collector_open(&o, wish.collector, &wish.asked) < 0)
                return EXIT_USAGE;
        if (!wish.from && !wish.asked.configured)
                wish.source = SOURCE_AGENTS; /* there is none: the agents themselves */
        /* a collector's run is diagnosed over all its slices */
        how.slice = wish.source == SOURCE_COLLECTOR || streq(wish.slice, "all") ? NULL : wish.slice;
        r = run(&wish, &how, &w);
        json_decref(wish.kept.words);
        return r;
}
