/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "grow.h"
#include "peers.h"
#include "texts.h"

static int refuse_word(char why[static 96], int error, const char *what, const char *word, size_t len) {
        (void) snprintf(why, 96, "%s: '%.*s'", what, (int) MIN(len, (size_t) 50), word);
        return error;
}

static bool holds_only(const char *word, size_t len, const char *marks) {
        for (size_t i = 0; i < len; i++) {
                char c = word[i];
                bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

                if (!alnum && (c == '\0' || !strchr(marks, c)))
                        return false;
        }
        return true;
}

/* One word of len bytes. -EINVAL with one line in why. */
static int path_peer_parse(const char *word, size_t len, struct path_peer *ret, char why[static 96]) {
        const char *equals = memchr(word, '=', len);
        size_t nic = equals ? (size_t) (equals - word) : 0;
        const char *name = equals ? equals + 1 : word;
        size_t n = len - (size_t) (name - word);
        struct path_peer p = { 0 };

        if (equals && (nic == 0 || nic >= sizeof(p.nic) || !holds_only(word, nic, ".-_@")))
                return refuse_word(why, -EINVAL, "not the name of a NIC", word, nic);
        if (n == 0 || n >= sizeof(p.name) || name[0] == '-' || !holds_only(name, n, ".-_:"))
                return refuse_word(why, -EINVAL, "not a host's name or address", name, n);
        memcpy(p.nic, word, nic);
        memcpy(p.name, name, n);
        *ret = p;
        return 0;
}

int path_peers_add_one(struct path_peers *p, const struct path_peer *one, char why[static 96]) {
        for (size_t i = 0; i < p->n; i++)
                if (streq(p->items[i].nic, one->nic) && streq(p->items[i].name, one->name))
                        return 0;
        if (p->n == PATH_PEERS_MAX)
                return refuse_word(why, -E2BIG, "too many peers at", one->name, strlen(one->name));
        if (grow_by_one(&p->items, p->n, sizeof(*p->items)) < 0)
                return text_fail(why, 96, -ENOMEM, "out of memory");
        p->items[p->n++] = *one;
        return 0;
}

int path_peers_add(struct path_peers *p, const char *list, char why[static 96]) {
        for (const char *at = list;; at++) {
                size_t len = strcspn(at, ","), blank = strspn(at, " \t");
                struct path_peer one;
                int r;

                blank = MIN(blank, len);
                at += blank;
                len -= blank;
                for (blank = len; blank > 0 && strchr(" \t", at[blank - 1]); blank--)
                        ;
                if (blank > 0) {
                        r = path_peer_parse(at, blank, &one, why);
                        if (r == 0)
                                r = path_peers_add_one(p, &one, why);
                        if (r < 0)
                                return r;
                } else if (at[len] == ',')
                        return refuse_word(why, -EINVAL, "an empty word before", at, strlen(at));
                at += len;
                if (*at == '\0')
                        return 0;
        }
}

static int parse_peers(const char *value, void *dest, char why[static 96]) {
        if (*value == '\0') {
                path_peers_clear(dest);
                return 0;
        }
        return path_peers_add(dest, value, why);
}

int path_peers_load(const struct host *h, const char *config_file, struct path_peers *p) {
        const struct config_item items[] = { CONFIG_ITEM("Path", "Peers", parse_peers, p, NULL) };
        struct config c = { .items = items, .n_items = ELEMENTSOF(items) };
        int r = config_load(&c, h, "path", config_file);

        config_clear(&c);
        return r;
}

void path_peers_clear(struct path_peers *p) {
        free(p->items);
        *p = PATH_PEERS_NULL;
}
