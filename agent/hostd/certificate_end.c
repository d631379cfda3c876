/* SPDX-License-Identifier: Apache-2.0 */
#include "certificate_end.h"
#include "clock.h"

void certificate_end_judge(const struct certificate_end *c, usec_t now_real, struct finding *f) {
        usec_t life = c->not_after > c->not_before ? c->not_after - c->not_before : 0;
        usec_t notice = MIN(life / 3, CERTIFICATE_NOTICE);
        char end[CLOCK_TEXT_MAX];

        f->verdict = VERDICT_OK;
        finding_set(f->found, "ends at %s", clock_text(c->not_after, end));
        if (now_real >= c->not_after) {
                f->verdict = c->gravest;
                finding_set(f->reason, "the certificate has expired: %s", c->what_then);
        } else if (now_real < c->not_before) {
                f->verdict = c->gravest;
                finding_set(f->reason, "the certificate is not valid yet: is this host's clock right?");
        } else if (c->not_after - now_real < notice) {
                f->verdict = VERDICT_WARN;
                finding_set(f->reason, "the certificate ends in %" PRIu64 " h, and nobody has renewed it",
                            (c->not_after - now_real) / (3600 * USEC_PER_SEC));
        }
        if (f->verdict != VERDICT_OK)
                finding_set(f->remedy, "openssl x509 -noout -dates -in %s", c->path);
}
