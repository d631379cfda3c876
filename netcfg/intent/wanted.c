/* SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>

#include "check_words.h"
#include "texts.h"
#include "wanted.h"

static bool matches(const char *list, const char *name) {
        char copy[sizeof(((struct intent *) NULL)->nics)], *at = copy, *word;

        if (!list[0])
                return false;
        (void) snprintf(copy, sizeof(copy), "%s", list);
        while ((word = strsep(&at, " \t,")))
                if (word[0] && fnmatch(word, name, 0) == 0)
                        return true;
        return false;
}

/* By any of its names, as ip(8) takes them. */
static bool matches_link(const char *list, const struct link *l) {
        char copy[sizeof(l->altnames)], *at = copy, *name;

        memcpy(copy, l->altnames, sizeof(copy));
        while ((name = strsep(&at, " ")))
                if (name[0] && matches(list, name))
                        return true;
        return matches(list, l->name);
}

bool intent_is_data_nic(const struct intent *i, const struct link *l) {
        if (!link_is_ethernet(l) || matches_link(i->ignore_nics, l))
                return false;
        return i->nics[0] ? matches_link(i->nics, l) : link_is_data_nic(l);
}

/* A container's end at a bridge carries nothing of the bridge's own. */
static bool is_port_of(const struct link *l, const struct link *d) {
        return l->master == d->index && (streq(d->kind, "bond") || streq(d->kind, "team") || !l->kind[0]);
}

#define CARRIERS_MAX 3 /* a VLAN on a bond of NICs */

static bool carries_within(const struct intent *i, const struct link_table *t, const struct link *l,
                           unsigned depth) {
        if (intent_is_data_nic(i, l))
                return true;
        for (size_t k = 0; depth > 0 && k < t->n; k++) {
                const struct link *d = &t->links[k];

                if ((is_port_of(l, d) || (d->lower == l->index && !d->peer_elsewhere)) &&
                    carries_within(i, t, d, depth - 1))
                        return true;
        }
        return false;
}

bool intent_carries_data(const struct intent *i, const struct link_table *t, const struct link *l) {
        return carries_within(i, t, l, CARRIERS_MAX);
}

size_t intent_count_data_nics(const struct intent *i, const struct link_table *t) {
        size_t n = 0;

        for (size_t k = 0; k < t->n; k++)
                n += intent_is_data_nic(i, &t->links[k]);
        return n;
}

static size_t drop_named(const struct intent *i, struct intent_sysctl *list, size_t n) {
        size_t kept = 0;

        for (size_t k = 0; k < n; k++)
                if (!matches(i->ignore_settings, list[k].name))
                        list[kept++] = list[k];
        return kept;
}

void intent_drop_ignored(struct intent *i) {
        size_t kept = 0;

        for (size_t k = 0; k < i->n_nic_settings; k++)
                if (!matches(i->ignore_settings, i->nic_settings[k].name))
                        i->nic_settings[kept++] = i->nic_settings[k];
        i->n_nic_settings = kept;
        i->n_sysctls = drop_named(i, i->sysctls, i->n_sysctls);
        i->n_parameters = drop_named(i, i->parameters, i->n_parameters);
}

void intent_data_nics(const struct intent *i, const struct link_table *t,
                      char ret[static INTENT_NICS_TEXT_MAX]) {
        size_t n = 0;

        ret[0] = '\0';
        for (size_t l = 0; l < t->n; l++)
                if (intent_is_data_nic(i, &t->links[l]) && n + IF_NAMESIZE + 1 < INTENT_NICS_TEXT_MAX)
                        n += (size_t) snprintf(ret + n, INTENT_NICS_TEXT_MAX - n, "%s%s", n > 0 ? "," : "",
                                               t->links[l].name);
}

static bool is_there(const char *name, const struct link_table *t) {
        for (size_t l = 0; l < t->n; l++)
                if (link_is_ethernet(&t->links[l]) && matches_link(name, &t->links[l]))
                        return true;
        return false;
}

bool intent_judge_names(const struct intent *i, const struct link_table *t, struct finding *ret) {
        static const struct intent by_kind;
        char copy[sizeof(i->nics)], absent[sizeof(i->nics)] = "", there[INTENT_NICS_TEXT_MAX], file[128];
        bool none = intent_count_data_nics(i, t) == 0;
        char *at = copy, *word;

        memcpy(copy, i->nics, sizeof(copy));
        while ((word = strsep(&at, " \t,")))
                if (word[0] && (none || !strpbrk(word, "*?[")) && !is_there(word, t))
                        text_append(absent, sizeof(absent), ",", "%s", word);
        if (!absent[0])
                return false;
        intent_data_nics(&by_kind, t, there);
        (void) snprintf(file, sizeof(file), "%.*s", (int) strcspn(i->nics_where, ":"), i->nics_where);
        check_tell(ret, WORDS_NIC_ABSENT, "Nics=", absent, there[0] ? there : "none", file);
        finding_set(ret->found, "not there: %s", absent);
        finding_set(ret->source, "%s", i->nics_where);
        return true;
}
