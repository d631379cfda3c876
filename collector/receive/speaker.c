/* SPDX-License-Identifier: Apache-2.0 */
#include "speaker.h"

#include "fnv.h"

#define TELL_AGAIN (60 * USEC_PER_SEC)

const char *speaker_host(const struct speakers *s, const struct http_caller *c) {
        return s->proves ? c->host : NULL;
}

void speaker_words(const char *proved, const char *host, char ret[static SPEAKER_WHY_MAX]) {
        (void) snprintf(ret, SPEAKER_WHY_MAX,
                        "this caller is host %.63s, and it speaks for host %.100s (HostFrom=)",
                        proved, host);
}

/* A place that is somebody's stays his for a minute: two who share one cannot make events by turns. */
static bool is_news(struct speakers *s, const char *caller) {
        size_t i = (size_t) (fnv_text(FNV_BEGIN, caller) % SPEAKERS_TOLD);
        usec_t now = clock_boot(s->clock);

        if (s->told[i] > 0 && now < s->told[i] + TELL_AGAIN)
                return false;
        s->told[i] = now;
        return true;
}

int speaker_refused(struct speakers *s, const char *caller, const char *address, const char *call,
                    const char *why, bool alone) {
        const struct event *e =
                EVENT_OF(AGENT_REFUSED, .caller = caller, .address = address, .call = call, .why = why);
        usec_t now = clock_real(s->clock);

        s->counters->not_proved++;
        if (!is_news(s, caller))
                return 0;
        return alone ? store_event_alone(s->store, e, "", "", -1, now)
                     : store_own_event(s->store, e, "", "", -1, now);
}
