/* SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>

#include "intent.h"

static bool matches(const char *list, const char *name) {
        char copy[sizeof(((struct intent *) NULL)->nics)], *at = copy, *word;

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
