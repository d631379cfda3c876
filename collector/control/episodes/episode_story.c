/* SPDX-License-Identifier: Apache-2.0 */
#include "episode_story.h"

#include "log.h"

static int tell(const struct episodes_options *o, const struct event *e, const char *host, const char *slice,
                int64_t worker) {
        char sentence[EVENT_SENTENCE_MAX];
        int r;

        (void) log_full(severity_priority(e->severity), 0, "%s", event_sentence(e, sentence));
        r = store_tell(o->store, e, host, slice, worker, clock_real(o->clock));
        return MIN(r, 0);
}

int episode_tell_verdict(const struct episodes_options *o, const struct episode_about *x,
                         const struct verdict_text *v, bool confirmed) {
        const enum event_id id = confirmed ? EVENT_STALL_CONFIRMED : EVENT_STALL_UNCONFIRMED;
        const char *slice = *v->slice ? v->slice : x->slice;

        return tell(o,
                    EVENT_LIKE(STALL_CONFIRMED, id, event_def(id)->severity, .run = x->run,
                               .generation = x->generation, .episode = x->id, .outcome = v->outcome,
                               .slice = slice, .host = v->host,
                               .sentence = *v->sentence ? v->sentence : v->summary, .at = (int64_t) x->at),
                    v->host, slice, v->worker);
}

int episode_tell_recovered(const struct episodes_options *o, const struct episode_about *x) {
        usec_t now = clock_real(o->clock);

        return tell(o,
                    EVENT_OF(RUN_RECOVERED, .run = x->run, .generation = x->generation, .how = "step",
                             .kind = "stall", .last_step = EVENT_ABSENT,
                             .lasted_msec = (int64_t) ((now - MIN(now, x->at)) / USEC_PER_MSEC),
                             .episode = x->id),
                    "", x->slice, -1);
}
