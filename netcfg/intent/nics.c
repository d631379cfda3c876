/* SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>

#include "nics.h"

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

bool intent_is_data_nic(const struct intent *i, const struct link *l) {
        if (!link_is_ethernet(l) || matches(i->ignore_nics, l->name))
                return false;
        return i->nics[0] ? matches(i->nics, l->name) : link_is_data_nic(l);
}

void intent_drop_ignored(struct intent *i) {
        size_t kept = 0;

        for (size_t k = 0; k < i->n_nic_settings; k++)
                if (!matches(i->ignore_settings, i->nic_settings[k].name))
                        i->nic_settings[kept++] = i->nic_settings[k];
        i->n_nic_settings = kept;
        kept = 0;
        for (size_t k = 0; k < i->n_sysctls; k++)
                if (!matches(i->ignore_settings, i->sysctls[k].name))
                        i->sysctls[kept++] = i->sysctls[k];
        i->n_sysctls = kept;
}
