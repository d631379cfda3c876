/* SPDX-License-Identifier: Apache-2.0 */
#include "intent.h"
#include "network.h"

uint32_t intent_mtu(const struct intent *i, const struct link *l, const char **ret_why) {
        uint32_t mtu = 0, network = intent_network_mtu(i, l, NULL);
        const char *why = NULL;

        if (i->mtu == 0)
                why = "the profile wants no MTU";
        else if (network == 0)
                why = "the network's own MTU is not known, and a NIC above it loses every large packet";
        else {
                mtu = MIN(i->mtu, network);
                if (l->max_mtu > 0)
                        mtu = MIN(mtu, l->max_mtu);
                if (mtu < l->min_mtu) {
                        why = "the NIC's smallest MTU is above what its network carries";
                        mtu = 0;
                }
        }
        if (ret_why)
                *ret_why = why;
        return mtu;
}

static void judge_unknown_mtu(const struct intent *i, uint32_t network, const char *why, struct finding *f) {
        f->verdict = i->mtu == 0 ? VERDICT_OK : VERDICT_UNKNOWN;
        finding_set(f->reason, "%s", why);
        if (i->mtu > 0 && network == 0)
                finding_set(f->remedy,
                            "gcloud compute networks describe NETWORK --format='value(mtu)', then write what it "
                            "says into /etc/tpu-hostd/identity.conf.d/10-network.conf, two lines: [Network] "
                            "and Mtu=NUMBER");
        else if (i->mtu > 0)
                f->verdict = VERDICT_FAIL;
}

void intent_judge_mtu(const struct intent *i, const struct link *l, struct finding *ret) {
        const char *why = NULL;
        const char *network_source = NULL;
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
        if (network < i->mtu) {
                ret->verdict = VERDICT_FAIL;
                finding_set(ret->reason, "the network carries %u (%s); a NIC is never set above that",
                            network, network_source);
                finding_set(ret->remedy, "gcloud compute networks update NETWORK --mtu=%u", i->mtu);
        } else if (allowed < i->mtu) {
                ret->verdict = verdict_worse(ret->verdict, VERDICT_WARN);
                finding_set(ret->reason, "the NIC's own maximum is %u", l->max_mtu);
                finding_set(ret->remedy, "use a NIC of type GVNIC: gcloud compute instances create … "
                                         "--network-interface=nic-type=GVNIC");
        }
        if (l->mtu != allowed && !ret->remedy[0])
                finding_set(ret->remedy, "tpu-netcfg --once");
}

void intent_judge_sysctl(const struct intent_sysctl *s, const char *value, int error, struct finding *ret) {
        char text[sizeof(ret->found)] = "";

        finding_init(ret, "sysctl", s->name);
        finding_set(ret->wanted, "%s", s->value);
        finding_set(ret->source, "%s", s->source);
        if (error == 0 && value) {
                (void) snprintf(text, sizeof(text), "%s", value);
                intent_sysctl_normalize(text);
                finding_set(ret->found, "%s", text);
                ret->verdict = streq(text, s->value) ? VERDICT_OK : VERDICT_FAIL;
                if (ret->verdict == VERDICT_FAIL)
                        finding_set(ret->remedy, "tpu-netcfg --once");
                return;
        }
        if (error == -ENOENT)
                finding_set(ret->reason, "this kernel has no such sysctl");
        else
                finding_set(ret->reason, "cannot be read: %s", strerror(error < 0 ? -error : EIO));
}

int intent_sysctl_path(const char *name, char *buf, size_t size) {
        static const char prefix[] = "/proc/sys/";
        size_t n = strlen(name), p = strlen(prefix);

        if (n == 0 || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-")])
                return -EINVAL;
        if (name[0] == '.' || name[n - 1] == '.' || strstr(name, ".."))
                return -EINVAL;
        if (p + n >= size)
                return -ENAMETOOLONG;
        memcpy(buf, prefix, p);
        for (size_t i = 0; i <= n; i++)
                buf[p + i] = name[i];
        for (size_t i = 0; i < n; i++)
                if (buf[p + i] == '.')
                        buf[p + i] = '/';
        return 0;
}

void intent_sysctl_normalize(char *value) {
        char *to = value;

        for (const char *from = value; *from; from++) {
                if (strchr(" \t\r\n", *from)) {
                        if (to != value && to[-1] != ' ')
                                *to++ = ' ';
                } else
                        *to++ = *from;
        }
        if (to != value && to[-1] == ' ')
                to--;
        *to = '\0';
}
