/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "inside.h"
#include "log.h"

#define RETRY          USEC_PER_SEC /* after a batch that was not written */
#define SLICE_KEY      "slice/"
#define DECISION_SHARE 4 /* at most a fifth of the time is spent on decisions, when there is always one */

/* --- Decided, stored, published ---------------------------------------------------------------------- */

static int add_pending(struct registry *r, const char *key, const json_t *value) {
        /* Shared with the planner, which never alters a value that it gave out. */
        json_t *v = value ? json_incref((json_t *) (uintptr_t) value) : json_null();

        return json_object_set_new(r->pending, key, v) < 0 ? -ENOMEM : 0;
}

static void on_changed(const char *key, const json_t *value, void *userdata) {
        if (add_pending(userdata, key, value) < 0)
                log_error("registry: out of memory: %s is published later", key);
}

int registry_store_story(void *userdata) {
        struct registry *r = userdata;
        usec_t now = clock_real(r->o.clock);
        const char *key;
        json_t *v;
        int x = 0;

        r->events = false;
        json_object_foreach (r->sending, key, v)
                if (x >= 0)
                        x = story_store(r->o.store, key, json_object_get(r->kept, key),
                                        json_is_null(v) ? NULL : v, now, &r->events);
        return x;
}

/* The records are written elsewhere already: events that cannot be stored here are lost, the records are
 * not. */
static void store_story_alone(struct registry *r) {
        int x = store_begin(r->o.store);
        char why[STORE_WHY_MAX];

        if (x >= 0)
                x = registry_store_story(r);
        x = store_finish(r->o.store, x, why);
        if (x >= 0)
                return;
        log_error("registry: events are lost: database: %.200s", why);
        r->events = false;
        r->o.failed(x, r->o.userdata);
}

bool registry_is_published(const char *key) {
        return !startswith(key, "slot/") && !startswith(key, "intent/") && !startswith(key, REGISTRY_OWN);
}

static void publish_written(struct registry *r) {
        uint64_t revision = r->records.revision + 1;
        const char *key;
        json_t *v;

        json_object_foreach (r->sending, key, v) {
                json_t *value = json_is_null(v) ? NULL : v;
                bool urgent = record_is_urgent(key, json_object_get(r->kept, key), value);

                if (r->o.published)
                        r->o.published(key, value, r->o.userdata);
                if (registry_is_published(key) &&
                    records_put(&r->records, key, json_incref(value), urgent, revision) < 0)
                        log_error("registry: out of memory: %s is not sent to hosts", key);
                if (!value && startswith(key, SLICE_KEY))
                        answers_forget(&r->answers, key + strlen(SLICE_KEY));
                if (!value)
                        (void) json_object_del(r->kept, key); /* or it never was there */
                else if (json_object_set(r->kept, key, value) < 0)
                        log_error("registry: out of memory: %s is not published", key);
        }
}

static void on_not_written(struct registry *r, int error) {
        assert(r->sending);
        /*
         * What was decided since stands in front of what is not written. Out of memory: it is written with
         * its next change.
         */
        (void) json_object_update_missing(r->pending, r->sending);
        json_decref(TAKE_PTR(r->sending));
        if (!r->failing)
                log_error("registry: cannot store what is decided, and it is not published before: %s",
                          r->control->why);
        r->failing = true;
        r->counters.failed_commits++;
        r->gang_at = registry_boot_now(r) + RETRY;
        if (r->control->ops->takes_along)
                r->o.failed(error, r->o.userdata);
        registry_call_waiters(r, -EIO);
}

static void on_written(struct registry *r) {
        assert(r->sending && r->covers <= r->decided);
        if (!r->control->ops->takes_along)
                store_story_alone(r);
        if (r->failing)
                log_notice("registry: what is decided is stored again");
        r->failing = false;
        publish_written(r);
        json_decref(TAKE_PTR(r->sending));
        assert(r->stored <= r->covers);
        r->stored = r->covers;
        if (r->events)
                r->o.events(r->o.userdata);
}

/* What is pending is sent, unless a batch is in progress. */
static int commit_pending(struct registry *r) {
        json_t *fresh;
        int x;

        if (r->sending)
                return 0;
        if (json_object_size(r->pending) == 0) {
                r->stored = r->decided;
                return 0;
        }
        if (!registry_leads(r))
                return -EAGAIN;
        fresh = json_object();
        if (!fresh)
                return -ENOMEM; /* what is pending stays so */
        assert(r->gang); /* who leads not writes nothing */
        r->sending = r->pending;
        r->pending = fresh;
        r->covers = r->decided;
        x = r->control->ops->write(r->control, r->sending);
        if (x == 0)
                on_written(r);
        else if (x < 0)
                on_not_written(r, x);
        return x < 0 ? x : 0;
}

/* --- Those who wait -------------------------------------------------------------------------------- */

/* False: this collector leads no more, and nobody waits. */
static bool answer_session(struct registry *r, struct session *s) {
        const struct reader w = { .slice = s->slice, .host = s->host, .since = s->since, .whole = s->whole };
        struct registry_body *b;
        void *call;

        if (!registry_leads(r))
                return false;
        b = answers_make(&r->answers, r->gang, &r->records, &w);
        call = sessions_take_call(&r->sessions, s);
        r->counters.answers++;
        r->counters.answered_bytes += b ? b->len : 0;
        r->o.answer(call, b ? 200 : 503, b ? b : body_error("out of memory", "try again"), r->o.userdata);
        return true;
}

/* All for whom there is something to be sent at once, and those who waited for a decision that is stored. */
static void answer_due(struct registry *r) {
        for (struct session *s = r->sessions.first, *next; s; s = next) {
                const struct reader w = {
                        .slice = s->slice, .host = s->host, .since = s->since, .whole = s->whole
                };

                next = s->later;
                if (!s->call || s->fresh > r->stored)
                        continue;
                if ((s->fresh > 0 || answers_is_due(&r->answers, r->gang, &r->records, &w)) &&
                    !answer_session(r, s))
                        return;
        }
}

void registry_wrote(int error, void *userdata) {
        struct registry *r = userdata;

        if (!registry_leads(r) || !r->sending)
                return;
        if (error < 0)
                on_not_written(r, error);
        else {
                on_written(r);
                (void) commit_pending(r); /* what was decided meanwhile; tried again by the timer */
                registry_call_waiters(r, 0);
                answer_due(r);
        }
        registry_arm(r);
}

/* The collector's own previous records, when its owner is complete. */
static void publish_loaded(struct registry *r) {
        json_auto_t *own = r->own_loaded ? json_copy(r->kept) : NULL; /* published() may keep others */
        json_t *v;
        const char *key;

        r->own_loaded = false;
        json_object_foreach (own, key, v)
                if (r->o.published && startswith(key, REGISTRY_OWN))
                        r->o.published(key, v, r->o.userdata);
}

static int decide_now(struct registry *r) {
        usec_t began = registry_boot_now(r), now = registry_now(r), next;
        int x;

        if (!registry_leads(r))
                return -EAGAIN;
        r->undecided = false;
        publish_loaded(r);
        if (r->o.suspects)
                gang_suspect(r->gang, r->o.suspects(r->o.userdata));
        next = gang_step(r->gang, now, on_changed, r);
        r->decided++;
        r->gang_at = next == USEC_INFINITY ? USEC_INFINITY : began + (next > now ? next - now : 0);
        x = commit_pending(r);
        if (x < 0)
                r->gang_at = began + RETRY;
        if (x >= 0) {
                registry_call_waiters(r, 0);
                answer_due(r);
        }
        r->cost = registry_boot_now(r) - began;
        r->counters.decisions++;
        r->counters.decided += r->cost;
        return r->gang ? x : -EAGAIN; /* the lead may have been lost while hosts were answered */
}

void registry_decide_soon(struct registry *r) {
        if (r->undecided)
                return;
        r->undecided = true;
        r->decide_at = registry_boot_now(r) +
                       MAX(REGISTRY_TOGETHER, MIN(DECISION_SHARE * r->cost, USEC_PER_SEC));
}

/* --- Leases ---------------------------------------------------------------------------------------- */

void registry_drop(struct registry *r, struct session *s, bool shut_down) {
        void *call = sessions_take_call(&r->sessions, s);
        char key[GANG_KEY_MAX];

        if (call)
                r->o.answer(call, 200, answers_without(&r->answers, true, json_null()), r->o.userdata);
        (void) gang_gone(r->gang, s->slice, s->worker, s->incarnation, shut_down,
                         shut_down ? "it was shut down" : "its lease ended",
                         registry_now(r)); /* or it is another's */
        (void) snprintf(key, sizeof(key), SLICE_KEY "%s", s->slice);
        if (!gang_record(r->gang, key)) /* it asked after its slice was gone */
                answers_forget(&r->answers, s->slice);
        sessions_drop(&r->sessions, s);
        registry_decide_soon(r);
}

static void refuse_fresh(struct registry *r, struct session *s) {
        void *call = sessions_take_call(&r->sessions, s);

        r->o.answer(call, 503,
                    body_error("it is not in the store yet: the collector is busy, or its store says no",
                               "try again; the journal of tpu-collectord says why"),
                    r->o.userdata);
}

int registry_on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct registry *r = userdata;
        usec_t now = registry_boot_now(r);
        struct session *s;

        (void) source;
        (void) at;
        if (!registry_leads(r))
                return 0;
        while ((s = sessions_due(&r->sessions, now)))
                if (s->fresh > r->stored) /* it is sent nothing that is not stored */
                        refuse_fresh(r, s);
                else if (!answer_session(r, s))
                        return 0;
        while (r->sessions.first && r->sessions.first->expires <= now) {
                r->counters.expired++;
                registry_drop(r, r->sessions.first, false);
        }
        if ((r->undecided && r->decide_at <= now) || r->gang_at <= now)
                (void) decide_now(r); /* tried again by the timer */
        registry_arm(r);
        return 0;
}

/* --- People ---------------------------------------------------------------------------------------- */

static int decide_for_people(struct registry *r, char why[static GANG_WHY_MAX]) {
        int x = decide_now(r);

        registry_arm(r);
        if (x == -EAGAIN)
                (void) snprintf(why, GANG_WHY_MAX, "this collector does not lead any more");
        else if (x < 0)
                (void) snprintf(why, GANG_WHY_MAX, "it is taken, but not stored yet: %s", r->control->why);
        return x == -EAGAIN ? x : x < 0 ? -EIO : 0;
}

int registry_want(struct registry *r, const char *key, const json_t *value, char why[static GANG_WHY_MAX]) {
        int x = registry_leads(r) ? gang_want(r->gang, key, value, registry_now(r), why) : 0;

        return x < 0 ? x : decide_for_people(r, why);
}

int registry_release(struct registry *r, const char *slice, unsigned worker, char why[static GANG_WHY_MAX]) {
        int x = registry_leads(r) ? gang_release(r->gang, slice, worker, why) : 0;

        return x < 0 ? x : decide_for_people(r, why);
}

int registry_keep(struct registry *r, const char *key, const json_t *value) {
        size_t size = value ? json_dumpb(value, NULL, 0, JSON_COMPACT) : 0;
        int x;

        if (!startswith(key, REGISTRY_OWN) || !key[strlen(REGISTRY_OWN)] || strlen(key) >= GANG_KEY_MAX)
                return -EINVAL;
        if (size > REGISTRY_KEPT_MAX)
                return -E2BIG;
        /* It may be inside of published(): nothing is forgotten here. */
        if (!r->gang || !r->control->ops->leads(r->control))
                return -EAGAIN;
        x = add_pending(r, key, value);
        if (x < 0)
                return x;
        registry_decide_soon(r);
        registry_arm(r);
        return 0;
}

bool registry_is_stored(const struct registry *r) {
        return r->stored == r->decided; /* the collector's own records may not be stored yet */
}

int registry_when_stored(struct registry *r, void (*done)(int error, void *userdata), void *userdata) {
        struct waiter *w;

        if (!r->gang)
                return -EAGAIN;
        w = malloc(sizeof(*w));
        if (!w)
                return -ENOMEM;
        *w = (struct waiter){
                .next = r->waiters, .decision = r->decided, .done = done, .userdata = userdata
        };
        r->waiters = w;
        return 0;
}

const struct gang *registry_gang(const struct registry *r) {
        return r->gang;
}

const json_t *registry_record(const struct registry *r, const char *key) {
        return json_object_get(r->kept, key);
}

void registry_visit(const struct registry *r, const char *prefix,
                    void (*visit)(const char *key, const json_t *value, void *userdata), void *userdata) {
        const char *key;
        json_t *v;

        json_object_foreach (r->kept, key, v)
                if (startswith(key, prefix))
                        visit(key, v, userdata);
}

unsigned registry_members(const struct registry *r) {
        return r->sessions.n;
}

const struct registry_counters *registry_counters(const struct registry *r) {
        return &r->counters;
}

void registry_write_all(struct registry *r) {
        const char *key;
        json_t *v;

        if (!r->gang || !r->control->ops->takes_along)
                return;
        json_object_foreach (r->kept, key, v)
                if (!json_object_get(r->pending, key) && add_pending(r, key, v) < 0)
                        log_error("registry: out of memory: %s is stored with its next change", key);
        registry_decide_soon(r);
        registry_arm(r);
}
