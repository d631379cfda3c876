/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose_collector.h"

#include "capture_files.h"
#include "json_text.h"

#define PATH_MAX_BYTES 512
#define WAIT_MAX       (90 * USEC_PER_SEC) /* who is silent is waited for, and then it is diagnosed */
#define LOOK_EVERY     (500 * USEC_PER_MSEC)

static int ask(struct collector *c, const char *method, const char *slice, const char *what,
               const char *episode, int64_t since, json_t **ret, struct problem *problem) {
        char path[PATH_MAX_BYTES], number[24];
        struct again again = AGAIN_NULL;
        int r = 0;

        (void) snprintf(path, sizeof(path), "/api/v1/slices/%.63s/%s", slice, what);
        (void) snprintf(number, sizeof(number), "%" PRIi64, since);
        r = path_parameter(path, sizeof(path), "episode", episode);
        if (r == 0)
                r = path_parameter(path, sizeof(path), "since", since > 0 ? number : NULL);
        if (r < 0)
                return problem_set(problem, r, NULL, "'%s' cannot be asked for: %s", slice, strerror(-r));
        do
                r = collector_call(c, method, path, NULL, 0, ret, problem);
        while (r < 0 && again_wait(&again, problem, "tpuctl diagnose"));
        return r;
}

/* --- A new round --------------------------------------------------------------------------------------- */

static int wait_verdict(struct collector *c, const char *slice, const char *episode,
                        struct problem *problem) {
        for (usec_t until = 0; until < WAIT_MAX; until += LOOK_EVERY) {
                json_t *v = NULL;
                int r = ask(c, NULL, slice, "diagnosis", episode, 0, &v, problem);
                bool done;

                if (r < 0)
                        return r;
                done = *json_text_of(v, "outcome");
                json_decref(v);
                if (done)
                        return 0;
                (void) usleep(LOOK_EVERY);
        }
        return problem_set(problem, -ETIMEDOUT, NULL, "the collector has no verdict about episode %s yet",
                           episode);
}

int diagnose_collector_capture(struct collector *c, const char *slice, char episode[static 64],
                               struct problem *problem) {
        json_t *v;
        int r = ask(c, "POST", slice, "capture", NULL, 0, &v, problem);

        if (r == -EBUSY) /* there was a round a moment ago */
                (void) snprintf(problem->remedy, sizeof(problem->remedy),
                                "tpuctl diagnose %s: without --capture it shows the last round's verdict",
                                slice);
        if (r < 0)
                return r;
        (void) snprintf(episode, 64, "%s", json_text_of(v, "episode"));
        json_decref(v);
        fprintf(stderr, "tpuctl diagnose: the hosts are asked for their stacks (episode %s)\n", episode);
        return wait_verdict(c, slice, episode, problem);
}

/* --- What there is ------------------------------------------------------------------------------------- */

int diagnose_collector_load(struct collector *c, const char *slice, const char *episode,
                            struct scene *s, struct kept_verdict *ret, struct problem *problem) {
        uint64_t next = 0, last, captures = 0;
        int r = ask(c, NULL, slice, "diagnosis", episode, 0, &ret->words, problem);

        if (r == 0)
                episode = json_text_of(ret->words, "episode");
        do {
                json_t *v = NULL;

                last = next;
                if (r == 0)
                        r = ask(c, NULL, slice, "captures", episode, (int64_t) next, &v, problem);
                if (r < 0)
                        return r;
                r = captures_add(s, v, NULL, &next);
                json_decref(v);
                if (r < 0)
                        return problem_set(problem, r, NULL, "the captures of episode %s: %s", episode,
                                           strerror(-r));
                captures += (uint64_t) r;
                r = 0;
        } while (next > last);
        if (captures == 0)
                ret->report = json_object_get(ret->words, "diagnosis");
        if (!*json_text_of(ret->report, "outcome"))
                ret->report = NULL;
        return 0;
}
