/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_port.h"

#include "api_json.h"
#include "episode_port.h"

#define OWN_MAX_AGE  ((usec_t) 24 * 3600 * USEC_PER_SEC) /* of what a host took for itself while nobody was reached */
#define HOSTS_MAX    1000000
#define TIME_MAX     INT64_C(253402300800000000) /* the year 10000 */
#define RETRY_AFTER  2 /* seconds */

/* --- The query ----------------------------------------------------------------------------------------- */

struct word {
        const char *name;
        size_t offset, size; /* size: of a text; 0: a number */
        int64_t most;
        bool needed;
};
#define WORD_TEXT(member, needed)                                                                               \
        { #member, offsetof(struct capture_words, member), sizeof(((struct capture_words *) NULL)->member), 0, needed }
#define WORD_NUMBER(member, most, needed)                            \
        { #member, offsetof(struct capture_words, member), 0, most, needed }

static const struct word words[] = {
        WORD_TEXT(episode, false),
        WORD_TEXT(slice, true),
        WORD_TEXT(host, true),
        WORD_TEXT(incarnation, true),
        WORD_TEXT(run, false),
        WORD_TEXT(suspicion, false),
        WORD_NUMBER(worker, GANG_HOSTS_MAX - 1, true),
        WORD_NUMBER(generation, INT64_MAX, false),
        WORD_NUMBER(round, 1, true),
        WORD_NUMBER(rounds, 2, false),
        WORD_NUMBER(hosts, HOSTS_MAX, false),
        WORD_NUMBER(slice_hosts, HOSTS_MAX, false),
        WORD_NUMBER(taken, TIME_MAX, true),
};

struct reading {
        struct capture_words words;
        uint32_t given;
        char why[QUERY_WHY_MAX];
};

static int wrong(struct reading *r, const char *name, const char *what) {
        (void) snprintf(r->why, sizeof(r->why), "parameter %s: %s", name, what);
        return -EINVAL;
}

static int take_text(struct reading *r, const struct word *w, const char *value) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

        if (strlen(value) >= w->size || strspn(value, letters) != strlen(value) || (w->needed && !*value))
                return wrong(r, w->name, "is no name");
        memcpy((char *) &r->words + w->offset, value, strlen(value) + 1);
        return 0;
}

static int take_number(struct reading *r, const struct word *w, const char *value) {
        char *end;
        int64_t n;

        errno = 0;
        n = strtoll(value, &end, 10);
        if (*value < '0' || *value > '9' || *end || errno || n > w->most)
                return wrong(r, w->name, "is no number, or too large");
        memcpy((char *) &r->words + w->offset, &n, sizeof(n));
        return 0;
}

/* What a later agent says besides is passed over. */
static int on_parameter(const char *key, const char *value, void *userdata) {
        struct reading *r = userdata;

        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                if (!streq(key, words[i].name))
                        continue;
                if (r->given & (UINT32_C(1) << i))
                        return wrong(r, key, "is given twice");
                r->given |= UINT32_C(1) << i;
                return words[i].size > 0 ? take_text(r, &words[i], value) : take_number(r, &words[i], value);
        }
        return 0;
}

static int parse(const struct http_request *q, struct reading *r) {
        int e;

        *r = (struct reading){ .words = { .generation = -1, .rounds = 2 } };
        e = http_query(q, on_parameter, r);
        for (size_t i = 0; e == 0 && i < ELEMENTSOF(words); i++)
                if (words[i].needed && !(r->given & (UINT32_C(1) << i)))
                        e = wrong(r, words[i].name, "is needed");
        return e;
}

/* --- Who sends it --------------------------------------------------------------------------------------- */

/* A certificate whose URI ends in the name of a host is that host's, and speaks for no other; one of a whole fleet ends
 * otherwise. */
static bool may_speak(const struct http_request *q, const struct registry *r, const char *host) {
        const char *slash = strrchr(q->caller->name, '/');

        return !slash || !slash[1] || streq(slash + 1, host) || !registry_has_host(r, slash + 1);
}

static bool is_wanted(struct episodes *e, const struct registry *r, const struct capture_words *w, usec_t now) {
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

bool capture_port_accept(const struct http_request *q, const struct registry *r, struct episodes *e, usec_t now,
                         struct capture_words *ret, struct http_reply *reply) {
        struct reading reading;
        const struct capture_words *w = &reading.words;

        if (q->denied)
                capture_port_reply(reply, 403, q->denied);
        else if (!streq(q->method, "POST")) {
                capture_port_reply(reply, 405, "only POST");
                reply->allow = "POST";
        } else if (q->too_large || q->len > STORE_CAPTURE_MAX)
                capture_port_reply(reply, 413, "a capture is at most 1 MiB");
        else if (q->no_room)
                capture_port_reply(reply, 503, "too many bodies at once");
        else if (parse(q, &reading) < 0)
                capture_port_reply(reply, 400, reading.why);
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

/* --- Kept ------------------------------------------------------------------------------------------------ */

int capture_port_store(struct store *s, const struct capture_words *w, const void *data, size_t len, usec_t now) {
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
