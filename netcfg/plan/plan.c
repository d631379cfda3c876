/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"
#include "plan.h"

const char *op_check(enum op_kind k) {
        static const char *const names[] = { [OP_SYSCTL] = "sysctl", [OP_MTU] = "nic.mtu" };

        _Static_assert(ELEMENTSOF(names) == _OP_KIND_MAX, "every kind has a name");
        return names[k];
}

void found_clear(struct found *f) {
        link_table_clear(&f->links);
        *f = FOUND_NULL;
}

void plan_clear(struct plan *p) {
        free(p->ops);
        *p = PLAN_NULL;
}

int plan_add(struct plan *p, const struct op *op) {
        struct op *grown = reallocarray(p->ops, p->n + 1, sizeof(*p->ops));

        if (!grown)
                return -ENOMEM;
        p->ops = grown;
        p->ops[p->n++] = *op;
        return 0;
}

static int add_sysctl(struct plan *p, const struct intent_sysctl *wanted, const struct found_sysctl *found) {
        struct op op = { .kind = OP_SYSCTL };

        if (found->error < 0 || streq(found->value, wanted->value))
                return 0;
        finding_set(op.subject, "%s", wanted->name);
        finding_set(op.from, "%s", found->value);
        finding_set(op.to, "%s", wanted->value);
        finding_set(op.source, "%s", wanted->source);
        return plan_add(p, &op);
}

static int add_mtu(struct plan *p, const struct intent *i, const struct link *l) {
        struct op op = { .kind = OP_MTU, .index = l->index };
        uint32_t mtu = intent_mtu(i, l, NULL);
        const char *network_source = NULL;

        if (mtu == 0 || l->mtu == 0 || mtu == l->mtu)
                return 0;
        finding_set(op.subject, "%s", l->name);
        finding_set(op.from, "%u", l->mtu);
        finding_set(op.to, "%u", mtu);
        finding_set(op.source, "%s",
                    mtu == i->mtu                                          ? i->mtu_source
                    : mtu == intent_network_mtu(i, l, &network_source) ? network_source
                                                                           : "the NIC's own maximum");
        return plan_add(p, &op);
}

int plan_make(const struct intent *i, const struct found *f, struct plan *ret) {
        _cleanup_plan_ struct plan p = PLAN_NULL;
        int r;

        /* Receive buffers before larger packets: whatever connects in between already has both or the old
         * state of both. */
        for (size_t k = 0; k < i->n_sysctls; k++) {
                r = add_sysctl(&p, &i->sysctls[k], &f->sysctls[k]);
                if (r < 0)
                        return r;
        }
        for (size_t k = 0; k < f->links.n; k++) {
                if (!intent_is_data_nic(i, &f->links.links[k]))
                        continue;
                r = add_mtu(&p, i, &f->links.links[k]);
                if (r < 0)
                        return r;
        }
        *ret = p;
        p = PLAN_NULL;
        return 0;
}

static int judge_profile(const struct intent *i, struct finding_list *l) {
        struct finding f;

        finding_init(&f, "netcfg.profile", "");
        finding_set(f.found, "%s", i->profile);
        f.verdict = i->profile_note[0] ? VERDICT_WARN : VERDICT_OK;
        if (i->profile_note[0]) {
                finding_set(f.reason, "%s; the generic profile stands in", i->profile_note);
                finding_set(f.remedy, "state it in /etc/tpu-hostd/identity.conf.d/10-identity.conf, two "
                                      "lines: [Identity] and AcceleratorType=v6e-16");
        }
        return finding_list_add(l, &f);
}

static int judge_nics(const struct intent *i, const struct found *f, struct finding_list *l) {
        struct finding finding;
        size_t nics = 0;
        int r;

        for (size_t k = 0; k < f->links.n; k++) {
                if (!intent_is_data_nic(i, &f->links.links[k]))
                        continue;
                nics++;
                intent_judge_mtu(i, &f->links.links[k], &finding);
                r = finding_list_add(l, &finding);
                if (r < 0)
                        return r;
        }
        if (nics > 0)
                return 0;
        finding_init(&finding, "nic.mtu", "");
        if (f->links_error < 0)
                finding_set(finding.reason, "the network interfaces cannot be read: %s",
                            strerror(-f->links_error));
        else
                finding_set(finding.reason, "there is no data-centre NIC (Ethernet hardware) on this host");
        return finding_list_add(l, &finding);
}

int plan_findings(const struct intent *i, const struct found *f, struct finding_list *l) {
        struct finding finding;
        int r;

        r = judge_profile(i, l);
        for (size_t k = 0; r == 0 && k < i->n_sysctls; k++) {
                intent_judge_sysctl(&i->sysctls[k], f->sysctls[k].value, f->sysctls[k].error, &finding);
                r = finding_list_add(l, &finding);
        }
        for (size_t k = 0; r == 0 && k < i->n_parameters; k++) {
                intent_judge_parameter(&i->parameters[k], f->parameters[k].value, f->parameters[k].error, f->container,
                                       &finding);
                r = finding_list_add(l, &finding);
        }
        return r < 0 ? r : judge_nics(i, f, l);
}
