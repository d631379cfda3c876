/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include <assert.h>

#include "backoff.h"
#include "exchange.h"
#include "json_text.h"
#include "loop_timer.h"
#include "sync_answer.h"
#include "sync_course.h"
#include "utf8.h"

#define SYNC_PATH "/registry/v1/sync"
#define EAGER (1 * USEC_PER_SEC) /* who has nothing new to say, and holds nothing, is asked so often */
#define TOGETHER (10 * USEC_PER_MSEC) /* changes of what we say that come together go out together */
#define LEAVE_TIME (2 * USEC_PER_SEC)
#define POST_TIME (60 * USEC_PER_SEC)
#define LEASE (15 * USEC_PER_SEC) /* until the collector has said its own */

/* A connection of its own for each: no sync waits for the end of a body that is posted. */
struct connections {
        struct exchange *sync, *post;
};

struct registry {
        struct registry_known told;
        struct registry_options options;
        struct sync_course course; /* without a URL: static, nobody is asked */
        struct connections connections[CONFIG_URLS_MAX];
        sd_event_source *next;    /* when to ask */
        sd_event_source *claim;   /* when the lease may have ended on the other side */
        json_t *member, *figures; /* figures: NULL: nothing runs */
        uint64_t said, heard, asking; /* members: the last, what the collector has, what is being sent */
        bool joined;    /* the splay is over */
        bool renewed;   /* certificates changed: the end of the exchange at work is no failure */
        bool left, leaving;
        bool stale_noticed;
        struct {
                registry_post_done done;
                void *userdata;
                uint64_t term; /* in which it was posted */
        } post;
        char revision[64], store[COURSE_STORE_MAX];
};

static void arm_timer(sd_event_source *source, usec_t after) {
        (void) loop_timer_in(source, after); /* fails only when the loop ends */
}

static void set_status(struct registry *c, enum registry_state s, const char *why) {
        registry_known_status(&c->told, s, sync_course_may_claim(&c->course, registry_known_now(&c->told)),
                              why);
}

/* --- Connections --------------------------------------------------------------------------------------- */

static void on_synced(const struct exchange_answer *a, void *userdata);
static void on_posted(const struct exchange_answer *a, void *userdata);

static void on_header(const char *line, size_t len, void *userdata) {
        const struct registry *c = userdata;
        usec_t made;

        if (c->told.events.clock && sync_date(line, len, &made))
                c->told.events.clock(made, c->told.userdata);
}

static struct exchange *sync_exchange(const struct registry *c) {
        return c->connections[c->course.at].sync;
}

static int open_connection(struct registry *c, size_t i, bool post, struct exchange **ret,
                           char why[static 256]) {
        struct exchange **x = post ? &c->connections[i].post : &c->connections[i].sync;
        const struct exchange_options o = { .url = c->course.urls[i],
                                            .ca = c->options.ca,
                                            .certificate = c->options.certificate,
                                            .key = c->options.key,
                                            .crl = c->options.crl,
                                            .bearer = c->options.bearer,
                                            .answer_max = post ? SYNC_ERROR_MAX : SYNC_ANSWER_MAX,
                                            .user_agent = "tpu-hostd/" TPU_HOSTD_VERSION,
                                            .name = "registry",
                                            .header = post ? NULL : on_header,
                                            .done = post ? on_posted : on_synced,
                                            .userdata = c };
        int r = *x ? 0 : exchange_new(c->told.event, &o, x, why);

        if (r == 0)
                *ret = *x;
        return r;
}

/* --- What is said -------------------------------------------------------------------------------------- */

static json_t *short_form(const struct registry *c) {
        char same[96];

        (void) snprintf(same, sizeof(same), "%.63s/%u", c->options.slice, c->options.worker);
        return json_pack("{s:i, s:s, s:O?}", "v", 1, "same", same, "incarnation",
                         json_object_get(c->member, "incarnation"));
}

static char *finish_request(const struct registry *c, json_t *o, usec_t wait) {
        char *text;

        o = json_member_add(o, "wait", json_integer((json_int_t) (wait / USEC_PER_SEC)));
        o = json_member_add(o, "said", json_integer((json_int_t) c->said));
        o = json_member_add(o, "tenant", json_string(c->options.tenant));
        if (c->revision[0])
                o = json_member_add(o, "since", json_string(c->revision));
        if (c->figures)
                o = json_member_add(o, "figures", json_incref(c->figures));
        text = o ? json_dumps(o, JSON_COMPACT) : NULL;
        json_decref(o);
        return text;
}

static int send_sync(struct registry *c, const char *text, usec_t timeout, char why[static 256]) {
        const struct exchange_request q = {
                .path = SYNC_PATH, .body = text, .len = strlen(text), .timeout = timeout
        };
        struct exchange *x = NULL;
        int r;

        sync_course_send(&c->course, registry_known_now(&c->told));
        r = open_connection(c, c->course.at, false, &x, why);
        return r < 0 ? r : exchange_start(x, &q);
}

/*
 * Of one collector, one held request that ended is no news: the next try says. Where there are several,
 * another one leads within a lease and a little: until then no whole fleet is reported as away.
 */
static bool may_be_back(const struct registry *c, bool first) {
        if (c->course.n == 1)
                return first;
        return registry_known_now(&c->told) < c->course.claim_until + c->course.lease;
}

static void sync_failed(struct registry *c, enum sync_failure f, usec_t least, const char *why) {
        bool first = c->course.rounds == 0;
        usec_t after = sync_course_failed(&c->course, f, why, least, backoff_random());
        enum registry_state s = c->course.mildest > SYNC_AWAY ? REGISTRY_REFUSED :
                                c->told.complete              ? REGISTRY_AWAY :
                                                                 REGISTRY_JOINING;

        c->heard = 0; /* it may have forgotten us meanwhile */
        arm_timer(c->next, after);
        if (!sync_course_is_over(&c->course))
                return;
        if (s == REGISTRY_AWAY && c->told.status.state == REGISTRY_MEMBER && may_be_back(c, first))
                return;
        set_status(c, s, c->course.why);
}

static void send_question(struct registry *c) {
        _cleanup_free_ char *text = NULL;
        bool whole = c->heard != c->said;
        usec_t full = sync_course_longest(&c->course), patience = sync_course_patience(&c->course, full),
               wait = patience < full ? 0 : sync_course_hold(&c->course); /* who may be gone holds nothing */
        char why[256] = "";
        int r;

        if (!c->member || !c->joined || c->left || (sync_exchange(c) && exchange_at_work(sync_exchange(c))))
                return;
        if (c->course.n == 0) {
                registry_known_alone(&c->told, c->options.slice, c->options.worker, c->member);
                return;
        }
        (void) sd_event_source_set_enabled(c->next, SD_EVENT_OFF); /* as in arm_timer() */
        c->asking = c->said;
        text = finish_request(
                c, whole ? json_pack("{s:i, s:O}", "v", 1, "member", c->member) : short_form(c), wait);
        r = text ? send_sync(c, text, patience, why) : -ENOMEM;
        if (r < 0)
                sync_failed(c, SYNC_SILENT, 0, why[0] ? why : strerror(-r));
}

static int on_next(sd_event_source *source, uint64_t usec, void *userdata) {
        struct registry *c = userdata;
        struct exchange *x = sync_exchange(c);

        (void) source, (void) usec;
        c->joined = true;
        if (x && exchange_at_work(x) && c->asking != c->said && !c->left)
                exchange_cancel(x);
        send_question(c);
        return 0;
}

static int on_claim(sd_event_source *source, uint64_t usec, void *userdata) {
        struct registry *c = userdata;

        (void) source, (void) usec;
        registry_known_status(&c->told, c->told.status.state, false, c->told.status.why);
        return 0;
}

/* --- What is answered ---------------------------------------------------------------------------------- */

/* How long until the next question. */
static usec_t pause_after(struct registry *c, const struct sync_answer *a, bool was_whole, usec_t now) {
        bool news = a->whole || a->tell || json_object_size(a->records) > 0,
             early = now < c->course.sent + sync_course_hold(&c->course) / 2,
             often = sync_course_too_often(&c->course, now);

        if (a->conflict)
                return sync_course_hold(&c->course);
        return often || (a->tell && was_whole) || (!news && early && c->heard == c->said) ? EAGER : 0;
}

static void take_status_of(struct registry *c, const struct sync_answer *a, usec_t now) {
        char why[512]; /* the status cuts it */

        if (!a->conflict) {
                arm_timer(c->claim, c->course.claim_until - MIN(now, c->course.claim_until));
                set_status(c, REGISTRY_MEMBER, sync_course_url(&c->course));
                return;
        }
        sync_course_give_up_claim(&c->course);
        (void) snprintf(why, sizeof(why), "worker id %u of slice %.63s is %s's (%s%smachine %s)",
                        c->options.worker, c->options.slice, a->holder, a->holder_address,
                        a->holder_address[0] ? ", " : "", a->holder_id);
        set_status(c, REGISTRY_CONFLICT, why);
}

static void take_records(struct registry *c, const struct sync_answer *a) {
        const char *key;
        json_t *value;

        if (a->whole)
                registry_known_whole(&c->told, a->records);
        else
                json_object_foreach(a->records, key, value)
                        registry_known_record(&c->told, key, value);
}

/* Of a collector that led before, and does not know it yet. */
static void refuse_stale(struct registry *c, const struct sync_answer *a) {
        const char *url = sync_course_url(&c->course);

        if (!c->stale_noticed)
                registry_known_notice(&c->told,
                                      "%.200s is not believed: its term %" PRIu64
                                      " is older than what others said",
                                      url, a->term);
        c->stale_noticed = true;
        sync_failed(c, SYNC_AWAY, 0, "its term is older than what others said: it does not lead any more");
}

static void take_answer(struct registry *c, const struct sync_answer *a) {
        bool was_whole = c->heard != c->asking;
        usec_t now = registry_known_now(&c->told);

        if (sync_course_answer(&c->course, a->store, a->term, a->lease) < 0) {
                refuse_stale(c, a);
                return;
        }
        if (c->store[0] && a->store[0] && !streq(c->store, a->store))
                registry_known_notice(&c->told, "the registry's store has changed: %s, previously %s",
                                      a->store, c->store);
        c->stale_noticed = false;
        c->heard = a->tell || a->conflict ? 0 : c->asking;
        memcpy(c->store, a->store, sizeof(c->store));
        memcpy(c->revision, a->revision, sizeof(c->revision));
        arm_timer(c->next, pause_after(c, a, was_whole, now));
        take_status_of(c, a, now);
        take_records(c, a);
}

static void take_refusal(struct registry *c, const struct exchange_answer *a) {
        json_t *o = sync_error_object(a->body, a->len);
        char why[COURSE_WHY_MAX];

        sync_error_text(a->status, o, why, sizeof(why));
        if (a->status == 421 && sync_course_follow(&c->course, json_text_of(o, "leader"), why)) {
                c->heard = 0;
                arm_timer(c->next, 0);
        } else if (sync_is_refusal(a->status))
                sync_failed(c, SYNC_REFUSED, 0, why);
        else
                sync_failed(c, SYNC_AWAY, a->retry_after, why);
        json_decref(o);
}

static void on_synced(const struct exchange_answer *a, void *userdata) {
        struct registry *c = userdata;
        _cleanup_sync_answer_ struct sync_answer answer = SYNC_ANSWER_NULL;
        char why[SYNC_WHY_MAX + 40], what[SYNC_WHY_MAX] = "";
        int r;

        if (c->left) {
                c->leaving = false;
                return;
        }
        if (a->failed && c->renewed)
                arm_timer(c->next, 0);
        else if (a->failed)
                sync_failed(c, a->refused ? SYNC_REFUSED : SYNC_SILENT, 0, a->why);
        else if (a->status != 200)
                take_refusal(c, a);
        else {
                r = sync_answer_parse(a->body ? a->body : "", a->len, &answer, what);
                (void) snprintf(why, sizeof(why), "its answer cannot be understood: %s", what);
                if (r < 0)
                        sync_failed(c, r == -ENOMEM ? SYNC_AWAY : SYNC_NONSENSE, r == -ENOMEM ? 0 : EAGER,
                                    why);
                else
                        take_answer(c, &answer);
        }
        c->renewed = false;
}

/* --- What is posted ------------------------------------------------------------------------------------ */

static void on_posted(const struct exchange_answer *a, void *userdata) {
        struct registry *c = userdata;
        json_t *o = sync_error_object(a->body, a->len);
        uint64_t term = c->post.term;
        registry_post_done done = c->post.done;
        char why[200];

        sync_error_text(a->status, o, why, sizeof(why));
        json_decref(o);
        c->post.done = NULL; /* done may post the next one */
        if (!done)
                return;
        if (a->failed)
                done(-EIO, 0, term, a->why, c->post.userdata);
        else
                done(0, (unsigned) a->status, term, a->status == 200 ? "" : why, c->post.userdata);
}

int registry_post(struct registry *c, const char *path_and_query, const char *content_type,
                     const void *body, size_t len, registry_post_done done, void *userdata) {
        const struct exchange_request q = { .path = path_and_query,
                                            .content_type = content_type,
                                            .body = body,
                                            .len = len,
                                            .timeout = POST_TIME };
        struct exchange *x = NULL;
        char why[256];
        int r;

        if (c->post.done)
                return -EBUSY;
        if (c->left || c->course.answered == c->course.n)
                return -ENOTCONN;
        r = open_connection(c, c->course.answered, true, &x, why);
        if (r == 0)
                r = exchange_start(x, &q);
        if (r < 0)
                return r;
        c->post.done = done;
        c->post.userdata = userdata;
        c->post.term = registry_term(c);
        return 0;
}

/* --- The contract -------------------------------------------------------------------------------------- */

int registry_say(struct registry *c, const json_t *member, bool news) {
        usec_t splay = c->course.n > 0 ? c->options.splay : 0;
        json_t *mine;

        if (c->member && json_equal(c->member, member))
                return 0;
        mine = json_deep_copy(member);
        if (!mine)
                return -ENOMEM;
        json_decref(c->member);
        c->member = mine;
        c->said++;
        if (c->said == 1) /* the first: joins */
                arm_timer(c->next, splay > 0 ? backoff_random() % splay : 0);
        else if (news && c->joined && !sync_course_fails(&c->course))
                arm_timer(c->next, TOGETHER);
        return 0;
}

int registry_figures(struct registry *c, const json_t *figures) {
        if (figures && !json_is_array(figures))
                return -EINVAL;
        json_decref(c->figures);
        c->figures = json_array_size(figures) > 0 ? json_incref((json_t *) (uintptr_t) figures) : NULL;
        return 0;
}

uint64_t registry_term(const struct registry *c) {
        return sync_course_term(&c->course);
}

static void cancel_all(struct registry *c) {
        for (size_t i = 0; i < c->course.n; i++) {
                if (c->connections[i].sync)
                        exchange_cancel(c->connections[i].sync);
                if (c->connections[i].post)
                        exchange_cancel(c->connections[i].post);
        }
}

void registry_leave(struct registry *c) {
        _cleanup_free_ char *text = NULL;
        char why[256];

        if (c->left || c->course.n == 0 || c->told.status.state != REGISTRY_MEMBER)
                return;
        c->left = c->leaving = true; /* the answer may come before the call is over */
        cancel_all(c);
        c->post.done = NULL;
        c->course.at = c->course.answered;
        text = finish_request(c, json_member_add(short_form(c), "leave", json_true()), 0);
        if (!text || send_sync(c, text, LEAVE_TIME, why) < 0)
                c->leaving = false; /* best effort: the lease ends */
}

bool registry_has_left(const struct registry *c) {
        return !c->leaving;
}

void registry_renew(struct registry *c) {
        c->renewed = true;
        for (size_t i = 0; i < c->course.n; i++) {
                if (c->connections[i].sync)
                        exchange_renew(c->connections[i].sync);
                if (c->connections[i].post)
                        exchange_renew(c->connections[i].post);
        }
        c->renewed = false;
        if (sync_course_fails(&c->course))
                arm_timer(c->next, 0);
}

static int add_timer(struct registry *c, const char *name, sd_event_time_handler_t handler,
                     sd_event_source **ret) {
        /* 1 us: at once is at once, and no sleep between an answer and the next question */
        return loop_timer_new(c->told.event, CLOCK_BOOTTIME, 1, name, handler, c, ret);
}

static int open_all(struct registry *c, char why[static 256]) {
        const struct registry_options *o = &c->options;
        struct exchange *x;
        int r = sync_course_init(&c->course, o->endpoints, LEASE, why);

        if (r == 0)
                sync_course_prefer(&c->course, o->first);
        /* Each URL is looked at while a person may be there. */
        for (size_t i = 0; i < c->course.n && r >= 0; i++)
                r = open_connection(c, i, false, &x, why);
        return r;
}

int registry_new(sd_event *e, const struct registry_options *o, const struct registry_events *events,
                 void *userdata, struct registry **ret, char why[static 256]) {
        _cleanup_(registry_freep) struct registry *c = NULL;
        int r;

        assert(o->kind == REGISTRY_STATIC || o->kind == REGISTRY_COLLECTOR);
        (void) snprintf(why, 256, "out of memory");
        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        c->options = *o;
        r = registry_known_init(&c->told, e, events, userdata);
        if (r >= 0)
                r = add_timer(c, "registry-next", on_next, &c->next);
        if (r >= 0)
                r = add_timer(c, "registry-lease", on_claim, &c->claim);
        if (r >= 0 && o->kind == REGISTRY_COLLECTOR)
                r = open_all(c, why);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

struct registry *registry_free(struct registry *c) {
        if (!c)
                return NULL;
        for (size_t i = 0; i < CONFIG_URLS_MAX; i++) {
                (void) exchange_free(c->connections[i].sync);
                (void) exchange_free(c->connections[i].post);
        }
        c->next = sd_event_source_disable_unref(c->next);
        c->claim = sd_event_source_disable_unref(c->claim);
        json_decref(c->member);
        json_decref(c->figures);
        registry_known_clear(&c->told);
        free(c);
        return NULL;
}
