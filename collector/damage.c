/* SPDX-License-Identifier: Apache-2.0 */
#include "damage.h"
#include "journal.h"

void damage_tell(struct counters *c, const char *aside) {
        c->started_over++;
        /* without a journal it is a line on standard error */
        (void) journal_event(EVENT_OF(DATABASE_DAMAGED, .database = aside));
}

void damage_look(const struct damage *d, int r) {
        char aside[300], why[256];

        if (r != -EUCLEAN)
                return;
        if (store_start_over(d->store, aside, why) == 0) {
                damage_tell(d->counters, aside);
                if (d->begun)
                        d->begun(d->userdata);
                return;
        }
        log_error("the database is damaged, and a new one cannot be begun: %s", why);
        (void) sd_event_exit(d->event, -EUCLEAN);
}
