/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "ethtool.h"
#include "nic_setting.h"

void found_nic_settings_clear(struct found_nic_settings *f) {
        free(f->items);
        *f = FOUND_NIC_SETTINGS_NULL;
}

const char *nic_setting_check(enum nic_setting_kind k) {
        static const char *const names[] = {
                [NIC_FEATURE] = "nic.feature",
                [NIC_PRIVATE_FLAG] = "nic.private_flag",
        };

        _Static_assert(ELEMENTSOF(names) == _NIC_SETTING_KIND_MAX, "every kind has a check");
        return names[k];
}

void nic_setting_subject(const struct intent_nic_setting *s, const struct link *l, char buf[static 64]) {
        (void) snprintf(buf, 64, "%s %s", l->name, s->name);
}

bool nic_setting_is_due(const struct intent *i, const struct found_nic_setting *f) {
        return f->error == 0 && f->offer == NIC_SETTABLE &&
               !streq(f->value, i->nic_settings[f->setting].value);
}

/* --- Reading ------------------------------------------------------------------------------------------ */

static bool applies(const struct intent_nic_setting *s, const struct link *l) {
        return !s->driver[0] || streq(s->driver, l->driver);
}

static void take_bit(const struct intent_nic_setting *s, const struct ethtool_bit *b,
                     struct found_nic_setting *f) {
        bool wanted = streq(s->value, "on");

        if (!b->known) {
                f->offer = s->kind == NIC_FEATURE ? NIC_NOT_OF_KERNEL : NIC_NOT_OF_DRIVER;
                return;
        }
        (void) snprintf(f->value, sizeof(f->value), "%s", b->active ? "on" : "off");
        if (!b->changeable)
                f->offer = NIC_FIXED;
        else if (b->active != wanted && b->requested == wanted)
                f->offer = NIC_HELD_BACK;
}

/* All settings of the NIC that one answer tells. e is NULL, and error why, where nothing can be asked. */
static void read_bits(struct ethtool *e, int error, enum ethtool_group g, const struct intent *i,
                      struct found_nic_setting *f, size_t n) {
        enum nic_setting_kind kind = g == ETHTOOL_FEATURES ? NIC_FEATURE : NIC_PRIVATE_FLAG;
        struct ethtool_bit bits[INTENT_NIC_SETTINGS_MAX];
        size_t n_bits = 0, at = 0;

        for (size_t k = 0; k < n; k++)
                if (i->nic_settings[f[k].setting].kind == kind)
                        bits[n_bits++] = (struct ethtool_bit){ .name = i->nic_settings[f[k].setting].name };
        if (n_bits == 0)
                return;
        if (e)
                error = ethtool_read(e, g, f->index, bits, n_bits);
        for (size_t k = 0; k < n; k++) {
                const struct intent_nic_setting *s = &i->nic_settings[f[k].setting];

                if (s->kind != kind)
                        continue;
                if (error == -EOPNOTSUPP && g == ETHTOOL_PRIVATE_FLAGS)
                        f[k].offer = NIC_NOT_OF_DRIVER;
                else if (error < 0)
                        f[k].error = error;
                else
                        take_bit(s, &bits[at++], &f[k]);
        }
}

static int add_nic(struct found_nic_settings *list, const struct intent *i, const struct link *l) {
        struct found_nic_setting *grown =
                reallocarray(list->items, list->n + i->n_nic_settings, sizeof(*list->items));

        if (!grown)
                return -ENOMEM;
        list->items = grown;
        for (size_t k = 0; k < i->n_nic_settings; k++)
                if (applies(&i->nic_settings[k], l))
                        list->items[list->n++] =
                                (struct found_nic_setting) { .index = l->index, .setting = k };
        return 0;
}

int nic_settings_read(const struct host *h, const struct intent *i, const struct link_table *links,
                      struct found_nic_settings *ret) {
        _cleanup_found_nic_settings_ struct found_nic_settings list = FOUND_NIC_SETTINGS_NULL;
        _cleanup_ethtool_ struct ethtool e = ETHTOOL_NULL;
        int error = i->n_nic_settings > 0 ? ethtool_open(h, &e) : 0;

        for (size_t k = 0; i->n_nic_settings > 0 && k < links->n; k++) {
                const struct link *l = &links->links[k];
                size_t from = list.n;

                if (!intent_is_data_nic(i, l))
                        continue;
                if (add_nic(&list, i, l) < 0)
                        return -ENOMEM;
                for (enum ethtool_group g = 0; g < _ETHTOOL_GROUP_MAX; g++)
                        read_bits(error < 0 ? NULL : &e, error, g, i, list.items + from, list.n - from);
        }
        *ret = list;
        list = FOUND_NIC_SETTINGS_NULL;
        return 0;
}

/* --- The verdict -------------------------------------------------------------------------------------- */

static void say_unread(int error, struct finding *f) {
        if (error == -EPROTONOSUPPORT || error == -EOPNOTSUPP)
                finding_set(f->reason, "this kernel does not tell it over netlink (Linux does from 5.7 on)");
        else if (error == -ENODATA)
                finding_set(f->reason, "the kernel gave no answer about this NIC");
        else
                finding_set(f->reason, "cannot be read: %s", strerror(-error));
}

/* Nothing that anyone could do on this host. */
static void say_not_offered(const struct intent_nic_setting *s, const struct link *l,
                            const struct found_nic_setting *found, struct finding *f) {
        const char *driver = l->driver[0] ? l->driver : l->kind[0] ? l->kind : "this driver";

        f->verdict = VERDICT_OK;
        switch (found->offer) {
        case NIC_NOT_OF_DRIVER:
                finding_set(f->found, "not offered by %s", driver);
                return;
        case NIC_NOT_OF_KERNEL:
                f->verdict = VERDICT_UNKNOWN;
                finding_set(f->reason, "this kernel knows no feature of that name");
                return;
        case NIC_FIXED:
                finding_set(f->found, "%s, fixed by %s", found->value, driver);
                return;
        case NIC_HELD_BACK:
                if (l->kind[0] && !streq(l->kind, "veth")) { /* a macvlan or vlan: set on the NIC below it */
                        finding_set(f->found, "%s, as the NIC below this %s has it", found->value, l->kind);
                        return;
                }
                finding_set(f->found, "%s", found->value);
                check_say(f, WORDS_NIC_HELD_BACK, found->value, l->name, s->name);
                return;
        case NIC_SETTABLE:
                return;
        }
}

void intent_judge_nic_setting(const struct intent *i, const struct link *l,
                              const struct found_nic_setting *f, struct finding *ret) {
        const struct intent_nic_setting *s = &i->nic_settings[f->setting];
        char subject[64];

        nic_setting_subject(s, l, subject);
        finding_init(ret, nic_setting_check(s->kind), subject);
        finding_set(ret->wanted, "%s", s->value);
        finding_set(ret->source, "%s", s->source);
        if (f->error < 0)
                say_unread(f->error, ret);
        else if (streq(f->value, s->value) || f->offer == NIC_SETTABLE) {
                finding_set(ret->found, "%s", f->value);
                ret->verdict = streq(f->value, s->value) ? VERDICT_OK : VERDICT_FAIL;
        } else
                say_not_offered(s, l, f, ret);
        if (ret->verdict == VERDICT_FAIL)
                check_say(ret, WORDS_REPAIR);
}

/* --- Its queue ----------------------------------------------------------------------------------------- */

/* On hardware none is the kernel's own choice; a bridge or veth has none. */
static bool has_no_queue(const struct qdisc *root, const struct link *nic) {
        return root && root->handle != 0 && streq(root->kind, "noqueue") && !nic->kind[0];
}

bool nic_qdisc_judge(const struct qdisc_table *t, const struct link *nic, struct finding *ret) {
        const struct qdisc *limit = qdisc_that_limits(t, nic->index), *root = qdisc_root(t, nic->index);
        unsigned bare = qdisc_queues_bare(t, nic->index, nic->tx_queues);
        char words[QDISC_WORDS_MAX], drops[24];

        if (!limit && !root)
                return false;
        if (!limit && (bare > 0 || has_no_queue(root, nic))) {
                check_begin(ret, WORDS_NIC_QUEUE_BARE, nic->name);
                finding_set(ret->found, "%s", root->kind);
                if (bare > 0)
                        finding_set(ret->found, "%s, queues without a discipline: %u", root->kind, bare);
                check_say(ret, bare > 0 ? WORDS_NIC_QUEUE_BARE : WORDS_NIC_QUEUE_NONE);
                return true;
        }
        (void) snprintf(drops, sizeof(drops), "%" PRIu64, qdisc_drops(t, nic->index));
        if (!limit && nic->queue > 0 && nic->queue < QDISC_PACKETS_MIN &&
            qdisc_is_there(t, nic->index, "pfifo_fast")) { /* the one that goes by it */
                check_begin(ret, WORDS_NIC_QUEUE_SHORT, nic->name);
                finding_set(ret->found, "pfifo_fast, txqueuelen %" PRIu32, nic->queue);
                check_say(ret, WORDS_NIC_QUEUE_SHORT, drops);
                return true;
        }
        check_begin(ret, limit ? WORDS_NIC_QDISC_LIMITS : WORDS_NIC_QDISC, nic->name);
        finding_set(ret->found, "%s", qdisc_words(limit ? limit : root, words));
        check_say(ret, limit ? WORDS_NIC_QDISC_LIMITS : WORDS_NIC_QDISC, drops);
        return true;
}
