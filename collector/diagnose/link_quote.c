/* SPDX-License-Identifier: Apache-2.0 */
#include "link_quote.h"

#include "paths.h"

static bool is_text(const struct path_end *end, const char *text, size_t len) {
        return len == end->len && memcmp(text, end->address, len) == 0;
}

/* "from ADDRESS, WORDS": the words; NULL: it is no such finding. */
static const char *words_of(const struct evidence *e, const struct captured_finding *f,
                            const char **ret_local, size_t *ret_len) {
        const char *found = stack_table_text(&e->scene->table, f->found), *comma = strchr(found, ',');

        if (!streq(stack_table_text(&e->scene->table, f->check), LINK_CHECK) ||
            !startswith(found, "from ") || !comma || comma[1] != ' ')
                return NULL;
        *ret_local = found + strlen("from ");
        *ret_len = (size_t) (comma - *ret_local);
        return comma + 2;
}

/* local: the finding's own address has to be this; peer: its subject. Either may be NULL. */
static const char *find(const struct evidence *e, uint32_t host, const struct path_end *local,
                        const struct path_end *peer) {
        for (size_t k = 2; k > 0; k--) { /* the later capture says it of now */
                const struct host_capture *c = e->hosts[host].capture[k - 1];

                for (size_t i = 0; c && i < c->n_findings; i++) {
                        const char *subject = stack_table_text(&e->scene->table, c->findings[i].subject),
                                   *from;
                        size_t len;
                        const char *words = words_of(e, &c->findings[i], &from, &len);

                        if (words && (!local || is_text(local, from, len)) &&
                            (!peer || is_text(peer, subject, strlen(subject))))
                                return words;
                }
        }
        return NULL;
}

const char *link_quote_own(const struct evidence *e, uint32_t host, const struct path_end *end) {
        return find(e, host, end, NULL);
}

const char *link_quote_of(const struct evidence *e, const struct path_end *end, uint32_t *ret_host) {
        for (uint32_t i = 0; i < e->n_hosts; i++) {
                const char *words = find(e, i, NULL, end);

                if (!words)
                        continue;
                *ret_host = i;
                return words;
        }
        return NULL;
}

const char *link_quote_any(const struct evidence *e, uint32_t *ret_host) {
        for (uint32_t i = 0; i < e->n_hosts; i++) {
                const char *words = find(e, i, NULL, NULL);

                if (!words)
                        continue;
                *ret_host = i;
                return words;
        }
        return NULL;
}
