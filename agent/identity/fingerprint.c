/* SPDX-License-Identifier: Apache-2.0 */
#include "fingerprint.h"
#include "fnv.h"
#include "grow.h"
#include "json_text.h"
#include "texts.h"

#define WORKERS_WHOLE 120 /* bytes of a list that is shown as it is */

/* With the NUL, so that no two texts run together. */
static uint64_t add_hash(uint64_t hash, const char *text) {
        return fnv(hash, text, strlen(text) + 1);
}

static void make_digest(struct fingerprint *f) {
        uint64_t hash = FNV_BEGIN;

        for (size_t i = 0; i < f->n; i++)
                hash = add_hash(add_hash(hash, f->parts[i].name), f->parts[i].text);
        f->digest[0] = '\0';
        if (f->n > 0)
                (void) snprintf(f->digest, sizeof(f->digest), "%016" PRIx64, hash);
}

/* Where the name is, or would be. */
static size_t place(const struct fingerprint *f, const char *name) {
        return SORTED_PLACE(f->n, i, strcmp(f->parts[i].name, name) < 0);
}

static void set_fact(struct fingerprint *f, const char *name, const char *text) {
        size_t at = place(f, name);

        if (at == f->n || !streq(f->parts[at].name, name)) {
                if (f->n == FINGERPRINT_PARTS_MAX)
                        return;
                memmove(&f->parts[at + 1], &f->parts[at], (f->n - at) * sizeof(f->parts[0]));
                f->n++;
        }
        (void) snprintf(f->parts[at].name, sizeof(f->parts[at].name), "%s", name);
        (void) snprintf(f->parts[at].text, sizeof(f->parts[at].text), "%s", text);
}

/* "0.0.21 in /usr/…; 0.0.17 in …" → "0.0.21,0.0.17" */
static void versions(const char *found, char buf[static FINGERPRINT_TEXT_MAX]) {
        buf[0] = '\0';
        for (const char *p = found; *p;) {
                const char *end = strstr(p, " in "), *next = strstr(p, "; ");
                size_t len = end && (!next || end < next) ? (size_t) (end - p) :
                             next                         ? (size_t) (next - p) :
                                                            strlen(p);

                text_append(buf, FINGERPRINT_TEXT_MAX, ",", "%.*s", (int) len, p);
                p = next ? next + 2 : p + strlen(p);
        }
}

void fingerprint_take(struct fingerprint *f, const struct finding *found) {
        char text[FINGERPRINT_TEXT_MAX];

        if (found->verdict == VERDICT_UNKNOWN || !found->found[0])
                return;
        if (streq(found->check, "fingerprint.kernel"))
                set_fact(f, "kernel", found->found);
        else if (streq(found->check, "fingerprint.flags") && found->subject[0])
                set_fact(f, found->subject, found->found);
        else if (streq(found->check, "fingerprint.wheel") && found->subject[0]) {
                versions(found->found, text);
                set_fact(f, found->subject, text);
        }
        make_digest(f);
}

void fingerprint_take_workers(struct fingerprint *f, const char *list, size_t hosts) {
        char text[FINGERPRINT_TEXT_MAX];

        if (!list || !*list)
                return;
        if (strlen(list) <= WORKERS_WHOLE)
                (void) snprintf(text, sizeof(text), "%s", list);
        else
                (void) snprintf(text, sizeof(text), "%zu hosts, %.40s… (digest %016" PRIx64 ")", hosts, list,
                                add_hash(FNV_BEGIN, list));
        set_fact(f, "workers", text);
        make_digest(f);
}

json_t *fingerprint_to_json(const struct fingerprint *f) {
        json_t *parts = json_object();

        for (size_t i = 0; parts && i < f->n; i++)
                parts = json_member_add(parts, f->parts[i].name, json_string(f->parts[i].text));
        return parts ? json_pack("{s:s, s:o}", "digest", f->digest, "parts", parts) : NULL;
}
