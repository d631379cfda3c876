/* SPDX-License-Identifier: Apache-2.0 */
#include "fnv.h"
#include "state.h"

#define DIGEST_MAX 129
#define PARTS_MAX  64

static struct gang_fingerprint **bucket_of_fingerprint(struct gang *g, const char *key) {
        return &g->fingerprints[fnv_text(FNV_BEGIN, key) % ELEMENTSOF(g->fingerprints)];
}

static int check_parts(json_t *parts, char why[static GANG_WHY_MAX]) {
        const char *key;
        json_t *value;

        if (parts && (!json_is_object(parts) || json_object_size(parts) > PARTS_MAX))
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

static struct gang_fingerprint *fingerprint_new(const char *key, const char *digest, const char *accelerator,
                                           const char *topology, const json_t *parts) {
        struct gang_fingerprint *p = calloc(1, sizeof(*p) + strlen(key) + 1);

        if (!p)
                return NULL;
        memcpy(p->key, key, strlen(key) + 1);
        p->digest = json_string(digest);
        p->accelerator = json_string(accelerator);
        p->topology = json_string(topology);
        p->parts = parts ? json_deep_copy(parts) : json_object();
        if (p->digest && p->accelerator && p->topology && p->parts)
                return p;
        json_decref(p->digest);
        json_decref(p->accelerator);
        json_decref(p->topology);
        json_decref(p->parts);
        free(p);
        return NULL;
}

int gang_fingerprint_take(struct gang *g, const json_t *member, struct gang_fingerprint **ret,
                          char why[static GANG_WHY_MAX]) {
        const json_t *fingerprint = json_object_get(member, "fingerprint");
        json_t *parts = json_object_get(fingerprint, "parts");
        const char *digest = NULL, *accelerator = NULL, *topology = NULL;
        char key[DIGEST_MAX + 2 * TEXT_MAX];
        struct gang_fingerprint **at, *p;

        if (get_text(fingerprint, "digest", DIGEST_MAX, &digest, why) < 0 ||
            get_text(member, "accelerator", 64, &accelerator, why) < 0 ||
            get_text(member, "topology", 64, &topology, why) < 0 || check_parts(parts, why) < 0)
                return -EBADMSG;
        (void) snprintf(key, sizeof(key), "%s\n%s\n%s", digest, accelerator, topology);
        at = bucket_of_fingerprint(g, key);
        for (p = *at; p && !streq(p->key, key);)
                p = p->next;
        if (!p) {
                p = fingerprint_new(key, digest, accelerator, topology, parts);
                if (!p)
                        return -ENOMEM;
                p->next = *at;
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
        at = bucket_of_fingerprint(g, p->key);
        while (*at != p)
                at = &(*at)->next;
        *at = p->next;
        json_decref(p->digest);
        json_decref(p->accelerator);
        json_decref(p->topology);
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
        const char *a = json_string_value(found->digest), *b = json_string_value(others->digest), *part;
        json_t *value;
        int r = 0, n = 0;

        if (!json_equal(found->accelerator, others->accelerator) && ++n)
                r = visit("accelerator", json_string_value(found->accelerator),
                          json_string_value(others->accelerator), userdata);
        if (r == 0 && !json_equal(found->topology, others->topology) && ++n)
                r = visit("topology", json_string_value(found->topology),
                          json_string_value(others->topology), userdata);
        if (!*a || !*b || streq(a, b))
                return r;
        json_object_foreach (found->parts, part, value)
                if (r == 0 && !json_equal(value, json_object_get(others->parts, part)) && ++n)
                        r = visit(part, part_of(found, part), part_of(others, part), userdata);
        json_object_foreach (others->parts, part, value)
                if (r == 0 && !json_object_get(found->parts, part) && ++n)
                        r = visit(part, "none", part_of(others, part), userdata);
        return r == 0 && n == 0 ? visit("fingerprint", a, b, userdata) : r;
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
        json_decref(s->unlike);
        s->unlike = u.list;
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
