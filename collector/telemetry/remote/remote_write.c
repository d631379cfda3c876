/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_write.h"

#include "remote_stream.h"

struct remote_write {
        struct remote_options o;
        struct remote_stream *streams[_REMOTE_WHAT_MAX]; /* NULL: that is not handed on */
};

int remote_write_new(const struct remote_options *o, struct remote_write **ret, char why[static 256]) {
        const struct remote_kind *const kinds[_REMOTE_WHAT_MAX] = {
                [REMOTE_POINTS] = o->to->otlp ? &remote_kind_points : &remote_kind_samples,
                [REMOTE_EVENTS] = o->to->otlp ? &remote_kind_events : NULL,
                [REMOTE_LINES] = o->to->otlp ? &remote_kind_lines : NULL,
        };
        _cleanup_(remote_write_freep) struct remote_write *w = calloc(1, sizeof(*w));
        int r;

        (void) snprintf(why, 256, "out of memory");
        if (!w)
                return -ENOMEM;
        w->o = *o;
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                struct exchange *beside = i > 0 ? w->streams[0]->exchange : NULL;

                if (!kinds[i])
                        continue;
                r = remote_stream_new(&w->o, kinds[i], beside, &w->streams[i], why);
                if (r < 0)
                        return r;
        }
        store_hand_over(o->store, true);
        *ret = TAKE_PTR(w);
        return 0;
}

struct remote_write *remote_write_free(struct remote_write *w) {
        if (!w)
                return NULL;
        for (size_t i = _REMOTE_WHAT_MAX; i > 0; i--) /* the first has the connections of the others */
                w->streams[i - 1] = remote_stream_free(w->streams[i - 1]);
        free(w);
        return NULL;
}

void remote_write_forget(struct remote_write *w) {
        for (size_t i = 0; i < _REMOTE_WHAT_MAX; i++)
                if (w->streams[i])
                        remote_stream_forget(w->streams[i]);
}

const struct remote_counters *remote_write_counters(const struct remote_write *w, enum remote_what what) {
        static const struct remote_counters none;

        return w->streams[what] ? &w->streams[what]->counters : &none;
}

int remote_write_waiting(const struct remote_write *w, enum remote_what what, uint64_t *ret) {
        uint64_t n = 0;
        int r = 0;

        if (what != REMOTE_POINTS && w->streams[what])
                r = store_records_waiting(w->o.store, what == REMOTE_EVENTS ? HANDED_EVENTS : HANDED_LINES,
                                          &n);
        if (r == 0)
                *ret = n;
        return r;
}

usec_t remote_write_behind(const struct remote_write *w) {
        usec_t now = clock_boot(w->o.clock), behind = 0;

        for (size_t i = 0; i < _REMOTE_WHAT_MAX; i++)
                if (w->streams[i] && w->streams[i]->since > 0)
                        behind = MAX(behind, now - w->streams[i]->since);
        return behind;
}
