/* SPDX-License-Identifier: Apache-2.0 */
#include "verdict.h"
#include "json_text.h"

int verdict_read(const json_t *report, struct verdict_text *ret) {
        const json_t *first = json_array_get(json_object_get(report, "suspects"), 0), *worker;
        struct verdict_text v = { .outcome = json_text_of(report, "outcome"),
                                  .summary = json_text_of(report, "summary"),
                                  .slice = "",
                                  .host = "",
                                  .sentence = "",
                                  .worker = -1 };

        if (!*v.outcome)
                return -EBADMSG;
        if (first && streq(v.outcome, "named")) {
                worker = json_object_get(first, "worker");
                v.slice = json_text_of(first, "slice");
                v.host = json_text_of(first, "host");
                v.sentence = json_text_of(first, "sentence");
                v.worker = json_is_integer(worker) ? json_integer_value(worker) : -1;
                v.moved = json_is_true(json_object_get(first, "moved"));
                v.saves = json_is_true(json_object_get(first, "saves"));
                v.score = json_number_value(json_object_get(first, "score"));
        }
        *ret = v;
        return 0;
}

enum verdict_says verdict_judge(const struct verdict_text *v, const struct verdict_case *c) {
        bool named = streq(v->outcome, "named");

        if (!c->suspected || (named && c->pauses))
                return VERDICT_SAYS_NOTHING;
        if (named && v->saves && (v->moved || c->works) && c->excused < VERDICT_EXCUSES)
                return VERDICT_PROGRESSES;
        return named || (c->stalls && streq(v->outcome, "nobody")) ? VERDICT_CONFIRMS : VERDICT_SAYS_NOTHING;
}
