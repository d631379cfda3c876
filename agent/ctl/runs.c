/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl runs and stop: the runs of this host. */
#include "answer.h"
#include "clock.h"
#include "json_text.h"
#include "order.h"
#include "run_fleet.h"
#include "screens.h"
#include "show.h"
#include "verb_words.h"

#define STOP_TIMEOUT  (150 * USEC_PER_SEC) /* longer than any unit's own grace */

/* --- tpuctl runs --------------------------------------------------------------------------------------- */

/* The run of the same name and start in hostd's list: a name may have been used again since hostd asked. */
static const json_t *find_run(const json_t *list, const json_t *run) {
        const json_t *other;
        size_t i;

        json_array_foreach(list, i, other)
                if (json_equal(json_object_get(other, "name"), json_object_get(run, "name")) &&
                    json_equal(json_object_get(other, "started"), json_object_get(run, "started")))
                        return other;
        return NULL;
}

/* Steps are known to tpu-hostd only, which reads the journal. Its list of runs may be some seconds old;
 * launchd's is not. */
static void add_steps(json_t *runs, const char *root) {
        static const char *const keys[] = { "step", "step_seconds", "goodput", "spent_seconds",
                                            "checkpoint", "suspicion" };
        struct problem problem;
        json_t *answer = NULL, *run;
        size_t i;

        if (json_array_size(runs) == 0)
                return;
        if (hostd_call(root, NULL, "/v1/runs", HOSTD_TIMEOUT, &answer, &problem) < 0) {
                fputs("tpuctl runs: tpu-hostd does not answer, so steps are not known (systemctl status "
                      "tpu-hostd)\n",
                      stderr);
                return;
        }
        json_array_foreach(runs, i, run) {
                const json_t *seen = find_run(json_object_get(answer, "runs"), run);

                for (size_t k = 0; k < ELEMENTSOF(keys); k++) {
                        json_t *v = json_object_get(seen, keys[k]);

                        if (v && !json_is_null(v)) /* jansson copes with a failure: the step stays null */
                                (void) json_object_set(run, keys[k], v);
                }
        }
        json_decref(answer);
}

/* How it ended: "success", "stopped TERM", "exit-code 3", "signal KILL". */
#define END                                                                                                 \
        "[{cause=unknown}unknown: [its engine ended with {status}|no record of its end]|"                   \
        "{cause=success}success|{cause}[ {status}]]"

static const struct column run_columns[] = {
        { .title = "NAME", .cell = "{name}" },
        { .title = "STATE", .cell = "{state}" },
        { .title = "USER", .cell = "{user}" },
        { .title = "FRAMEWORK", .cell = "{framework}" },
        { .title = "SINCE", .cell = "[{state=exited}[{ended:age}]|{started:age}]" },
        { .title = "STEP", .cell = "{step}" },
        { .title = "PER STEP", .cell = "[{step_seconds} s]" },
        { .title = "GOOD", .cell = "{goodput:percent}" },
        { .title = "END", .cell = "[{state=exited}" END "|{state=waiting}" END "]", .shrinks = true },
        { .title = "COMMAND", .cell = "{command}", .shrinks = true },
};

/* What a table has no room for: "train: generation 3; restarted 1 of 5 times; CUDA …", then to do. */
#define STORY                                                                                               \
        "{name:lines}: {^}[{adopted?}{;}started without tpu-launchd[ in {container}], holds {devices}]"     \
        "[{;}in a container of {image}]"                                                                    \
        "[{generation>0}{;}generation {generation}]"                                                        \
        "[{restarts>0}{;}restarted {restarts} of {restarts_max} times]"                                 \
        "[{;}may have stalled: {suspicion:lines}][{;}{why:lines}][\n  to do: {remedy:lines}]\n"

static bool has_story(const json_t *run) {
        return json_is_true(json_object_get(run, "adopted")) || field_number(run, "generation") > 0 ||
               field_number(run, "restarts") > 0 || *json_text_of(run, "image") ||
               *json_text_of(run, "suspicion") || *json_text_of(run, "why") || *json_text_of(run, "remedy");
}

/* "train: checkpoint of step 40 is 4 min old, took 31 s; 12 steps since", then where it is. */
#define CHECKPOINT                                                                                          \
        "[{checkpoint.at?}{name:lines}: checkpoint[ of step {checkpoint.step}] is {checkpoint.at:age} old"  \
        "[, took {checkpoint.took_seconds:span}][; {checkpoint.steps_since} steps since]\n"                 \
        "[  in {checkpoint.path}\n]]"

int screen_host_runs(json_t *answer, usec_t now, FILE *out) {
        const json_t *runs = json_object_get(answer, "runs"), *run;
        size_t i;
        int r = show_list(out, runs, now, run_columns, ELEMENTSOF(run_columns), "no runs on this host\n");

        json_array_foreach(runs, i, run) {
                if (r == 0 && has_story(run))
                        show(out, run, now, STORY);
                if (r == 0)
                        show(out, run, now, CHECKPOINT);
        }
        return r;
}

/* "train: 81 % of its time here went into steps", then where the rest went, if anywhere. */
#define SPENT(cause, words) "[{spent_seconds." cause ">0}{,}" words " {spent_seconds." cause ":long}]"
#define GOODPUT                                                                                             \
        "[{spent_seconds?}{name:lines}: {goodput:percent} of its time here went into steps\n  {^}"          \
        SPENT("step", "steps") SPENT("start", "start") SPENT("compile", "compile")                          \
        SPENT("checkpoint", "checkpoint") SPENT("evaluation", "evaluation") SPENT("pause", "pause")         \
        SPENT("stall", "stall") SPENT("restart", "restart and steps made again")                            \
        "|{name:lines}: no step of it was read here]\n"

static int screen_goodput(json_t *answer, usec_t now, FILE *out) {
        const json_t *runs = json_object_get(answer, "runs");

        if (!json_is_array(runs))
                return -EPROTO;
        if (json_array_size(runs) == 0)
                fputs("no runs on this host\n", out);
        show_each(out, runs, now, GOODPUT);
        return 0;
}

int verb_runs(const struct ctl *c, int argc, char *argv[]) {
        bool json = false, fleet = false, goodput = false;
        const char *url = NULL;
        const struct option_def defs[] = {
                { "fleet", NULL, "the runs over slices, as the registry knows them", NULL, &fleet },
                { "goodput", NULL, "where the time of each run went on this host", NULL, &goodput },
                OPTION_COLLECTOR(&url),
                OPTION_JSON(&json),
        };
        struct options o = VERB_OPTIONS(
                "runs", "[--fleet | --goodput] [--json]", defs,
                "Lists the runs of this host, as tpu-launchd reports them; their steps come from "
                "tpu-hostd.");
        struct problem problem;
        json_t *answer = NULL;
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 0, &w);

        if (r < 0)
                return options_exit(r);
        if (goodput && (fleet || url))
                return options_fail("tpuctl runs", EXIT_USAGE,
                                    "--goodput tells of this host alone, without --fleet and --collector");
        if (fleet || url)
                return answer_of_collector(&o, url, "/api/v1/runs",
                                           &(struct answer_as){ json, screen_runs, NULL });
        if (runs_of_launchd(o.root, NULL, &answer, &problem) < 0)
                return problem_complain(&problem);
        add_steps(json_object_get(answer, "runs"), o.root);
        return answer_print(&o, answer,
                            &(struct answer_as){ json, goodput ? screen_goodput : screen_host_runs, NULL });
}

/* --- tpuctl stop --------------------------------------------------------------------------------------- */

/* Over slices: its intent is ended, and each host ends its part. */
static int stop_fleet(const struct options *o, const char *url, const char *name, bool yes) {
        char prompt[160];
        struct collector collector;
        struct problem problem;
        json_auto_t *answer = NULL;

        if (collector_open(o, url, &collector) < 0)
                return EXIT_USAGE;
        (void) snprintf(prompt, sizeof(prompt), "stop %.63s on all its hosts. Go on? [y/N] ", name);
        if (!yes && order_ask_yes(o->program, prompt) < 0)
                return EXIT_REFUSED;
        if (run_fleet_stop(&collector, name, &answer, &problem) < 0)
                return problem_complain(&problem);
        printf("%s is being stopped on all its hosts (tpuctl runs --fleet)\n", name);
        return 0;
}

/*
 * Whether launchd has it as a part of a run over slices: ended here alone, the whole run would end as if it
 * had been stopped, or be restarted.
 */
static bool is_part(const char *root, const char *name) {
        struct problem problem;
        const json_t *run;
        json_auto_t *answer = NULL;

        if (runs_of_launchd(root, name, &answer, &problem) < 0)
                return false;
        run = json_array_get(json_object_get(answer, "runs"), 0);
        return field_number(run, "generation") > 0 && !streq(json_text_of(run, "state"), "exited");
}

int verb_stop(const struct ctl *c, int argc, char *argv[]) {
        bool fleet = false, here = false, yes = false;
        const char *url = NULL;
        const struct option_def defs[] = {
                { "fleet", NULL, "a run over slices, on all its hosts", NULL, &fleet },
                { "here", NULL, "only what this host has of it", NULL, &here },
                { "yes", NULL, "do not ask before a run over slices is ended", NULL, &yes },
                OPTION_COLLECTOR(&url),
        };
        struct options o = VERB_OPTIONS(
                "stop", "NAME [--fleet | --here] [--yes]", defs,
                "Ends a run: TERM to all its processes, KILL after its grace time. What this host has as "
                "a part of a run over slices\n"
                "is ended on all of its hosts, by the collector, unless --here says otherwise.");
        Local__StopRequest m = LOCAL__STOP_REQUEST__INIT;
        _cleanup_launchd_reply_ ProtobufCMessage *reply = NULL;
        struct problem problem;
        struct words w;
        int r = words_parse(c, &o, argc, argv, 1, 1, &w);

        if (r < 0)
                return options_exit(r);
        if (words_check_run_name(&o, w.items[0]) < 0)
                return EXIT_USAGE;
        if (!here && (fleet || url || is_part(o.root, w.items[0])))
                return stop_fleet(&o, url, w.items[0], yes);
        m.name = wire_text(w.items[0]);
        words_at_interrupt("tpuctl stop: %s is being stopped all the same; see: tpuctl runs", w.items[0]);
        r = launchd_ask(o.root, LOCAL__KIND__KIND_STOP_REQUEST, &m.base, LOCAL__KIND__KIND_STOP_REPLY,
                        &local__stop_reply__descriptor, STOP_TIMEOUT, &reply, &problem);
        if (r < 0)
                return problem_complain(&problem);
        printf("%s stopped\n", w.items[0]);
        return 0;
}
