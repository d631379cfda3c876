/* SPDX-License-Identifier: Apache-2.0 */
#include "found.h"

void found_clear(struct found *f) {
        link_table_clear(&f->links);
        found_nic_settings_clear(&f->nic_settings);
        route_table_clear(&f->routes);
        rule_table_clear(&f->rules);
        address_table_clear(&f->addresses);
        *f = FOUND_NULL;
}
