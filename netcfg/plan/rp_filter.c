/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "rp_filter.h"

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

static void read_one(const struct host *h, const char *nic, struct found_rp_filter *ret) {
        char name[64], value[16] = "", *end;

        rp_filter_name(nic, name);
        ret->error = intent_read_sysctl(h, name, value, sizeof(value));
        ret->value = (unsigned) strtoul(value, &end, 10);
        if (ret->error == 0 && (value[0] < '0' || value[0] > '9' || *end))
                ret->error = -EBADMSG;
}

void plan_read_rp_filters(const struct host *h, const struct intent *i, struct found *f) {
        read_one(h, "all", &f->rp_filter_all);
        for (size_t k = 0; k < f->links.n; k++)
                if (intent_is_data_nic(i, &f->links.links[k]))
                        read_one(h, f->links.links[k].name, &f->rp_filters[k]);
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
                struct op op = { .kind = OP_SYSCTL, .index = f->links.links[k].index };

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

static void judge(const struct intent *i, const struct found *f, size_t k, struct finding *ret) {
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
                judge(i, f, k, &finding);
                r = finding_list_add(l, &finding);
        }
        return r;
}
