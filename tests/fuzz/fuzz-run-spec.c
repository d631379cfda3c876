/* SPDX-License-Identifier: Apache-2.0 */
/* The table of keys' readers: JSON of people and of the registry, and spec files. What is taken can be
 * written and read again. */
#include <assert.h>

#include "run_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(const json_t *o) {
        char why[RUN_WHY_MAX] = "";
        Run__Spec *s = NULL, *back = NULL;
        json_t *out, *again;

        if (run_spec_from_json(o, NULL, &s, why) < 0) {
                assert(why[0]);
                return;
        }
        (void) run_spec_check(s, RUN_SLICES, why);
        out = run_spec_to_json(s);
        assert(out && run_spec_from_json(out, (const char *const[]){ NULL }, &back, why) == 0);
        again = run_spec_to_json(back);
        assert(json_equal(out, again));
        json_decref(out);
        json_decref(again);
        (void) run_spec_free(s);
        (void) run_spec_free(back);
}

static void check_file(const char *text, size_t len) {
        char why[RUN_WHY_MAX] = "";
        Run__Spec *s = run_spec_new();

        if (run_spec_parse_file(s, "f", text, len, why) < 0)
                assert(why[0]);
        (void) run_spec_check(s, RUN_HERE, why);
        (void) run_spec_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        json_t *o = json_loadb((const char *) data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

        if (o)
                check_json(o);
        json_decref(o);
        check_file((const char *) data, size);
        return 0;
}
