/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "certificate_end.h"
#include "clock.h"

void certificate_end_judge(const struct certificate_end *c, usec_t now_real, struct finding *f) {
        usec_t life = c->not_after > c->not_before ? c->not_after - c->not_before : 0;
        usec_t notice = MIN(life / 3, CERTIFICATE_NOTICE);
        char end[CLOCK_TEXT_MAX], hours[24];

        finding_set(f->found, "ends at %s", clock_text(c->not_after, end));
        f->verdict = c->gravest;
        if (now_real >= c->not_after)
                check_say(f, WORDS_CERTIFICATE_EXPIRED, c->path, c->what_then);
        else if (now_real < c->not_before)
                check_say(f, WORDS_CERTIFICATE_EARLY, c->path);
        else if (c->not_after - now_real < notice) {
                (void) snprintf(hours, sizeof(hours), "%" PRIu64,
                                (c->not_after - now_real) / (3600 * USEC_PER_SEC));
                check_say(f, WORDS_CERTIFICATE_ENDS, c->path, hours);
        } else
                f->verdict = VERDICT_OK;
}
