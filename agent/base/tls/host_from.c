/* SPDX-License-Identifier: Apache-2.0 */
#include "host_from.h"

#include "texts.h"

#define PLACE "{host}"
#define LETTERS_FIRST "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define LETTERS LETTERS_FIRST "._-"
#define PATTERNS_MAX 8

struct host_from {
        char *words; /* each pattern is ended, cut before and behind its place */
        const char *before[PATTERNS_MAX], *behind[PATTERNS_MAX];
        size_t n;
        struct name_list *map;
        bool has_files;
};

static bool is_host_name(const char *text, size_t len) {
        return len > 0 && len < HOST_FROM_MAX && strchr(LETTERS_FIRST, text[0]) &&
               strspn(text, LETTERS) >= len;
}

/* --- Matching ------------------------------------------------------------------------------------------ */

bool host_from_map(const struct host_from *h, const char *name, char ret[static HOST_FROM_MAX]) {
        const char *host = name_list_find(h->map, name);

        if (!host || !is_host_name(host, strlen(host)))
                return false;
        (void) snprintf(ret, HOST_FROM_MAX, "%s", host);
        return true;
}

/* Where the host may begin: behind the text before it, or, with a star, behind the last letter that no host
 * has. */
static const char *host_begins(const char *before, const char *name, const char *end) {
        const char *p = end;

        if (*before != '*')
                return startswith(name, before) ? name + strlen(before) : NULL;
        before++;
        while (p > name && strchr(LETTERS, p[-1]))
                p--;
        if ((size_t) (p - name) < strlen(before) ||
            strncmp(p - strlen(before), before, strlen(before)) != 0)
                return NULL;
        return p;
}

bool host_from_pattern(const struct host_from *h, size_t i, const char *name,
                       char ret[static HOST_FROM_MAX]) {
        size_t len = strlen(name), tail = strlen(h->behind[i]);
        const char *end = name + len - tail, *host;

        if (len < tail || !streq(end, h->behind[i]))
                return false;
        host = host_begins(h->before[i], name, end);
        if (!host || host >= end || !is_host_name(host, (size_t) (end - host)))
                return false;
        (void) snprintf(ret, HOST_FROM_MAX, "%.*s", (int) (end - host), host);
        return true;
}

size_t host_from_patterns(const struct host_from *h) {
        return h->n;
}

bool host_from_token(const struct host_from *h, const char *name, char ret[static HOST_FROM_MAX]) {
        if (host_from_map(h, name, ret))
                return true;
        for (size_t i = 0; i < h->n; i++)
                if (startswith(h->before[i], HOST_FROM_TOKEN) && host_from_pattern(h, i, name, ret))
                        return true;
        return false;
}

bool host_from_wants_tokens(const struct host_from *h) {
        for (size_t i = 0; i < h->n; i++)
                if (startswith(h->before[i], HOST_FROM_TOKEN))
                        return true;
        return false;
}

bool host_from_takes_tokens(const struct host_from *h) {
        return h->has_files || host_from_wants_tokens(h);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int take_pattern(void *userdata, char *word, char why[static NAME_LIST_WHY_MAX]) {
        struct host_from *h = userdata;
        char *place = strstr(word, PLACE);
        bool star = *word == '*', bare = place == word + 1;

        if (!place || strstr(place + 1, PLACE) || strchr(word + star, '*') || (star && bare))
                return text_fail(why, NAME_LIST_WHY_MAX, -EINVAL,
                                 "'%.100s' is no path of a file, and no pattern with " PLACE
                                 " once, as spiffe://site.example/host/" PLACE, word);
        if (h->n == PATTERNS_MAX)
                return text_fail(why, NAME_LIST_WHY_MAX, -E2BIG, "more than %d patterns", PATTERNS_MAX);
        *place = '\0';
        h->before[h->n] = word;
        h->behind[h->n++] = place + strlen(PLACE);
        return 0;
}

int host_from_new(const char *words, struct host_from **ret, char why[static NAME_LIST_WHY_MAX]) {
        _cleanup_(host_from_freep) struct host_from *h = calloc(1, sizeof(*h));
        int r;

        (void) snprintf(why, NAME_LIST_WHY_MAX, "out of memory");
        if (!h || !(h->words = strdup(words)))
                return -ENOMEM;
        h->has_files = *words == '/' || strstr(words, " /");
        r = name_list_new_among(h->words, take_pattern, h, &h->map, why);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}

struct host_from *host_from_free(struct host_from *h) {
        if (!h)
                return NULL;
        h->map = name_list_free(h->map);
        free(h->words);
        free(h);
        return NULL;
}

bool host_from_look(struct host_from *h, char why[static NAME_LIST_WHY_MAX]) {
        why[0] = '\0';
        return h && name_list_look(h->map, why);
}
