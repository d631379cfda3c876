/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_port.h"

#include "api_json.h"
#include "episode_port.h"

/* Of what a host took for itself while nobody was reached. */
#define OWN_MAX_AGE  ((usec_t) 24 * 3600 * USEC_PER_SEC)
#define RETRY_AFTER  2 /* seconds */

/* --- Who sends it -------------------------------------------------------------------------------------- */

/* A certificate whose URI ends in the name of a host is that host's, and speaks for no other; one of a whole
 * fleet ends otherwise. */
static bool may_speak(const struct http_request *q, const struct registry *r, const char *host) {
        const char *slash = strrchr(q->caller->name, '/');

        return !slash || !slash[1] || streq(slash + 1, host) || !registry_has_host(r, slash + 1);
}

static bool is_wanted(struct episodes *e, const struct registry *r, const struct capture_words *w,
                      usec_t now) {
        usec_t taken = (usec_t) w->taken;

        return w->episode[0] ? episode_port_wants(e, registry_gang(r), w->slice, w->episode)
                             : taken + OWN_MAX_AGE > now && taken < now + OWN_MAX_AGE;
}

void capture_port_reply(struct http_reply *reply, unsigned status, const char *why) {
        if (status == 200)
                api_reply(reply, 200, json_object());
        else
                api_reply_error(reply, status, why, "see docs/registry.md");
        reply->retry_after = status == 503 ? RETRY_AFTER : 0;
}

bool capture_port_accept(const struct http_request *q, const struct registry *r, struct episodes *e,
                         usec_t now, struct capture_words *ret, struct http_reply *reply) {
        struct capture_words words, *w = &words;
        char why[ARGUMENTS_WHY_MAX];

        if (q->len > STORE_CAPTURE_MAX)
                capture_port_reply(reply, 413, "a capture is at most 1 MiB");
        else if (capture_words_parse(q, w, why) < 0)
                capture_port_reply(reply, 400, why);
        else if (q->len == 0)
                capture_port_reply(reply, 400, "there is no capture in the body");
        else if (!may_speak(q, r, w->host))
                capture_port_reply(reply, 403, "this certificate is another host's");
        else if (!registry_is_member(r, w->slice, (unsigned) w->worker, w->host, w->incarnation))
                capture_port_reply(reply, 503, "this host is no member here (yet)");
        else if (!is_wanted(e, r, w, now))
                capture_port_reply(reply, 404, "there is no such episode here");
        else {
                *ret = *w;
                return true;
        }
        return false;
}

/* --- Kept ---------------------------------------------------------------------------------------------- */

int capture_port_store(struct store *s, const struct capture_words *w, const void *data, size_t len,
                       usec_t now) {
        struct store_capture c = { .episode = w->episode,
                                   .run = w->run,
                                   .suspicion = w->suspicion,
                                   .slice = w->slice,
                                   .host = w->host,
                                   .worker_id = w->worker,
                                   .generation = w->generation,
                                   .round = (unsigned) w->round,
                                   .rounds = (unsigned) MAX(w->rounds, INT64_C(1)),
                                   .hosts = (uint64_t) w->hosts,
                                   .slice_hosts = (uint64_t) w->slice_hosts,
                                   .taken = (usec_t) w->taken,
                                   .data = data,
                                   .len = len };
        char episode[64];
        int r;

        if (!*c.episode) {
                r = store_name_episode(s, &c, now, episode);
                if (r < 0)
                        return r;
                c.episode = episode;
        }
        return store_add_capture(s, &c, now);
}
