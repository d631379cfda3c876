/* SPDX-License-Identifier: Apache-2.0 */
#include "control_port.h"

#include <math.h>

#include "fnv.h"
#include "http_routes.h"
#include "json_text.h"
#include "log.h"

/* --- Whom an agent speaks for ----------------------------------------------------------------------- */

#define WHY_MAX 256
#define TELL_AGAIN (60 * USEC_PER_SEC)

/* The host that the caller is; NULL: any. */
static const char *proved_host(const struct speakers *s, const struct http_caller *c) {
        return s->proves ? c->host : NULL;
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

/* --- Syncs ----------------------------------------------------------------------------------------- */

static void release_body(void *text) {
        struct registry_body *b =
                (struct registry_body *) (void *) ((char *) text - offsetof(struct registry_body, text));

        registry_body_unref(b);
}

static void set_body(struct http_reply *reply, unsigned status, struct registry_body *body) {
        *reply = (struct http_reply){
                .status = body ? status : 503, /* without a body: out of memory */
                .content_type = "application/json",
                .body = body ? body->text : NULL,
                .len = body ? body->len : 0,
                .release = body ? release_body : NULL,
                .retry_after = !body || status == 503 ? 1 : 0,
        };
}

void sync_port_answer(void *call, unsigned status, struct registry_body *body, void *userdata) {
        struct http_reply reply;

        (void) userdata;
        set_body(&reply, status, body);
        http_answer(call, &reply);
}

bool sync_port_elsewhere(struct registry *r, struct http_reply *reply) {
        struct registry_body *body;
        unsigned status;

        if (registry_leads(r))
                return false;
        status = registry_elsewhere(r, &body);
        set_body(reply, status, body);
        return true;
}

void sync_port_handle(struct registry *r, struct speakers *s, const struct http_request *q,
                      struct http_reply *reply) {
        struct registry_speaker who = { .host = proved_host(s, q->caller),
                                        .instance = q->caller->instance };
        struct registry_body *body;
        unsigned status;

        status = registry_sync(r, &who, (const char *) q->body, q->len, q->call, &body);
        if (status == 403) /* it is refused, whether or not the event can be stored */
                (void) speaker_refused(s, q->caller->name, q->caller->address, q->path, who.why, true);
        if (status == 0)
                reply->later = true;
        else
                set_body(reply, status, body);
}

/* --- Records for the episodes ---------------------------------------------------------------------- */

static const json_t *record_of(const struct gang *g, const char *kind, const char *name) {
        char key[GANG_KEY_MAX];

        (void) snprintf(key, sizeof(key), "%s%.64s", kind, name);
        return gang_record(g, key);
}

static bool is_same(const json_t *a, const json_t *b, const char *key) {
        return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* Who is asked: the hosts of the run; without one, those that are in the slice. */
static json_t *slices_asked(const struct gang *g, const char *slice, const json_t *request) {
        const char *run = json_string_value(json_object_get(request, "run"));
        const json_t *r = run && *run ? record_of(g, "run/", run) : NULL, *roster;

        if (r && (is_same(r, request, "serial") || !json_object_get(request, "serial")) &&
            is_same(r, request, "generation"))
                return json_incref(json_object_get(r, "slices"));
        roster = json_object_get(record_of(g, "slice/", slice), "roster");
        return roster ? json_pack("[{s:s, s:O}]", "slice", slice, "hosts", roster) : NULL;
}

void episode_port_record(struct episodes *e, const struct gang *g, const char *key, const json_t *value) {
        json_auto_t *slices = NULL;

        if (startswith(key, "run/") && value)
                episodes_run(e, value);
        else if (startswith(key, "capture/") && value) {
                slices = slices_asked(g, key + strlen("capture/"), value);
                episodes_asked(e, key + strlen("capture/"), value, slices);
        } else if (startswith(key, "episode/")) {
                slices = slices_asked(g, "", value);
                episodes_kept(e, key + strlen("episode/"), value, slices);
        }
}

/* Whether captures of this episode are wanted of this host; one that the registry has and the episodes do
 * not know yet begins. ret_generation: as of episodes_wants(). */
static bool is_asked_for(struct episodes *e, const struct gang *g, const struct capture_words *w,
                         int64_t *ret_generation) {
        const json_t *request = record_of(g, "capture/", w->slice);
        const char *id = json_string_value(json_object_get(request, "episode"));
        char key[GANG_KEY_MAX];

        (void) snprintf(key, sizeof(key), "capture/%.64s", w->slice);
        if (id && streq(id, w->episode))
                episode_port_record(e, g, key, request);
        return episodes_wants(e, w->episode, w->slice, w->host, ret_generation);
}

/* Of a run that the registry started on other slices a host has nothing to say. */
static bool has_part_in(const struct gang *g, const struct capture_words *w) {
        const json_t *slices = json_object_get(record_of(g, "run/", w->run), "slices"), *v;
        size_t i;

        if (!json_is_array(slices) || w->generation <= 0)
                return true;
        json_array_foreach (slices, i, v)
                if (streq(json_text_of(v, "slice"), w->slice))
                        return true;
        return false;
}

/* --- Captures -------------------------------------------------------------------------------------- */

/* Of what a host took for itself while nobody was reached. */
#define OWN_MAX_AGE  ((usec_t) 24 * 3600 * USEC_PER_SEC)
#define RETRY_AFTER  2 /* seconds */

/* A host brings its own. */
static bool may_speak(const struct http_request *q, struct speakers *s, const char *host,
                      char why[static WHY_MAX]) {
        const char *proved = proved_host(s, q->caller);

        if (!proved || streq(proved, host))
                return true;
        (void) snprintf(why, WHY_MAX, "this caller is host %.63s, and it speaks for host %.100s (HostFrom=)",
                        proved, host);
        (void) speaker_refused(s, q->caller->name, q->caller->address, q->path, why, true);
        return false;
}

static bool is_wanted(struct episodes *e, const struct registry *r, const struct capture_words *w,
                      usec_t now, char why[static WHY_MAX]) {
        usec_t taken = (usec_t) w->taken;
        int64_t generation = 0;

        (void) snprintf(why, WHY_MAX, "there is no such episode here");
        if (!w->episode[0] && !has_part_in(registry_gang(r), w)) {
                (void) snprintf(why, WHY_MAX, "run %.63s is not on slice %.63s", w->run, w->slice);
                return false;
        }
        if (!w->episode[0])
                return taken + OWN_MAX_AGE > now && taken < now + OWN_MAX_AGE;
        if (!is_asked_for(e, registry_gang(r), w, &generation))
                return false;
        if (w->generation <= 0 || generation <= 0 || w->generation == generation)
                return true;
        (void) snprintf(why, WHY_MAX,
                        "this capture is of generation %" PRId64 " of run %.63s, and episode %.63s is of "
                        "generation %" PRId64,
                        w->generation, w->run, w->episode, generation);
        log_notice("host %s: %s", w->host, why);
        return false;
}

void capture_port_reply(struct http_reply *reply, unsigned status, const char *why) {
        if (status == 200)
                api_reply(reply, 200, json_object());
        else
                api_reply_error(reply, status, why, "see /usr/share/doc/tpu-collector/registry.md");
        reply->retry_after = status == 503 ? RETRY_AFTER : 0;
}

bool capture_port_accept(const struct http_request *q, const struct registry *r, struct speakers *s,
                         struct episodes *e, usec_t now, struct capture_words *ret,
                         struct http_reply *reply) {
        struct capture_words words, *w = &words;
        char why[MAX(ARGUMENTS_WHY_MAX, WHY_MAX)];

        if (q->len > STORE_CAPTURE_MAX)
                capture_port_reply(reply, 413, "a capture is at most 1 MiB");
        else if (capture_words_parse(q, w, why) < 0)
                capture_port_reply(reply, 400, why);
        else if (q->len == 0)
                capture_port_reply(reply, 400, "there is no capture in the body");
        else if (!may_speak(q, s, w->host, why))
                capture_port_reply(reply, 403, why);
        else if (!registry_is_member(r, w->slice, (unsigned) w->worker, w->host, w->incarnation))
                capture_port_reply(reply, 503, "this host is no member here (yet)");
        else if (!is_wanted(e, r, w, now, why))
                capture_port_reply(reply, 404, why);
        else {
                *ret = *w;
                return true;
        }
        return false;
}

/* --- Kept ------------------------------------------------------------------------------------------ */

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

/* --- Figures --------------------------------------------------------------------------------------- */

static int report_straggler(struct store *s, const struct pace_verdict *v, usec_t now) {
        const enum event_id id = v->over ? EVENT_STRAGGLER_OVER : EVENT_STRAGGLER;

        (void) log_full(severity_priority(event_def(id)->severity), 0, "%s", v->sentence);
        return store_event_alone(s,
                                 EVENT_LIKE(STRAGGLER, id, event_def(id)->severity, .run = v->run,
                                            .host = v->name, .slice = v->slice, .worker = v->worker,
                                            .hosts = (int64_t) v->hosts, .sentence = v->sentence,
                                            .windows = v->windows),
                                 v->name, v->slice, v->worker, now);
}

/* Any number that is the host's own. */
static int64_t host_number(const struct pace_source *who) {
        return (int64_t) (fnv(fnv_text(FNV_BEGIN, who->slice), &who->worker, sizeof(who->worker)) >> 1);
}

/* NaN: not known. */
static double seconds_of(const json_t *v, const char *key) {
        const json_t *n = json_object_get(v, key);

        return json_is_number(n) ? json_number_value(n) : NAN;
}

static int take_figures(struct pace *p, struct store *s, const struct pace_source *who, const json_t *v,
                        usec_t now) {
        json_int_t at = json_integer_value(json_object_get(v, "at"));
        const struct pace_figures f = {
                .run = json_string_value(json_object_get(v, "run")),
                .at = MIN((usec_t) MAX(at, (json_int_t) 0), now), /* a clock that is ahead holds nobody up */
                .step = json_known_of(v, "step"),
                .user = seconds_of(v, "user"),
                .system = seconds_of(v, "system"),
                .waited = seconds_of(v, "waited"),
                .looks = json_number_of(v, "looks"),
                .owed = json_number_of(v, "owed"),
                .costs = { .seconds = { [OWN_MEMORY] = seconds_of(v, "memory"),
                                        [OWN_CPU] = seconds_of(v, "waited"),
                                        [OWN_DISK] = seconds_of(v, "disk"),
                                        [OWN_WORK] = seconds_of(v, "user") + seconds_of(v, "system") },
                           .retransmits = seconds_of(v, "retransmits") },
        };
        struct pace_verdict verdict;
        int r = f.run && *f.run && at > 0 ? pace_take(p, who, &f, now, &verdict) : 0;

        return r <= 0 ? r : report_straggler(s, &verdict, now);
}

int pace_port_figures(struct pace *p, struct store *s, const struct pace_source *who, const json_t *list,
                      usec_t now) {
        struct pace_source source = *who;
        const json_t *v;
        size_t i;
        int r = 0;

        source.host = host_number(who);
        json_array_foreach (list, i, v) {
                int k = take_figures(p, s, &source, v, now);

                if (k < 0)
                        return k;
                r = MAX(r, k);
        }
        return r;
}

/* --- The first word -------------------------------------------------------------------------------- */

int first_word_port_figures(struct first_words *w, const struct pace_source *who, const json_t *list,
                            usec_t now) {
        const struct first_word_source source = { who->name, who->slice, who->worker };
        const json_t *v;
        size_t i;
        int r = 0;

        json_array_foreach (list, i, v)
                if (r == 0)
                        r = first_words_take(w, &source, v, now);
        return r;
}

static int report_first_word(struct store *s, const struct first_word *w, usec_t now) {
        static const char *const says[] = { "nobody", "likely", "clear" };

        log_notice("run %s: %s", w->run, w->text);
        return store_event_alone(s,
                                 EVENT_OF(FIRST_WORD, .run = w->run, .generation = (int64_t) w->generation,
                                          .says = says[w->says], .slice = w->slice, .host = w->host,
                                          .worker = w->worker, .hosts = (int64_t) w->hosts,
                                          .said = (int64_t) w->said,
                                          .silent_msec = (int64_t) ((w->at - MIN(w->at, w->since)) /
                                                                    USEC_PER_MSEC),
                                          .text = w->text),
                                 w->host, w->slice, w->worker, now);
}

int first_word_port_judge(struct first_words *w, struct store *s, const struct gang *g, usec_t now) {
        struct first_word word;
        const char *run;
        int said = 0;

        while ((run = first_words_due_run(w, now))) {
                const json_t *record = g ? record_of(g, "run/", run) : NULL;
                int r = first_words_judge(w, run, json_object_get(record, "slices"), now, &word);

                if (r > 0)
                        r = report_first_word(s, &word, now);
                if (r < 0)
                        return r;
                said = MAX(said, r);
        }
        return said;
}
