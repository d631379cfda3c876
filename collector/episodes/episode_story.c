/* SPDX-License-Identifier: Apache-2.0 */
#include "episode_story.h"

#include "log.h"

#define SEVERITY_INFO  9 /* OpenTelemetry, logs data model */
#define SEVERITY_ERROR 17

struct line {
        const char *host, *slice, *name, *text;
        int64_t worker;
        unsigned severity;
};

/* Takes attributes over. */
static int add(const struct episodes_options *o, const struct line *l, json_t *attributes) {
        const struct store_identity identity = { .slice = *l->slice ? l->slice : NULL,
                                                 .worker_id = l->worker };
        usec_t now = clock_real(o->clock);
        json_t *body = json_string(l->text);
        _cleanup_free_ char *b = body ? json_dumps(body, JSON_ENCODE_ANY) : NULL,
                            *a = attributes ? json_dumps(attributes, JSON_COMPACT) : NULL;
        const struct store_event event = { .service = o->host,
                                           .name = l->name,
                                           .body = b,
                                           .attributes = a,
                                           .severity = l->severity,
                                           .time = now,
                                           .received = now };
        int64_t id;
        int r;

        json_decref(body);
        json_decref(attributes);
        if (!a || !b)
                return -ENOMEM;
        r = store_find_host(o->store, *l->host ? l->host : o->host, now, &id);
        return r < 0 ? r : store_add_event(o->store, id, *l->slice ? &identity : NULL, &event);
}

static int tell_verdict(const struct episodes_options *o, const struct episode_about *x,
                        const struct verdict_text *v, struct line l) {
        l.host = v->host;
        l.slice = *v->slice ? v->slice : x->slice;
        l.worker = v->worker;
        return add(o, &l,
                   json_pack("{s:s, s:I, s:s, s:s, s:s, s:f, s:I}", "run", x->run, "generation",
                             (json_int_t) x->generation, "episode", x->id, "outcome", v->outcome, "host",
                             v->host, "score", v->score, "at", (json_int_t) x->at));
}

int episode_tell_confirmed(const struct episodes_options *o, const struct episode_about *x,
                           const struct verdict_text *v) {
        char text[1000];

        (void) snprintf(text, sizeof(text), "run %s stalls: %.900s", x->run,
                        *v->sentence ? v->sentence : v->summary);
        log_warning("%s", text);
        return tell_verdict(
                o, x, v,
                (struct line){ .name = "tpu.run.stall_confirmed", .severity = SEVERITY_ERROR, .text = text });
}

int episode_tell_unconfirmed(const struct episodes_options *o, const struct episode_about *x,
                             const struct verdict_text *v) {
        char text[1100];

        (void) snprintf(text, sizeof(text),
                        "run %s makes no step, but it is slow, not stuck: %.900s; it writes, and gets on. "
                        "It is looked at again in 5 minutes",
                        x->run, v->sentence);
        log_notice("%s", text);
        return tell_verdict(
                o, x, v,
                (struct line){ .name = "tpu.run.stall_unconfirmed", .severity = SEVERITY_INFO, .text = text });
}

int episode_tell_recovered(const struct episodes_options *o, const struct episode_about *x) {
        usec_t now = clock_real(o->clock);
        char text[300];
        const struct line l = { .host = "",
                                .slice = x->slice,
                                .worker = -1,
                                .name = "tpu.run.recovered",
                                .severity = SEVERITY_INFO,
                                .text = text };

        (void) snprintf(text, sizeof(text),
                        "run %s goes on: it stalled for %" PRIu64 " s at least (episode %s)", x->run,
                        (now - MIN(now, x->at)) / USEC_PER_SEC, x->id);
        log_notice("%s", text);
        return add(o, &l,
                   json_pack("{s:s, s:I, s:s}", "run", x->run, "generation", (json_int_t) x->generation,
                             "episode", x->id));
}
