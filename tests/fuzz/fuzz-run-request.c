/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A RunRequest as any local user may send it: what is taken of its specification is within its bounds and comes back from its
 * own JSON the same; secrets are whole variables.
 */
#include <assert.h>

#include "job.h"
#include "secret.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct run_spec *s) {
        const char *const argv[] = { "true" };
        struct job j = { .name = "a", .id = "0", .user = (char[]){ "u" }, .directory = (char[]){ "/" }, .spec = *s };
        struct job *back = NULL;
        json_t *o;

        j.argv = strings_copy(argv, ELEMENTSOF(argv));
        o = job_to_json(&j);
        assert(o && job_from_json(o, &back) == 0);
        assert(back->spec.generation == s->generation && back->spec.grace == s->grace && back->spec.restarts == s->restarts);
        assert(streq(back->spec.slice, s->slice) && streq(back->spec.cpus, s->cpus));
        assert(back->spec.preempt_signal == s->preempt_signal && !back->spec.preempt_argv == !s->preempt_argv);
        (void) job_free(back);
        (void) strings_free(j.argv);
        json_decref(o);
}

static void check_secrets(const Local__RunRequest *q) {
        struct problem p = { "", "" };
        char **l = NULL;

        if (secrets_from_request(q, &l, &p) < 0)
                assert(p.text[0] && p.remedy[0]);
        for (size_t i = 0; l && l[i]; i++)
                assert(strchr(l[i], '=') > l[i]);
        (void) secrets_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Local__RunRequest *q = local__run_request__unpack(NULL, size, data);
        struct problem p = { "", "" };
        struct run_spec s;

        if (!q)
                return 0;
        if (run_spec_from_request(q, &s, &p) == 0) {
                assert(s.grace > 0 && s.grace <= SPEC_GRACE_MAX && s.restarts <= SPEC_RESTARTS_MAX);
                check_round_trip(&s);
        } else
                assert(p.text[0] && p.remedy[0]);
        run_spec_clear(&s);
        check_secrets(q);
        local__run_request__free_unpacked(q, NULL);
        return 0;
}
