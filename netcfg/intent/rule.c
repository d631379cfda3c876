/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "intent.h"
#include "network.h"

/* The network's MTU is not known: up to what the device itself states, never down. 0: the device states
 * nothing. */
static uint32_t raised_to_what_is_stated(const struct intent *i, const struct link *l) {
        uint32_t stated = link_stated_mtu(l);

        if (stated < INTENT_MTU_MIN)
                return 0;
        return MAX(MIN(i->mtu, stated), l->mtu);
}

/* The host's NIC behind it is held to the network's MTU already, which is all the same heeded if known. */
static uint32_t mtu_of_made(const struct intent *i, const struct link *l, uint32_t network) {
        uint32_t mtu = l->carried_by[0] ? MIN(i->mtu, l->carried_mtu) : l->mtu;

        if (network > 0)
                mtu = MIN(mtu, network);
        return l->max_mtu > 0 ? MIN(mtu, l->max_mtu) : mtu;
}

uint32_t intent_mtu(const struct intent *i, const struct link *l, const char **ret_why) {
        uint32_t mtu = 0, network = intent_network_mtu(i, l, NULL);
        const char *why = NULL;

        if (i->mtu == 0)
                why = "the profile wants no MTU";
        else if (l->carried_mtu > 0)
                mtu = mtu_of_made(i, l, network);
        else if (network == 0) {
                mtu = raised_to_what_is_stated(i, l);
                if (mtu == 0)
                        why = "the network's own MTU is not known, and a NIC above it loses every large "
                              "packet";
        } else {
                mtu = MIN(i->mtu, network);
                if (l->max_mtu > 0)
                        mtu = MIN(mtu, l->max_mtu);
        }
        if (mtu > 0 && mtu < l->min_mtu) {
                why = "the NIC's smallest MTU is above what its network carries";
                mtu = 0;
        }
        if (ret_why)
                *ret_why = why;
        return mtu;
}

static void judge_unknown_mtu(const struct intent *i, uint32_t network, const char *why, struct finding *f) {
        if (i->mtu > 0 && network == 0) {
                check_say(f, WORDS_MTU_UNKNOWN, why);
                return;
        }
        f->verdict = i->mtu == 0 ? VERDICT_OK : VERDICT_FAIL;
        finding_set(f->reason, "%s", why);
}

static void judge_stated_mtu(const struct intent *i, const struct link *l, struct finding *f) {
        uint32_t stated = link_stated_mtu(l);
        char text[16];

        (void) snprintf(text, sizeof(text), "%u", stated);
        if (stated >= i->mtu)
                finding_set(f->reason, "the network's own MTU is not known; the NIC's device states %u",
                            stated);
        else
                check_say(f, WORDS_MTU_STATED, text, f->wanted);
}

static void judge_carried_mtu(const struct link *l, uint32_t allowed, struct finding *f) {
        f->verdict = verdict_worse(f->verdict, VERDICT_WARN);
        if (l->carried_by[0])
                finding_set(f->reason, "its packets pass %s of the host, which carries %u", l->carried_by,
                            l->carried_mtu);
        else
                finding_set(f->reason,
                            "its other end is not in the host's own network namespace, so what carries its "
                            "packets is not known: never raised");
        if (l->mtu != allowed)
                return; /* first things first */
        check_say(f, WORDS_MTU_CARRIED);
}

void intent_judge_mtu(const struct intent *i, const struct link *l, struct finding *ret) {
        const char *why = NULL;
        const char *network_source = NULL;
        char text[16];
        uint32_t allowed = intent_mtu(i, l, &why), network = intent_network_mtu(i, l, &network_source);

        finding_init(ret, "nic.mtu", l->name);
        finding_set(ret->found, "%u", l->mtu);
        finding_set(ret->source, "%s", i->mtu_source);
        if (i->mtu > 0)
                finding_set(ret->wanted, "%u", i->mtu);
        if (allowed == 0) {
                judge_unknown_mtu(i, network, why, ret);
                return;
        }
        ret->verdict = l->mtu == allowed ? VERDICT_OK : VERDICT_FAIL;
        if (l->carried_mtu > 0 && (network == 0 || network > allowed)) {
                if (allowed != i->mtu)
                        judge_carried_mtu(l, allowed, ret);
        } else if (network == 0) {
                judge_stated_mtu(i, l, ret);
        } else if (network < i->mtu) {
                (void) snprintf(text, sizeof(text), "%u", network);
                check_say(ret, WORDS_MTU_NETWORK, text, network_source, ret->wanted);
        } else if (allowed < i->mtu) {
                ret->verdict = verdict_worse(ret->verdict, VERDICT_WARN);
                (void) snprintf(text, sizeof(text), "%u", l->max_mtu);
                check_say(ret, WORDS_MTU_NIC, text);
        }
        if (l->mtu == allowed || ret->remedy[0])
                return;
        (void) snprintf(text, sizeof(text), "%u", l->xdp);
        check_say(ret, l->xdp > 0 && l->mtu < allowed ? WORDS_MTU_XDP : WORDS_REPAIR, text);
}
