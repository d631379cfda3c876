/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <assert.h>
#include <linux/rtnetlink.h>

#include "check_words.h"
#include "foreign.h"
#include "main_rule.h"
#include "network.h"
#include "source.h"

int plan_read_sysctl(const struct host *h, const char *name, struct found_sysctl *ret) {
        struct found_sysctl s = { 0 };

        s.error = intent_read_sysctl(h, name, s.value, sizeof(s.value));
        if (s.error < 0 && s.error != -EROFS)
                s.value[0] = '\0';
        *ret = s;
        return s.error;
}

void plan_read_sysctls(const struct host *h, const struct intent *i, struct found *f) {
        for (size_t k = 0; k < i->n_sysctls; k++)
                (void) plan_read_sysctl(h, i->sysctls[k].name, &f->sysctls[k]);
        f->container = intent_in_container(h);
        for (size_t k = 0; k < i->n_parameters; k++) {
                struct found_sysctl *p = &f->parameters[k];

                p->error = intent_read_parameter(h, i->parameters[k].name, p->value, sizeof(p->value));
        }
}

/* --- Reverse-path filters -------------------------------------------------------------------------- */

/* Linux, ip-sysctl.rst: the greater of conf/all and conf/NIC holds; 1 strict, 2 loose. */
#define STRICT 1
#define LOOSE "2"

void rp_filter_name(const char *nic, char buf[static 64]) {
        static const char prefix[] = "net.ipv4.conf.";

        (void) snprintf(buf, 64, "%s%s.rp_filter", prefix, nic);
        for (size_t i = 0; nic[i]; i++)
                if (nic[i] == '.')
                        buf[strlen(prefix) + i] = '/'; /* as sysctl(8) has it */
}

static void read_rp_filter(const struct host *h, const char *nic, struct found_rp_filter *ret) {
        char name[64], value[16] = "", *end;

        rp_filter_name(nic, name);
        ret->error = intent_read_sysctl(h, name, value, sizeof(value));
        ret->value = (unsigned) strtoul(value, &end, 10);
        if (ret->error == 0 && (value[0] < '0' || value[0] > '9' || *end))
                ret->error = -EBADMSG;
}

void plan_read_rp_filters(const struct host *h, const struct intent *i, struct found *f) {
        read_rp_filter(h, "all", &f->rp_filter_all);
        for (size_t k = 0; k < f->links.n; k++)
                if (intent_is_data_nic(i, &f->links.links[k]))
                        read_rp_filter(h, f->links.links[k].name, &f->rp_filters[k]);
}

static bool is_strict(const struct found *f, size_t k) {
        return f->rp_filter_all.error == 0 && f->rp_filters[k].error == 0 &&
               MAX(f->rp_filter_all.value, f->rp_filters[k].value) == STRICT;
}

int plan_add_rp_filters(struct plan *p, const struct intent *i, const struct found *f) {
        int r = 0;

        if (!i->loose_rp_filter || intent_count_data_nics(i, &f->links) < 2)
                return 0;
        for (size_t k = 0; r == 0 && k < f->links.n; k++) {
                struct plan_op op = { .kind = OP_SYSCTL, .index = f->links.links[k].index };

                if (!intent_is_data_nic(i, &f->links.links[k]) || !is_strict(f, k))
                        continue;
                rp_filter_name(f->links.links[k].name, op.subject);
                finding_set(op.from, "%u", f->rp_filters[k].value);
                finding_set(op.to, LOOSE);
                finding_set(op.source, "%s", i->rp_filter_source);
                r = plan_add(p, &op);
        }
        return r;
}

static void judge_rp_filter(const struct intent *i, const struct found *f, size_t k, struct finding *ret) {
        const struct found_rp_filter *own = &f->rp_filters[k], *all = &f->rp_filter_all;
        char name[64];

        rp_filter_name(f->links.links[k].name, name);
        finding_init(ret, "sysctl", name);
        finding_set(ret->source, "%s", i->loose_rp_filter ? i->rp_filter_source : "Linux ip-sysctl.rst");
        if (own->error < 0 || all->error < 0) {
                finding_set(ret->reason, "cannot be read: %s",
                            strerror(own->error < 0 ? -own->error : -all->error));
                return;
        }
        finding_set(ret->found, "%u (all: %u)", own->value, all->value);
        ret->verdict = VERDICT_OK;
        if (!is_strict(f, k))
                return;
        check_say(ret, i->loose_rp_filter ? WORDS_RP_STRICT : WORDS_RP_STRICT_ALONE);
}

int plan_judge_rp_filters(const struct intent *i, const struct found *f, struct finding_list *l) {
        struct finding finding;
        int r = 0;

        if (i->no_tpu || intent_count_data_nics(i, &f->links) < 2)
                return 0;
        for (size_t k = 0; r == 0 && k < f->links.n; k++) {
                if (!intent_is_data_nic(i, &f->links.links[k]))
                        continue;
                judge_rp_filter(i, f, k, &finding);
                r = finding_list_add(l, &finding);
        }
        return r;
}

/* --- Writes ---------------------------------------------------------------------------------------- */

static int add_sysctl(struct plan *p, enum op_kind kind, const struct intent_sysctl *wanted,
                      const struct found_sysctl *found) {
        struct plan_op op = { .kind = kind };

        if (found->error < 0 || streq(found->value, wanted->value))
                return 0;
        finding_set(op.subject, "%s", wanted->name);
        finding_set(op.from, "%s", found->value);
        finding_set(op.to, "%s", wanted->value);
        finding_set(op.source, "%s", wanted->source);
        return plan_add(p, &op);
}

static int add_nic_settings(struct plan *p, const struct intent *i, const struct found *f) {
        int r = 0;

        for (size_t k = 0; r == 0 && k < f->nic_settings.n; k++) {
                const struct found_nic_setting *found = &f->nic_settings.items[k];
                const struct intent_nic_setting *wanted = &i->nic_settings[found->setting];
                const struct link *l = link_by_index(&f->links, found->index);
                struct plan_op op = { .kind = OP_NIC_SETTING + wanted->kind, .index = found->index };

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

static int add_mtu(struct plan *p, const struct intent *i, const struct link *l) {
        struct plan_op op = { .kind = OP_MTU, .index = l->index };
        uint32_t mtu = intent_mtu(i, l, NULL);
        const char *network_source = NULL;

        if (mtu == 0 || l->mtu == 0 || mtu == l->mtu)
                return 0;
        finding_set(op.subject, "%s", l->name);
        finding_set(op.from, "%u", l->mtu);
        finding_set(op.to, "%u", mtu);
        finding_set(op.source, "%s",
                    mtu == i->mtu                                      ? i->mtu_source
                    : mtu == intent_network_mtu(i, l, &network_source) ? network_source
                    : mtu == l->carried_mtu                            ? "what carries it on the host"
                                                                       : "the NIC's own maximum");
        return plan_add(p, &op);
}

static void wanted_rto(const struct intent *i, char buf[static ROUTE_VALUE_MAX]) {
        (void) snprintf(buf, ROUTE_VALUE_MAX, "%ums,lock", (unsigned) (i->rto_min / USEC_PER_MSEC));
}

static int add_route(struct plan *p, const struct intent *i, const struct found *f, const struct route *r) {
        struct plan_op op = { .kind = OP_ROUTE };
        char value[ROUTE_VALUE_MAX], wanted[ROUTE_VALUE_MAX];

        wanted_rto(i, wanted);
        route_value(r, value);
        if (r->expires || r->ambiguous || streq(value, wanted) || !source_is_data_route(i, &f->links, r))
                return 0;
        op.index = r->hops[0];
        op.carrier_changes = link_by_index(&f->links, op.index)->carrier_changes;
        route_subject(r, &f->links, op.subject);
        finding_set(op.from, "%s", value);
        finding_set(op.to, "%s", wanted);
        finding_set(op.source, "%s", i->rto_min_source);
        return plan_add(p, &op);
}

int plan_make(const struct intent *i, const struct found *f, struct plan *ret) {
        _cleanup_plan_ struct plan p = PLAN_NULL;
        int r = 0;

        /* Receive buffers before larger packets: whatever connects in between already has both or the old
         * state of both. */
        for (size_t k = 0; r == 0 && k < i->n_sysctls; k++)
                r = add_sysctl(&p, OP_SYSCTL, &i->sysctls[k], &f->sysctls[k]);
        for (size_t k = 0; r == 0 && !f->container && k < i->n_parameters; k++)
                r = add_sysctl(&p, OP_PARAMETER, &i->parameters[k], &f->parameters[k]);
        if (r == 0)
                r = plan_add_rp_filters(&p, i, f);
        if (r == 0)
                r = add_nic_settings(&p, i, f);
        for (size_t k = 0; r == 0 && k < f->links.n; k++)
                if (intent_is_data_nic(i, &f->links.links[k]))
                        r = add_mtu(&p, i, &f->links.links[k]);
        for (size_t k = 0; r == 0 && i->rto_min > 0 && k < f->routes.n; k++)
                r = add_route(&p, i, f, &f->routes.routes[k]);
        if (r == 0)
                r = plan_add_main_rules(&p, i, f);
        if (r == 0)
                r = plan_add_source(&p, i, f);
        if (r < 0)
                return r;
        *ret = p;
        p = PLAN_NULL;
        return 0;
}

/* --- Verdicts -------------------------------------------------------------------------------------- */

static int judge_profile(const struct intent *i, struct finding_list *l) {
        struct finding f;

        finding_init(&f, "netcfg.profile", "");
        finding_set(f.found, "%s", i->profile);
        f.verdict = VERDICT_OK;
        if (i->no_tpu)
                check_say(&f, WORDS_PROFILE_NONE, i->profile_note);
        else if (i->profile_note[0])
                check_say(&f, WORDS_PROFILE_GENERIC, i->profile_note);
        return finding_list_add(l, &f);
}

static int judge_nics(const struct intent *i, const struct found *f, struct finding_list *l) {
        struct finding finding;
        int r = 0;

        if (i->no_tpu)
                return 0; /* what is wanted of none of them needs no word for each */
        if (f->links_error == 0 && intent_judge_names(i, &f->links, &finding))
                r = finding_list_add(l, &finding);
        for (size_t k = 0; r == 0 && k < f->links.n; k++) {
                if (!intent_is_data_nic(i, &f->links.links[k]))
                        continue;
                intent_judge_mtu(i, &f->links.links[k], &finding);
                r = finding_list_add(l, &finding);
        }
        if (r < 0 || intent_count_data_nics(i, &f->links) > 0)
                return r;
        finding_init(&finding, "nic.mtu", "");
        if (f->links_error < 0)
                finding_set(finding.reason, "the network interfaces cannot be read: %s",
                            strerror(-f->links_error));
        else
                finding_set(finding.reason, "there is no data-centre NIC (Ethernet hardware) on this host");
        return finding_list_add(l, &finding);
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
                const struct link *link = link_by_index(&f->links, f->nic_settings.items[k].index);

                if (!link)
                        continue;
                intent_judge_nic_setting(i, link, &f->nic_settings.items[k], &finding);
                r = finding_list_add(l, &finding);
        }
        return r;
}

static void judge_route(const struct intent *i, const struct found *f, const struct route *r,
                        struct finding *ret) {
        char subject[64], value[ROUTE_VALUE_MAX], wanted[ROUTE_VALUE_MAX];

        wanted_rto(i, wanted);
        route_value(r, value);
        route_subject(r, &f->links, subject);
        finding_init(ret, "route.rto_min", subject);
        finding_set(ret->found, "%s", value);
        finding_set(ret->wanted, "%s", wanted);
        finding_set(ret->source, "%s", i->rto_min_source);
        ret->verdict = streq(value, wanted) ? VERDICT_OK : VERDICT_FAIL;
        if (ret->verdict == VERDICT_OK)
                return;
        if (!r->expires && !r->ambiguous) {
                check_say(ret, WORDS_REPAIR);
                return;
        }
        check_say(ret, WORDS_ROUTE_LEFT,
                  r->expires ? "router advertisements renew it, and changing it would lose its lifetime"
                             : "another route has the same destination and priority, and a change could hit "
                               "either");
}

/* One finding for each route that is wrong, one for all that are right. */
int plan_judge_routes(const struct intent *i, const struct found *f, struct finding_list *l) {
        struct finding finding;
        size_t right = 0;
        int r = 0;

        assert(i->rto_min > 0);
        for (size_t k = 0; r == 0 && k < f->routes.n; k++) {
                if (!source_is_data_route(i, &f->links, &f->routes.routes[k]))
                        continue;
                judge_route(i, f, &f->routes.routes[k], &finding);
                if (finding.verdict == VERDICT_OK)
                        right++;
                else
                        r = finding_list_add(l, &finding);
        }
        finding_init(&finding, "route.rto_min", "");
        finding.verdict = VERDICT_OK;
        finding_set(finding.found, "right on %zu data-centre routes", right);
        finding_set(finding.source, "%s", i->rto_min_source);
        if (f->routes_error < 0) {
                finding = (struct finding) { .verdict = VERDICT_UNKNOWN, .check = "route.rto_min" };
                if (f->routes_error == -E2BIG)
                        finding_set(finding.reason, "there are more than %d routes", ROUTES_MAX);
                else
                        finding_set(finding.reason, "the routes cannot be read: %s",
                                    strerror(-f->routes_error));
        }
        return r < 0 ? r : finding_list_add(l, &finding);
}

int plan_judge_sysctls(const struct intent *i, const struct found *f, struct finding_list *l) {
        struct finding finding;
        int r = 0;

        for (size_t k = 0; r == 0 && k < i->n_sysctls; k++) {
                intent_judge_sysctl(&i->sysctls[k], f->sysctls[k].value, f->sysctls[k].error, &finding);
                r = finding_list_add(l, &finding);
        }
        for (size_t k = 0; r == 0 && k < i->n_parameters; k++) {
                intent_judge_parameter(&i->parameters[k], f->parameters[k].value, f->parameters[k].error,
                                       f->container, &finding);
                r = finding_list_add(l, &finding);
        }
        return r;
}

int plan_findings(const struct intent *i, const struct found *f, struct finding_list *l) {
        int r = judge_profile(i, l);

        if (r == 0)
                r = plan_judge_sysctls(i, f, l);
        if (r == 0)
                r = plan_judge_rp_filters(i, f, l);
        if (r == 0)
                r = judge_nics(i, f, l);
        if (r == 0)
                r = plan_judge_qdiscs(i, f, l);
        if (r == 0)
                r = plan_judge_nic_settings(i, f, l);
        if (r == 0 && i->rto_min > 0)
                r = plan_judge_routes(i, f, l);
        if (r == 0)
                r = plan_judge_source(i, f, l);
        return r < 0 ? r : plan_judge_others(i, f, l);
}
