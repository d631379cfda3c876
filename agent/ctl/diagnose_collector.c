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
                                "tpuctl diagnose %s: without --capture it shows the last round's verdict", slice);
        if (r < 0)
                return r;
        (void) snprintf(episode, 64, "%s", json_text_of(v, "episode"));
        json_decref(v);
        fprintf(stderr, "tpuctl diagnose: the hosts are asked for their stacks (episode %s)\n", episode);
        return wait_verdict(c, slice, episode, problem);
}

/* --- What there is ------------------------------------------------------------------------------------- */

/* One that cannot be read is left out, and said. */
static int add_capture(struct scene *s, const json_t *v, json_t *answered) {
        struct host_capture who;
        int r;

        capture_who(&who, v, NULL, "worker_id");
        who.round = json_integer_value(json_object_get(v, "round")) > 0;
        r = capture_hex_add(s, json_text_of(v, "capture"), &who);
        if (r <= 0)
                return r;
        return json_object_set_new(answered, who.host, json_true()) < 0 ? -ENOMEM : 0;
}

static int add_silent(struct scene *s, const json_t *expected, const json_t *answered) {
        const json_t *v;
        size_t i;
        int r = 0;

        json_array_foreach (expected, i, v) {
                _cleanup_host_capture_ struct host_capture c;

                capture_who(&c, v, NULL, "worker");
                if (r < 0 || json_object_get(answered, c.host))
                        continue;
                c.silent = true;
                r = scene_add(s, &c, NULL);
        }
        return r;
}

static bool was_asked(const json_t *expected, const char *host) {
        const json_t *v;
        size_t i;

        json_array_foreach (expected, i, v)
                if (streq(json_text_of(v, "host"), host))
                        return true;
        return !json_is_array(expected);
}

/* One answer of /captures; *ret_next: where the next one begins, 0: there is none. */
static int add_page(struct scene *s, const json_t *page, json_t *answered, int64_t *ret_next) {
        const json_t *expected = json_object_get(page, "expected"), *v;
        size_t i;
        int r = 0;

        json_array_foreach (json_object_get(page, "captures"), i, v)
                if (r == 0 && was_asked(expected, json_text_of(v, "host")))
                        r = add_capture(s, v, answered);
        *ret_next = json_integer_value(json_object_get(page, "next"));
        return r < 0 || *ret_next > 0 ? r : add_silent(s, expected, answered);
}

int diagnose_collector_load(struct collector *c, const char *slice, const char *episode,
                            struct scene *s, struct kept_verdict *ret, struct problem *problem) {
        json_t *v, *answered = json_object();
        int64_t next = 0;
        int r = answered ? ask(c, NULL, slice, "diagnosis", episode, 0, &ret->words, problem) : -ENOMEM;

        if (r == 0)
                episode = json_text_of(ret->words, "episode");
        while (r == 0) {
                r = ask(c, NULL, slice, "captures", episode, next, &v, problem);
                if (r < 0)
                        break;
                r = add_page(s, v, answered, &next);
                json_decref(v);
                if (r < 0)
                        (void) problem_set(problem, r, NULL, "the captures of episode %s: %s", episode,
                                           strerror(-r));
                if (next <= 0)
                        break;
        }
        if (r == 0 && json_object_size(answered) == 0)
                ret->report = json_object_get(ret->words, "diagnosis");
        if (!*json_text_of(ret->report, "outcome"))
                ret->report = NULL;
        json_decref(answered);
        return r;
}
