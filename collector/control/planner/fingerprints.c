/* SPDX-License-Identifier: Apache-2.0 */
#include "fnv.h"
#include "state.h"

#define PARTS_MAX 64

static struct gang_fingerprint **bucket_of_fingerprint(struct gang *g, const struct fingerprint_key *key) {
        return &g->fingerprints[fnv(FNV_BEGIN, key, sizeof(*key)) % ELEMENTSOF(g->fingerprints)];
}

static int check_parts(json_t *parts, char why[static GANG_WHY_MAX]) {
        const char *key;
        json_t *value;

        if (!parts)
                return -ENOMEM;
        if (!json_is_object(parts) || json_object_size(parts) > PARTS_MAX)
                return why_fail(why, -EBADMSG,
                                "\"parts\" of the fingerprint is no object of at most %d texts", PARTS_MAX);
        json_object_foreach (parts, key, value) {
                if (json_is_string(value) && json_string_length(value) < TEXT_MAX && strlen(key) < 64)
                        continue;
                return why_fail(why, -EBADMSG,
                                "part \"%.64s\" of the fingerprint is no text of less than %d bytes", key,
                                TEXT_MAX);
        }
        return 0;
}

int gang_fingerprint_take(struct gang *g, const json_t *member, struct gang_fingerprint **ret,
                          char why[static GANG_WHY_MAX]) {
        const json_t *fingerprint = json_object_get(member, "fingerprint");
        json_auto_t *parts = json_incref(json_object_get(fingerprint, "parts")) ?: json_object();
        const char *digest, *accelerator, *topology;
        struct gang_fingerprint **at, *p;
        struct fingerprint_key key = { .digest = "" };

        if (get_text(fingerprint, "digest", sizeof(key.digest), &digest, why) < 0 ||
            get_text(member, "accelerator", sizeof(key.accelerator), &accelerator, why) < 0 ||
            get_text(member, "topology", sizeof(key.topology), &topology, why) < 0 ||
            check_parts(parts, why) < 0)
                return -EBADMSG;
        (void) strcpy(key.digest, digest);
        (void) strcpy(key.accelerator, accelerator);
        (void) strcpy(key.topology, topology);
        at = bucket_of_fingerprint(g, &key);
        /* The parts are the sender's own words: nobody speaks for another who has the same digest. */
        for (p = *at; p && (memcmp(&p->key, &key, sizeof(key)) != 0 || !json_equal(p->parts, parts));)
                p = p->next;
        if (!p) {
                json_auto_t *copy = json_deep_copy(parts);

                p = copy ? malloc(sizeof(*p)) : NULL;
                if (!p)
                        return -ENOMEM;
                *p = (struct gang_fingerprint){ .next = *at, .parts = json_incref(copy), .key = key };
                *at = p;
        }
        p->users++;
        *ret = p;
        return 0;
}

struct gang_fingerprint *gang_fingerprint_drop(struct gang *g, struct gang_fingerprint *p) {
        struct gang_fingerprint **at;

        if (!p || --p->users > 0)
                return NULL;
        at = bucket_of_fingerprint(g, &p->key);
        while (*at != p)
                at = &(*at)->next;
        *at = p->next;
        json_decref(p->parts);
        free(p);
        return NULL;
}

static const char *part_of(const struct gang_fingerprint *p, const char *part) {
        const char *text = json_string_value(json_object_get(p->parts, part));

        return text && *text ? text : "none";
}

/* Calls visit for every part in which both differ; a digest that no part explains is one itself. */
static int list_differences(const struct gang_fingerprint *found, const struct gang_fingerprint *others,
                            int (*visit)(const char *part, const char *found, const char *others,
                                         void *userdata),
                            void *userdata) {
        const struct fingerprint_key *a = &found->key, *b = &others->key;
        const char *part;
        json_t *value;
        int r = 0, n = 0;

        if (!streq(a->accelerator, b->accelerator) && ++n)
                r = visit("accelerator", a->accelerator, b->accelerator, userdata);
        if (r == 0 && !streq(a->topology, b->topology) && ++n)
                r = visit("topology", a->topology, b->topology, userdata);
        if (!*a->digest || !*b->digest || streq(a->digest, b->digest))
                return r;
        json_object_foreach (found->parts, part, value)
                if (r == 0 && !json_equal(value, json_object_get(others->parts, part)) && ++n)
                        r = visit(part, part_of(found, part), part_of(others, part), userdata);
        json_object_foreach (others->parts, part, value)
                if (r == 0 && !json_object_get(found->parts, part) && ++n)
                        r = visit(part, "none", part_of(others, part), userdata);
        return r == 0 && n == 0 ? visit("fingerprint", a->digest, b->digest, userdata) : r;
}

struct unlike {
        json_t *list;
        const struct slot *slot;
};

static int add_unlike(const char *part, const char *found, const char *others, void *userdata) {
        const struct unlike *u = userdata;
        json_t *entry;

        if (json_array_size(u->list) >= LIST_MAX)
                return 1;
        entry = json_pack("{s:I, s:O, s:s, s:s, s:s}", "worker", (json_int_t) u->slot->worker, "host",
                          u->slot->host, "part", part, "found", found, "others", others);
        return json_array_append_new(u->list, entry) < 0 ? -ENOMEM : 0;
}

/* What most of them have; of equals, what the lowest worker has. */
static struct gang_fingerprint *most_common(const struct slice *s) {
        struct gang_fingerprint *most = NULL;

        for (unsigned i = 0; i < s->n_slots; i++)
                if (slot_at(s, i)->fingerprint)
                        slot_at(s, i)->fingerprint->count = 0;
        for (unsigned i = 0; i < s->n_slots; i++)
                if (slot_at(s, i)->live && slot_at(s, i)->fingerprint)
                        slot_at(s, i)->fingerprint->count++;
        for (unsigned i = 0; i < s->n_slots; i++) {
                struct gang_fingerprint *p = slot_at(s, i)->live ? slot_at(s, i)->fingerprint : NULL;

                if (p && (!most || p->count > most->count))
                        most = p;
        }
        return most;
}

int slice_compare(struct slice *s) {
        struct unlike u = { .list = json_array() };
        int r = 0;

        if (!u.list)
                return -ENOMEM;
        s->fingerprint = most_common(s);
        for (unsigned i = 0; i < s->n_slots && r == 0; i++) {
                u.slot = slot_at(s, i);
                if (u.slot->live && u.slot->fingerprint && u.slot->fingerprint != s->fingerprint)
                        r = list_differences(u.slot->fingerprint, s->fingerprint, add_unlike, &u);
        }
        if (r < 0) {
                json_decref(u.list);
                return r;
        }
        (void) replace_value(&s->unlike, u.list); /* it is there */
        return 0;
}

/* Of two slices: each has a list of workers of its own. */
static int first_difference(const char *part, const char *found, const char *others, void *userdata) {
        if (streq(part, "workers"))
                return 0;
        (void) snprintf(userdata, TEXT_MAX, "%.60s %.80s, others %.80s", part, *found ? found : "none",
                        *others ? others : "none");
        return 1;
}

void gang_fingerprint_difference(const struct gang_fingerprint *found, const struct gang_fingerprint *others,
                                 char ret[static TEXT_MAX]) {
        ret[0] = '\0';
        (void) list_differences(found, others, first_difference, ret); /* ends at the first */
}
