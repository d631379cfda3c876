/* SPDX-License-Identifier: Apache-2.0 */
#include "nic_settings.h"

#include "emit.h"
#include "nic_setting.h"

int nic_look_at_settings(const struct host *h, const struct intent *i, const struct link_table *links,
                         struct sink *s) {
        _cleanup_found_nic_settings_ struct found_nic_settings found = FOUND_NIC_SETTINGS_NULL;
        struct finding f;
        int r = nic_settings_read(h, i, links, &found);

        for (size_t k = 0; r == 0 && k < found.n; k++) {
                const struct link *l = link_by_index(links, found.items[k].index);

                intent_judge_nic_setting(i, l, &found.items[k], &f); /* the same words as tpu-netcfg's */
                (void) make_printable(f.subject);
                (void) make_printable(f.found);
                s->finding(s, &f);
        }
        return r;
}
