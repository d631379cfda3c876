/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include "inside.h"
#include "log.h"

#define RETRY          USEC_PER_SEC /* after a commit that failed */
#define DECISION_SHARE 4 /* at most a fifth of the time is spent on decisions, when there is always one */

void registry_arm(struct registry *r) {
        usec_t next = MIN(r->gang_at, sessions_next(&r->sessions));
        int x;

        if (r->undecided)
                next = MIN(next, r->decide_at);
        if (next == USEC_INFINITY) {
                (void) sd_event_source_set_enabled(r->timer, SD_EVENT_OFF);
                return;
        }
        x = sd_event_source_set_time(r->timer, next);
        if (x >= 0)
                x = sd_event_source_set_enabled(r->timer, SD_EVENT_ONESHOT);
        if (x < 0)
                (void) log_warning_errno(x, "registry: timer: %m");
}

/* --- Decided, kept, told ------------------------------------------------------------------------------ */

static void on_changed(const char *key, const json_t *value, bool durable, void *userdata) {
        struct registry *r = userdata;
        /* Shared with the planner, which never alters a value that it gave out. */
        json_t *v = value ? json_incref((json_t *) (uintptr_t) value) : json_null();

        (void) durable; /* all are kept */
        if (json_object_set_new(r->pending, key, v) < 0)
                log_error("registry: out of memory: %s is told later", key);
}

static int write_record(struct registry *r, const char *key, const json_t *value) {
        _cleanup_free_ char *text = json_is_null(value) ? NULL : json_dumps(value, JSON_COMPACT);

        if (!json_is_null(value) && !text)
                return -ENOMEM;
        return store_put_registry(r->o.store, key, text);
}

static int write_pending(struct registry *r, bool *ret_events) {
        usec_t now = clock_real(r->o.clock);
        const char *key;
        json_t *v;
        int x;

        x = store_begin(r->o.store);
        json_object_foreach (r->pending, key, v) {
                const struct record *old = records_find(&r->records, key);

                if (x >= 0)
                        x = write_record(r, key, v);
                if (x >= 0)
                        x = story_tell(r->o.store, r->o.host, key, old ? old->value : NULL,
                                       json_is_null(v) ? NULL : v, now, ret_events);
        }
        return x < 0 ? x : store_commit(r->o.store);
}

/* What hosts are never sent need not be remembered. */
static bool is_told(const char *key) {
        return !startswith(key, "slot/") && !startswith(key, "intent/");
}

static void publish(struct registry *r) {
        uint64_t revision = r->records.revision + 1;
        const char *key;
        json_t *v;

        json_object_foreach (r->pending, key, v) {
                const struct record *old = records_find(&r->records, key);
                json_t *value = json_is_null(v) ? NULL : v;
                bool urgent = record_is_urgent(key, old ? old->value : NULL, value);

                if (r->o.published)
                        r->o.published(key, value, r->o.userdata);
                if (is_told(key) && records_put(&r->records, key, json_incref(value), urgent, revision) < 0)
                        log_error("registry: out of memory: hosts are not told of %s", key);
        }
        (void) json_object_clear(r->pending);
}

static int commit(struct registry *r) {
        bool events = false;
        int x;

        if (json_object_size(r->pending) == 0)
                return 0;
        x = write_pending(r, &events);
        if (x < 0) {
                char text[256];

                (void) snprintf(text, sizeof(text), "%.250s",
                                x == -ENOMEM ? "out of memory" : store_error(r->o.store));
                store_rollback(r->o.store);
                if (!r->failing)
                        log_error("registry: cannot store what is decided, nobody is told of it before: %s",
                                  text);
                r->failing = true;
                r->counters.failed_commits++;
                r->o.failed(x, r->o.userdata);
                return x;
        }
        if (r->failing)
                log_notice("registry: what is decided is stored again");
        r->failing = false;
        r->counters.commits++;
        publish(r);
        if (events)
                r->o.events(r->o.userdata);
        return 0;
}

/* --- Those who wait -------------------------------------------------------------------------------------- */

static struct registry_body *out_of_memory(void) {
        return body_printf("{\"error\":\"out of memory\",\"remedy\":\"try again\"}");
}

static void answer(struct registry *r, struct session *s) {
        const struct reader w = { .slice = s->slice, .host = s->host, .since = s->since, .whole = s->whole };
        void *call = sessions_take_call(&r->sessions, s);
        struct registry_body *b = answers_make(&r->answers, r->gang, &r->records, &w);

        r->counters.answers++;
        r->counters.answered_bytes += b ? b->len : 0;
        r->o.answer(call, b ? 200 : 503, b ? b : out_of_memory(), r->o.userdata);
}

/* All for whom there is something to be told at once, and those who waited for the decision. */
static void answer_due(struct registry *r) {
        for (struct session *s = r->sessions.first, *next; s; s = next) {
                const struct reader w = {
                        .slice = s->slice, .host = s->host, .since = s->since, .whole = s->whole
                };

                next = s->later;
                if (s->call && (s->fresh || answers_is_due(&r->answers, r->gang, &r->records, &w)))
                        answer(r, s);
        }
}

static int decide(struct registry *r) {
        usec_t began = registry_boot_now(r), now = clock_real(r->o.clock), next;
        int x;

        r->undecided = false;
        next = gang_step(r->gang, now, on_changed, r);
        x = commit(r);
        r->gang_at = x < 0                   ? began + RETRY
                     : next == USEC_INFINITY ? USEC_INFINITY
                                             : began + (next > now ? next - now : 0);
        if (x >= 0)
                answer_due(r);
        r->cost = registry_boot_now(r) - began;
        r->counters.decisions++;
        r->counters.decided += r->cost;
        return x;
}

void registry_decide_soon(struct registry *r) {
        if (r->undecided)
                return;
        r->undecided = true;
        r->decide_at = registry_boot_now(r) + MAX(REGISTRY_TOGETHER, MIN(DECISION_SHARE * r->cost, USEC_PER_SEC));
}

/* --- Leases ------------------------------------------------------------------------------------------------ */

void registry_drop(struct registry *r, struct session *s, bool shut_down) {
        void *call = sessions_take_call(&r->sessions, s);

        if (call)
                r->o.answer(call, 200, registry_tell_again(r), r->o.userdata);
        (void) gang_gone(r->gang, s->slice, s->worker, s->incarnation, shut_down,
                         shut_down ? "it was shut down" : "its lease ended",
                         clock_real(r->o.clock)); /* or it is another's */
        sessions_drop(&r->sessions, s);
        registry_decide_soon(r);
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct registry *r = userdata;
        usec_t now = registry_boot_now(r);
        struct session *s;

        (void) source;
        (void) at;
        while ((s = sessions_due(&r->sessions, now)))
                if (!s->fresh || !r->failing)
                        answer(r, s);
                else { /* it is told nothing that is not on the disk */
                        void *call = sessions_take_call(&r->sessions, s);

                        r->o.answer(
                                call, 503,
                                body_printf(
                                        "{\"error\":\"the database does not take it\",\"remedy\":\"see the "
                                        "journal of tpu-collectord\"}"),
                                r->o.userdata);
                }
        while (r->sessions.first && r->sessions.first->expires <= now) {
                r->counters.expired++;
                registry_drop(r, r->sessions.first, false);
        }
        if ((r->undecided && r->decide_at <= now) || r->gang_at <= now)
                (void) decide(r); /* tried again by the timer */
        registry_arm(r);
        return 0;
}

/* --- People --------------------------------------------------------------------------------------------------- */

int registry_want(struct registry *r, const char *key, const json_t *value, char why[static GANG_WHY_MAX]) {
        int x;

        x = gang_want(r->gang, key, value, clock_real(r->o.clock), why);
        if (x < 0)
                return x;
        x = decide(r);
        registry_arm(r);
        if (x < 0)
                (void) snprintf(why, GANG_WHY_MAX,
                                "it is taken, but not stored yet: the database does not take it");
        return x < 0 ? -EIO : 0;
}

int registry_release(struct registry *r, const char *slice, unsigned worker, char why[static GANG_WHY_MAX]) {
        int x;

        x = gang_release(r->gang, slice, worker, why);
        if (x < 0)
                return x;
        x = decide(r);
        registry_arm(r);
        if (x < 0)
                (void) snprintf(why, GANG_WHY_MAX,
                                "it is taken, but not stored yet: the database does not take it");
        return x < 0 ? -EIO : 0;
}

const struct gang *registry_gang(const struct registry *r) {
        return r->gang;
}

unsigned registry_members(const struct registry *r) {
        return r->sessions.n;
}

const struct registry_counters *registry_counters(const struct registry *r) {
        return &r->counters;
}

static void add_pending(const char *key, const json_t *value, void *userdata) {
        on_changed(key, value, true, userdata);
}

void registry_write_all(struct registry *r) {
        gang_visit(r->gang, "", add_pending, r);
        registry_decide_soon(r);
        registry_arm(r);
}

/* --- Life -------------------------------------------------------------------------------------------------------- */

static int on_kept(const char *key, const char *value, void *userdata) {
        struct registry *r = userdata;
        char why[GANG_WHY_MAX] = "it is no JSON";
        json_t *v = json_loads(value, JSON_DECODE_ANY, NULL);
        int x;

        x = v ? gang_load(r->gang, key, v, clock_real(r->o.clock), why) : -EBADMSG;
        if (x == -EBADMSG) {
                log_error("registry: a record is left out: %s: %s", key, why);
                x = 0;
        } else if (x >= 0 && is_told(key))
                x = records_put(&r->records, key, json_incref(v), true, 1);
        json_decref(v);
        return x;
}

static int prepare(struct registry *r) {
        struct gang_options o = gang_default_options;
        uint64_t random;
        int x;

        o.lease = r->o.lease;
        if (getrandom(&random, sizeof(random), 0) != (ssize_t) sizeof(random))
                return -errno;
        r->answers.lease = registry_lease_seconds(r);
        (void) snprintf(r->answers.epoch, sizeof(r->answers.epoch), "%016" PRIx64, random);
        r->pending = json_object();
        x = r->pending ? gang_new(&o, &r->gang) : -ENOMEM;
        if (x >= 0)
                x = records_init(&r->records);
        if (x >= 0)
                x = store_list_registry(r->o.store, on_kept, r);
        if (x >= 0)
                x = sd_event_add_time(r->o.event, &r->timer, CLOCK_BOOTTIME, 0, USEC_PER_MSEC, on_timer, r);
        if (x >= 0)
                x = sd_event_source_set_description(r->timer, "registry");
        return x < 0 ? x : 0;
}

int registry_new(const struct registry_options *o, struct registry **ret) {
        _cleanup_(registry_freep) struct registry *r = calloc(1, sizeof(*r));
        int x;

        if (!r)
                return -ENOMEM;
        r->o = *o;
        r->sessions.turned = registry_boot_now(r) / WHEEL_SLOT * WHEEL_SLOT;
        x = prepare(r);
        if (x < 0)
                return x;
        registry_decide_soon(r);
        registry_arm(r);
        *ret = TAKE_PTR(r);
        return 0;
}

struct registry *registry_free(struct registry *r) {
        if (!r)
                return NULL;
        while (r->sessions.first) {
                void *call = sessions_take_call(&r->sessions, r->sessions.first);

                if (call)
                        r->o.answer(call, 503,
                                    body_printf(
                                            "{\"error\":\"the collector stops\",\"remedy\":\"try again\"}"),
                                    r->o.userdata);
                sessions_drop(&r->sessions, r->sessions.first);
        }
        (void) sd_event_source_unref(r->timer);
        answers_clear(&r->answers);
        records_clear(&r->records);
        json_decref(r->pending);
        gang_free(r->gang);
        free(r);
        return NULL;
}
