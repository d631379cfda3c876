/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A RunRequest as any local user may send it: what is taken of it can be a run, and comes back from its own
 * JSON the same; secrets are whole variables. An expression for step lines is not compiled where requests
 * are taken, but where JSON is read: one that is none does not come back.
 */
#include <assert.h>

#include "request.h"
#include "request_world.h"
#include "secret.h"
#include "steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_expression(const char *text) {
        _cleanup_(step_expression_freep) struct step_expression *e = NULL;
        char why[RUN_WHY_MAX];

        return !text || !text[0] || step_expression_new(text, why, sizeof(why), &e) >= 0;
}

static void check_round_trip(const Run__Spec *s) {
        char why[RUN_WHY_MAX];
        Run__Spec *back = NULL;
        json_t *o, *again;

        if (!is_expression(s->step_regex))
                return;
        o = run_spec_to_json(s);
        assert(o && run_spec_from_json(o, (const char *const[]){ NULL }, &back, why) == 0);
        again = run_spec_to_json(back);
        assert(json_equal(o, again));
        (void) run_spec_free(back);
        json_decref(o);
        json_decref(again);
}

static void check_secrets(const Local__RunRequest *q) {
        struct problem p = { .text = "" };
        char **l = NULL;

        if (secrets_from_request(q, &l, &p) < 0)
                assert(p.text[0] && p.remedy[0]);
        for (size_t i = 0; l && l[i]; i++)
                assert(strchr(l[i], '=') > l[i]);
        (void) secrets_free(l);
}

static void check_world(const Local__RunRequest *q) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        struct environment_gang gang;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        char why[ENVIRONMENT_WHY_MAX];
        struct problem p = { .text = "" };

        if (request_world_facts(q->world, &i, &p) < 0 || q->world->n_slice == 0)
                return;
        if (request_world_gang(q, &gang, &p) < 0)
                assert(p.text[0] && p.remedy[0]);
        else
                (void) environment_build(&i, &(struct environment_options){ .framework = FRAMEWORK_PLAIN,
                                                                            .gang = &gang }, &e, why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Local__RunRequest *q = local__run_request__unpack(NULL, size, data);
        struct problem p = { .text = "" };
        struct kept_run *kept = calloc(1, sizeof(*kept));
        static const Run__Spec standard = RUN__SPEC__INIT;

        if (q && request_take_spec(q, kept, &p) == 0) {
                assert(kept->spec->grace > 0 && kept->argv[0] && strlen(kept->name) <= RUN_NAME_MAX);
                /* tpu-launchd does not compile it; who reads what a person wrote does, and may refuse it. */
                if (q->spec->step_regex != standard.step_regex)
                        free(q->spec->step_regex);
                q->spec->step_regex = standard.step_regex;
                check_round_trip(q->spec);
                if (q->world)
                        check_world(q);
        } else if (q)
                assert(p.text[0] && p.remedy[0]);
        (void) kept_run_free(kept);
        if (q)
                check_secrets(q);
        if (q)
                local__run_request__free_unpacked(q, NULL);
        return 0;
}
