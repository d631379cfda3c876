/* SPDX-License-Identifier: Apache-2.0 */
#include "fnv.h"
#include "pace_port.h"

#include <math.h>

#include "log.h"

static int tell(struct store *s, const struct pace_verdict *v, usec_t now) {
        int r = store_begin(s);

        log_warning("%s", v->sentence);
        if (r >= 0)
                r = store_tell(s,
                               EVENT_OF(STRAGGLER, .run = v->run, .host = v->name, .slice = v->slice,
                                        .worker = v->worker, .hosts = (int64_t) v->hosts,
                                        .sentence = v->sentence, .windows = v->windows),
                               v->name, v->slice, v->worker, now);
        if (r >= 0)
                r = store_commit(s);
        if (r < 0)
                store_rollback(s);
        return r < 0 ? r : 1;
}

/* Any number that is the host's own. */
static int64_t number_of(const struct pace_source *who) {
        return (int64_t) (fnv(fnv_text(FNV_BEGIN, who->slice), &who->worker, sizeof(who->worker)) >> 1);
}

/* NaN: not known. */
static double seconds(const json_t *v, const char *key) {
        const json_t *n = json_object_get(v, key);

        return json_is_number(n) ? json_number_value(n) : NAN;
}

static int take(struct pace *p, struct store *s, const struct pace_source *who, const json_t *v,
                usec_t now) {
        const double parts[_PACE_PART_MAX] = { [PACE_USER] = seconds(v, "user"),
                                               [PACE_SYSTEM] = seconds(v, "system"),
                                               [PACE_WAITED] = seconds(v, "waited") };
        const char *run = json_string_value(json_object_get(v, "run"));
        json_int_t at = json_integer_value(json_object_get(v, "at"));
        const json_t *step = json_object_get(v, "step");
        struct pace_verdict verdict;
        usec_t when;
        int r = 0;

        if (!run || !*run || at <= 0)
                return 0;
        when = MIN((usec_t) at, now); /* a clock that is ahead holds nobody up */
        if (json_is_integer(step) && json_integer_value(step) >= 0)
                r = pace_step(p, who, run, (uint64_t) json_integer_value(step), when);
        /* The last that makes a reading whole may name somebody. */
        for (size_t i = _PACE_PART_MAX; i > 0 && r == 0; i--)
                r = pace_cpu(p, who, run, (enum pace_part)(i - 1), parts[i - 1], when, &verdict);
        return r <= 0 ? r : tell(s, &verdict, now);
}

int pace_port_figures(struct pace *p, struct store *s, const struct pace_source *who, const json_t *list,
                      usec_t now) {
        struct pace_source source = *who;
        const json_t *v;
        size_t i;
        int r = 0;

        source.host = number_of(who);
        json_array_foreach (list, i, v) {
                int k = take(p, s, &source, v, now);

                if (k < 0)
                        return k;
                r = MAX(r, k);
        }
        return r;
}
