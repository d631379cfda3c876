/* SPDX-License-Identifier: Apache-2.0 */
#include "nic_plan.h"

static const struct link *link_of(const struct found *f, const struct found_nic_setting *s) {
        for (size_t k = 0; k < f->links.n; k++)
                if (f->links.links[k].index == s->index)
                        return &f->links.links[k];
        return NULL;
}

int plan_add_nic_settings(struct plan *p, const struct intent *i, const struct found *f) {
        int r = 0;

        for (size_t k = 0; r == 0 && k < f->nic_settings.n; k++) {
                const struct found_nic_setting *found = &f->nic_settings.items[k];
                const struct intent_nic_setting *wanted = &i->nic_settings[found->setting];
                const struct link *l = link_of(f, found);
                struct op op = { .kind = OP_NIC_SETTING + wanted->kind, .index = found->index };

                if (!l || !nic_setting_is_due(i, found))
                        continue;
                nic_setting_subject(wanted, l, op.subject);
                finding_set(op.from, "%s", found->value);
                finding_set(op.to, "%s", wanted->value);
                finding_set(op.source, "%s", wanted->source);
                r = plan_add(p, &op);
        }
        return r;
}

int plan_judge_nic_settings(const struct intent *i, const struct found *f, struct finding_list *l) {
        struct finding finding;
        int r = 0;

        if (f->nic_settings_error < 0) {
                finding_init(&finding, "nic.feature", "");
                finding_set(finding.reason, "cannot be read: %s", strerror(-f->nic_settings_error));
                return finding_list_add(l, &finding);
        }
        for (size_t k = 0; r == 0 && k < f->nic_settings.n; k++) {
                const struct link *link = link_of(f, &f->nic_settings.items[k]);

                if (!link)
                        continue;
                intent_judge_nic_setting(i, link, &f->nic_settings.items[k], &finding);
                r = finding_list_add(l, &finding);
        }
        return r;
}
