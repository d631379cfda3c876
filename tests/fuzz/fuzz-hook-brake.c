/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever answers in the collector's place: the hook is let go only by an answer that has this host in its
 * slice, and never by one that is no JSON.
 */
#include <assert.h>

#include "hook_brake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool knows_us(const json_t *answer) {
        const json_t *one;
        size_t i;

        json_array_foreach(json_object_get(answer, "hosts"), i, one) {
                const char *slice = json_string_value(json_object_get(one, "slice")),
                           *name = json_string_value(json_object_get(one, "name"));

                if (slice && name && streq(slice, "s") && streq(name, "h0"))
                        return true;
        }
        return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        unsigned percent;
        json_t *answer;
        enum brake b;

        if (size == 0)
                return 0;
        percent = 1 + data[0] % 100U;
        answer = json_loadb((const char *) data + 1, size - 1, JSON_REJECT_DUPLICATES, NULL);
        b = brake_decide(answer, "s", "h0", percent);
        assert((b == BRAKE_UNKNOWN) == !knows_us(answer));
        if (b == BRAKE_ON) /* a slice of which less is out than another brake allows */
                assert(brake_decide(answer, "s", "h0", 1) == BRAKE_ON);
        json_decref(answer);
        return 0;
}
