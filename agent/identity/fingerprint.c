/* SPDX-License-Identifier: Apache-2.0 */
#include "fingerprint.h"

#define FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* With the NUL, so that no two texts run together. */
static uint64_t add_hash(uint64_t hash, const char *text) {
        const char *p = text;

        do
                hash = (hash ^ (uint8_t) *p) * FNV_PRIME;
        while (*p++);
        return hash;
}

static void make_digest(struct fingerprint *f) {
        uint64_t hash = FNV_BASIS;

        for (size_t i = 0; i < f->n; i++)
                hash = add_hash(add_hash(hash, f->parts[i].name), f->parts[i].text);
        f->digest[0] = '\0';
        if (f->n > 0)
                (void) snprintf(f->digest, sizeof(f->digest), "%016" PRIx64, hash);
}

/* Where the name is, or would be. */
static size_t place(const struct fingerprint *f, const char *name) {
        size_t i = 0;

        while (i < f->n && strcmp(f->parts[i].name, name) < 0)
                i++;
        return i;
}

static void set(struct fingerprint *f, const char *name, const char *text) {
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
        size_t n = 0;

        buf[0] = '\0';
        for (const char *p = found; *p && n < FINGERPRINT_TEXT_MAX;) {
                const char *end = strstr(p, " in "), *next = strstr(p, "; ");
                size_t len = end && (!next || end < next) ? (size_t) (end - p) :
                             next                         ? (size_t) (next - p) :
                                                            strlen(p);

                n += (size_t) snprintf(buf + n, FINGERPRINT_TEXT_MAX - n, "%s%.*s", n > 0 ? "," : "",
                                       (int) len, p);
                p = next ? next + 2 : p + strlen(p);
        }
}

static void take(struct fingerprint *f, const struct finding *x) {
        char text[FINGERPRINT_TEXT_MAX];

        if (x->verdict == VERDICT_UNKNOWN || !x->found[0])
                return;
        if (streq(x->check, "fingerprint.kernel"))
                set(f, "kernel", x->found);
        else if (streq(x->check, "fingerprint.flags") && x->subject[0])
                set(f, x->subject, x->found);
        else if (streq(x->check, "fingerprint.wheel") && x->subject[0]) {
                versions(x->found, text);
                set(f, x->subject, text);
        }
}

void fingerprint_take(struct fingerprint *f, const struct finding *found) {
        take(f, found);
        make_digest(f);
}

void fingerprint_of(const struct finding_list *l, struct fingerprint *ret) {
        struct fingerprint f = { .n = 0 };

        for (size_t i = 0; i < l->n; i++)
                take(&f, &l->items[i]);
        make_digest(&f);
        *ret = f;
}

void fingerprint_set(struct fingerprint *f, const char *name, const char *text) {
        set(f, name, text);
        make_digest(f);
}

json_t *fingerprint_to_json(const struct fingerprint *f) {
        json_t *parts = json_object();

        for (size_t i = 0; parts && i < f->n; i++)
                if (json_object_set_new(parts, f->parts[i].name, json_string(f->parts[i].text)) < 0) {
                        json_decref(parts);
                        return NULL;
                }
        return parts ? json_pack("{s:s, s:o}", "digest", f->digest, "parts", parts) : NULL;
}

int fingerprint_compare(const struct fingerprint *a, const struct fingerprint *b, const char **ret_part,
                        const char **ret_a, const char **ret_b) {
        size_t i = 0, k = 0;

        while (i < a->n || k < b->n) {
                int c = i == a->n ? 1 : k == b->n ? -1 : strcmp(a->parts[i].name, b->parts[k].name);

                if (c == 0 && streq(a->parts[i].text, b->parts[k].text)) {
                        i++, k++;
                        continue;
                }
                *ret_part = c <= 0 ? a->parts[i].name : b->parts[k].name;
                *ret_a = c <= 0 ? a->parts[i].text : "";
                *ret_b = c >= 0 ? b->parts[k].text : "";
                return 1;
        }
        return 0;
}
