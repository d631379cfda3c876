/* SPDX-License-Identifier: Apache-2.0 */
/* What agents ask and say: one request that says, renews the lease and waits for news. */
#include "inside.h"
#include "json_text.h"
#include "utf8.h"

#define REQUEST_MAX (256 * 1024)
#define SHOWN_MAX   64 /* of what came, in a reason: it may be cut inside a character */

static unsigned refuse_sync(struct registry *r, unsigned status, const char *why,
                            struct registry_body **ret) {
        r->counters.refused++;
        *ret = body_error(why, "see /usr/share/doc/tpu-collector/registry.md");
        return status;
}

static unsigned ask_for_member(const struct registry *r, struct registry_body **ret) {
        *ret = answers_without(&r->answers, true, json_null());
        return 200;
}

static unsigned answer_conflict(struct registry *r, const json_t *member, struct registry_body **ret) {
        const char *slice = json_string_value(json_object_get(member, "slice"));
        json_int_t worker = json_integer_value(json_object_get(member, "worker"));
        char key[GANG_KEY_MAX];
        const json_t *slot;

        (void) snprintf(key, sizeof(key), "slot/%.63s/%lld", slice, (long long) worker);
        slot = gang_record(r->gang, key);
        *ret = answers_without(&r->answers, false,
                               json_pack("{s:O?, s:O?, s:O?, s:I}", "holder", json_object_get(slot, "host"),
                                         "id", json_object_get(slot, "id"), "address",
                                         json_object_get(slot, "address"), "since",
                                         (json_int_t) registry_now(r)));
        return *ret ? 200 : 503;
}

struct request {
        const json_t *member, *figures; /* figures: NULL: none are said */
        const char *tenant;
        char slice[GANG_SLICE_MAX];
        unsigned worker;
        const char *incarnation;
        uint64_t since, said;
        bool whole, leaves;
        usec_t wait;
};

/* "EPOCH.REVISION" of ours; anything else is of another life: everything is sent. */
static void parse_since(const struct registry *r, const char *text, struct request *q) {
        size_t n = strlen(r->answers.epoch);
        char *end;

        q->whole = true;
        if (!text || strncmp(text, r->answers.epoch, n) != 0 || text[n] != '.' || text[n + 1] < '0' ||
            text[n + 1] > '9')
                return;
        q->since = strtoull(text + n + 1, &end, 10);
        q->whole = *end || q->since > r->records.revision;
}

static int parse_request(const struct registry *r, const json_t *v, struct request *ret) {
        struct request q = { .member = json_object_get(v, "member"),
                             .figures = json_object_get(v, "figures"),
                             .tenant = json_string_value(json_object_get(v, "tenant")),
                             .leaves = json_is_true(json_object_get(v, "leave")) };
        const char *same = json_string_value(json_object_get(v, "same"));
        const json_t *wait = json_object_get(v, "wait");

        if ((q.figures && !json_is_array(q.figures)) || json_array_size(q.figures) > REGISTRY_FIGURES_MAX)
                return -EBADMSG;
        if (json_integer_value(json_object_get(v, "v")) < 1 || (wait && !json_is_integer(wait)) ||
            (!same && !json_is_object(q.member)))
                return -EBADMSG;
        q.incarnation = json_string_value(json_object_get(v, "incarnation"));
        q.said = json_number_of(v, "said");
        if (same && (gang_slot_parse(same, q.slice, &q.worker) < 0 || !q.incarnation))
                return -EBADMSG;
        if (same)
                q.member = NULL;
        q.wait = MIN((usec_t) MAX(json_integer_value(wait), 0) * USEC_PER_SEC, registry_wait_max(r));
        parse_since(r, json_string_value(json_object_get(v, "since")), &q);
        *ret = q;
        return 0;
}

/* Spread, so that those who came together do not come together again. */
static usec_t spread_wait(const struct session *s, usec_t wait) {
        uint32_t h = (uint32_t) (s->expires ^ (s->worker * 2654435761U));

        h = (h ^ h >> 16) * 0x45d9f3bU;
        return wait - wait / 4 * ((h ^ h >> 16) % 1024) / 1024;
}

/* Its lease is renewed, and the call is kept or answered. */
static unsigned keep_call(struct registry *r, struct session *s, const struct request *q, bool fresh,
                          void *call, struct registry_body **ret) {
        const struct reader w = { .slice = s->slice, .host = s->host, .since = q->since, .whole = q->whole };
        void *old = sessions_take_call(&r->sessions, s);

        if (old) /* its connection is gone, most likely */
                r->o.answer(old, 200, answers_without(&r->answers, true, json_null()), r->o.userdata);
        sessions_renew(&r->sessions, s, registry_boot_now(r) + r->o.lease);
        s->heard = registry_boot_now(r);
        hosts_take_figures(r, s, q->figures);
        s->since = q->since;
        s->whole = q->whole;
        if (!fresh && answers_is_due(&r->answers, r->gang, &r->records, &w)) {
                *ret = answers_make(&r->answers, r->gang, &r->records, &w);
                r->counters.answers++;
                r->counters.answered_bytes += *ret ? (*ret)->len : 0;
                return *ret ? 200 : 503;
        }
        s->fresh = fresh ? r->decided + 1 : 0;
        sessions_wait(&r->sessions, s, call, registry_boot_now(r),
                      (fresh ? registry_wait_max(r) : spread_wait(s, q->wait)));
        registry_arm(r);
        return 0;
}

static unsigned sync_same(struct registry *r, const struct request *q, void *call,
                          struct registry_body **ret) {
        struct session *s = sessions_find(&r->sessions, q->slice, q->worker);

        if (!s || !streq(s->incarnation, q->incarnation))
                return ask_for_member(r, ret);
        if (!gang_is_live(r->gang, q->slice, q->worker, q->incarnation)) {
                registry_drop(r, s, false); /* its host is another worker now */
                registry_arm(r);
                return ask_for_member(r, ret);
        }
        if (q->leaves) {
                registry_drop(r, s, true);
                registry_arm(r);
                return ask_for_member(r, ret);
        }
        if (q->said > 0 && s->said != q->said) /* what it said last was lost, or overtaken */
                return ask_for_member(r, ret);
        return keep_call(r, s, q, false, call, ret);
}

/* Of a connection that was given up for the one that a later word came by. */
static bool is_overtaken(const struct registry *r, const struct request *q) {
        const struct session *s =
                sessions_find(&r->sessions, json_string_value(json_object_get(q->member, "slice")),
                              (unsigned) json_integer_value(json_object_get(q->member, "worker")));
        const char *incarnation = json_string_value(json_object_get(q->member, "incarnation"));

        return s && incarnation && streq(s->incarnation, incarnation) && q->said > 0 && q->said < s->said;
}

/* 1: it is new; 0; -ENOMEM. */
static int find_session(struct registry *r, const json_t *member, struct session **ret) {
        const char *slice = json_string_value(json_object_get(member, "slice"));
        unsigned worker = (unsigned) json_integer_value(json_object_get(member, "worker"));
        bool is_new;

        *ret = sessions_find(&r->sessions, slice, worker);
        is_new = !*ret;
        if (is_new && sessions_add(&r->sessions, slice, worker, ret) < 0)
                return -ENOMEM;
        (void) snprintf((*ret)->host, sizeof((*ret)->host), "%s",
                        json_string_value(json_object_get(member, "host")));
        (void) snprintf((*ret)->incarnation, sizeof((*ret)->incarnation), "%s",
                        json_string_value(json_object_get(member, "incarnation")));
        return is_new;
}

static unsigned sync_member(struct registry *r, const struct request *q, void *call,
                            struct registry_body **ret) {
        char why[GANG_WHY_MAX];
        struct session *s;
        int x;

        if (json_string_value(json_object_get(q->member, "slice")) && is_overtaken(r, q))
                return ask_for_member(r, ret);
        x = gang_say(r->gang, q->member, registry_now(r), why);
        if (x == -EEXIST) {
                registry_decide_soon(r);
                registry_arm(r);
                return answer_conflict(r, q->member, ret);
        }
        if (x == -EBADMSG)
                return refuse_sync(r, 400, why, ret);
        if (x < 0)
                return refuse_sync(r, 503, x == -ENOMEM ? "out of memory" : why, ret);
        x = find_session(r, q->member, &s);
        if (x < 0)
                return refuse_sync(r, 503, "out of memory", ret);
        s->said = q->said;
        if (x > 0)
                s->joined = registry_boot_now(r);
        hosts_take_member(s, q->member);
        registry_decide_soon(r);
        return keep_call(r, s, q, x > 0 || q->whole, call, ret);
}

/* A slice, and so a run, never spans two tenants: a host that came to the wrong one is refused. */
static unsigned refuse_tenant(struct registry *r, const char *tenant, struct registry_body **ret) {
        char why[200], shown[SHOWN_MAX];

        utf8_copy_line(shown, sizeof(shown), tenant);
        (void) snprintf(why, sizeof(why),
                        "this collector serves the tenant \"%.64s\", and the host is of \"%s\"",
                        r->o.tenant, shown);
        return refuse_sync(r, 404, why, ret);
}

/* What the planner learns from here and nobody says of himself: whether the name is proved, and whether the
 * site gives the slot. */
static bool note_proof(const struct registry *r, json_t *v, const struct registry_speaker *who) {
        json_t *member = json_object_get(v, "member");

        return !member || (json_object_set_new(member, "proved", json_boolean(who->host)) == 0 &&
                           json_object_set_new(member, "given", json_boolean(r->o.gives)) == 0);
}

/* A machine that says no VM's id, for it has not heard its own yet, is not another. */
static bool is_another_machine(const char *instance, const char *id) {
        return instance && *instance && *id && strspn(id, "0123456789") == strlen(id) &&
               !streq(id, instance);
}

/* Whether it speaks for the host that it is, in a slot that may be this host's; else why. */
static bool may_say(const struct registry *r, const struct request *q, struct registry_speaker *who) {
        const struct session *s = q->member ? NULL : sessions_find(&r->sessions, q->slice, q->worker);
        const json_t *m = q->member, *worker = json_object_get(m, "worker");
        const char *host = m ? json_text_of(m, "host") : s ? s->host : "",
                   *slice = m ? json_text_of(m, "slice") : q->slice;
        json_int_t number = m ? json_integer_value(worker) : (json_int_t) q->worker;
        char shown[SHOWN_MAX];

        if (who->host && *host && !streq(host, who->host)) {
                utf8_copy_line(shown, sizeof(shown), host);
                (void) snprintf(who->why, sizeof(who->why),
                                "this caller is host %.63s, and it speaks for host %s (HostFrom=)",
                                who->host, shown);
                return false;
        }
        if (is_another_machine(who->instance, json_text_of(m, "id"))) {
                (void) snprintf(who->why, sizeof(who->why),
                                "this instance token is the VM %.24s's, and it speaks for the machine %.40s",
                                who->instance, json_text_of(m, "id"));
                return false;
        }
        if (!r->o.gives || !*host || !*slice || number < 0 || number >= GANG_HOSTS_MAX)
                return true; /* which is another error, or of nobody known yet */
        return r->o.gives(slice, (unsigned) number, host, who->why, r->o.userdata);
}

unsigned registry_sync(struct registry *r, struct registry_speaker *who, const char *body, size_t len,
                       void *call, struct registry_body **ret_body) {
        struct request q;
        json_auto_t *v = NULL;

        r->counters.syncs++;
        *ret_body = NULL;
        if (!registry_leads(r))
                return registry_elsewhere(r, ret_body);
        if (len > REQUEST_MAX)
                return refuse_sync(r, 413, "a member is at most 256 KiB", ret_body);
        v = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
        if (!v || parse_request(r, v, &q) < 0)
                return refuse_sync(r, 400, "the body is no sync request of version 1", ret_body);
        if (!streq(q.tenant ? q.tenant : REGISTRY_TENANT, r->o.tenant))
                return refuse_tenant(r, q.tenant ? q.tenant : REGISTRY_TENANT, ret_body);
        if (!note_proof(r, v, who))
                return refuse_sync(r, 503, "out of memory", ret_body);
        if (!may_say(r, &q, who))
                return refuse_sync(r, 403, who->why, ret_body);
        return q.member ? sync_member(r, &q, call, ret_body) : sync_same(r, &q, call, ret_body);
}
