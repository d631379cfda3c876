/* SPDX-License-Identifier: Apache-2.0 */
#include "originals.h"

static bool has_address(const struct link *l, const struct original *o) {
        unsigned b[6];

        if (l->address_len != 6 ||
            sscanf(o->address, "%2x:%2x:%2x:%2x:%2x:%2x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]) != 6)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(b); i++)
                if (b[i] != l->address[i])
                        return false;
        return true;
}

/* The name now of the NIC that o is the MTU of. NULL: as before, or there is none of its address. */
static const char *new_name(const struct original *o, const struct link_table *t) {
        const char *name = NULL;

        for (size_t i = 0; i < t->n; i++)
                if (streq(t->links[i].name, o->subject) && has_address(&t->links[i], o))
                        return NULL;
        for (size_t i = 0; i < t->n && !name; i++)
                if (has_address(&t->links[i], o))
                        name = t->links[i].name;
        return name;
}

/* Where the NIC's name is in the subject of a route ("… dev NAME …") or sysctl ("….conf.NAME.…"). */
static bool find_name(const struct original *o, size_t *ret_at, size_t *ret_len) {
        const char *before = o->kind == OP_ROUTE ? " dev " : ".conf.", *at = strstr(o->subject, before), *end;

        if (o->kind == OP_MTU || !at)
                return false;
        at += strlen(before);
        end = o->kind == OP_ROUTE ? strchrnul(at, ' ') : strrchr(at, '.');
        if (!end)
                return false;
        *ret_at = (size_t) (at - o->subject);
        *ret_len = (size_t) (end - at);
        return true;
}

static void replace_name(struct original *o, const struct originals *old, const char *const *names) {
        char subject[sizeof(o->subject)];
        size_t at, len;

        if (!find_name(o, &at, &len))
                return;
        for (size_t i = 0; i < old->n; i++) {
                const struct original *nic = &old->items[i];

                if (!names[i] || strlen(nic->subject) != len || memcmp(nic->subject, o->subject + at, len) != 0)
                        continue;
                finding_set(subject, "%.*s%s%s", (int) at, o->subject, names[i], o->subject + at + len);
                memcpy(o->subject, subject, sizeof(subject));
                return;
        }
}

int originals_follow(struct originals *o, const struct link_table *links) {
        _cleanup_free_ const char **names = calloc(o->n + 1, sizeof(*names));
        bool any = false;

        if (!names)
                return -ENOMEM;
        for (size_t i = 0; i < o->n; i++)
                if (o->items[i].kind == OP_MTU) {
                        names[i] = new_name(&o->items[i], links);
                        any |= names[i] != NULL;
                }
        for (size_t i = 0; any && i < o->n; i++)
                replace_name(&o->items[i], o, names);
        for (size_t i = 0; i < o->n; i++)
                if (names[i])
                        finding_set(o->items[i].subject, "%s", names[i]);
        return 0;
}
