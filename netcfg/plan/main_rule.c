/* SPDX-License-Identifier: Apache-2.0 */
#include "main_rule.h"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "check_words.h"
#include "route_words.h"
#include "source.h"

static const int families[] = { AF_INET, AF_INET6 };

static bool takes_all(const struct rule *r) {
        return r->action == FR_ACT_TO_TBL && r->src_len == 0 && r->dst_len == 0 && r->fit == RULE_FITS &&
               !r->inverted && r->suppressed == 0;
}

static bool rules_lead_to(const struct rule_table *rules, int family, uint32_t table) {
        for (size_t k = 0; k < rules->n; k++) {
                const struct rule *r = &rules->rules[k];

                if (r->family == family && takes_all(r) && r->table == table)
                        return true;
        }
        return false;
}

bool rules_lead_to_main(const struct rule_table *rules, int family) {
        bool any = false; /* a kernel may have no rules, and looks up the main table */

        for (size_t k = 0; k < rules->n; k++)
                any |= rules->rules[k].family == family;
        return !any || rules_lead_to(rules, family, RT_TABLE_MAIN);
}

static int add_kernel_rule(struct plan *p, int family, uint32_t table, uint32_t priority) {
        struct plan_op op = { .kind = OP_MAIN_RULE,
                              .rule = { .family = family,
                                        .table = table,
                                        .priority = priority,
                                        .action = FR_ACT_TO_TBL,
                                        .protocol = RTPROT_KERNEL } };
        char word[ROUTE_WORD_MAX];

        (void) snprintf(op.nic, sizeof(op.nic), "%s", family == AF_INET ? "IPv4" : "IPv6");
        finding_set(op.subject, "%s lookup %s", op.nic, route_table_word(table, word));
        finding_set(op.from, SOURCE_ABSENT);
        finding_set(op.to, "priority %" PRIu32, priority);
        finding_set(op.source, "the kernel makes it at boot");
        return plan_add(p, &op);
}

int plan_add_main_rules(struct plan *p, const struct intent *i, const struct found *f) {
        int r = 0;

        for (size_t n = 0; !i->no_tpu && f->rules_error == 0 && r == 0 && n < ELEMENTSOF(families); n++) {
                if (rules_lead_to_main(&f->rules, families[n]))
                        continue;
                if (families[n] == AF_INET /* IPv6 has none by default */ &&
                    !rules_lead_to(&f->rules, AF_INET, RT_TABLE_DEFAULT))
                        r = add_kernel_rule(p, AF_INET, RT_TABLE_DEFAULT, DEFAULT_RULE_PRIORITY);
                if (r == 0)
                        r = add_kernel_rule(p, families[n], RT_TABLE_MAIN, MAIN_RULE_PRIORITY);
        }
        return r;
}

int plan_judge_main_rules(const struct intent *i, const struct found *f, struct finding_list *l) {
        struct finding finding;
        int r = 0;

        for (size_t n = 0; !i->no_tpu && f->rules_error == 0 && r == 0 && n < ELEMENTSOF(families); n++) {
                if (rules_lead_to_main(&f->rules, families[n]))
                        continue;
                check_tell(&finding, WORDS_MAIN_RULE_GONE, families[n] == AF_INET ? "IPv4" : "IPv6",
                           ip_family_option(families[n]));
                finding_set(finding.found, "none does");
                r = finding_list_add(l, &finding);
        }
        return r;
}
