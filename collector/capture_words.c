/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_words.h"

#define WORKERS_MAX 4096 /* of a slice, as the planner has it */
#define HOSTS_MAX   1000000
#define TIME_MAX    INT64_C(253402300800000000) /* the year 10000 */

struct word {
        const char *name;
        size_t offset, size; /* size: of a text; 0: a number */
        int64_t most;
        bool needed;
};
#define WORD_SIZE(member) sizeof(((struct capture_words *) NULL)->member)
#define WORD_TEXT(member, needed) \
        { #member, offsetof(struct capture_words, member), WORD_SIZE(member), 0, needed }
#define WORD_NUMBER(member, most, needed)                            \
        { #member, offsetof(struct capture_words, member), 0, most, needed }

static const struct word words[] = {
        WORD_TEXT(episode, false),
        WORD_TEXT(slice, true),
        WORD_TEXT(host, true),
        WORD_TEXT(incarnation, true),
        WORD_TEXT(run, false),
        WORD_TEXT(suspicion, false),
        WORD_NUMBER(worker, WORKERS_MAX - 1, true),
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
        char *why;
};

static int wrong(struct reading *r, const char *name, const char *what) {
        (void) snprintf(r->why, QUERY_WHY_MAX, "parameter %s: %s", name, what);
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

int capture_words_parse(const struct http_request *q, struct capture_words *ret,
                        char why[static QUERY_WHY_MAX]) {
        struct reading r = { .words = { .generation = -1, .rounds = 2 }, .why = why };
        int e = http_query(q, on_parameter, &r);

        for (size_t i = 0; e == 0 && i < ELEMENTSOF(words); i++)
                if (words[i].needed && !(r.given & (UINT32_C(1) << i)))
                        e = wrong(&r, words[i].name, "is needed");
        if (e == 0)
                *ret = r.words;
        return e;
}
