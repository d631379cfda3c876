/* SPDX-License-Identifier: Apache-2.0 */
/* Every data-centre NIC: link, carrier, MTU against the rule and its other settings. */
#include "emit.h"
#include "intent.h"
#include "links.h"
#include "nic_device.h"
#include "nic_settings.h"
#include "paths.h"

#define NIC_KEY "network.interface.name"

/* OpenTelemetry semantic conventions 1.44, hw.network.*. What went through it: probes/metrics/nics.h. */
static const struct metric metric_up = { "hw.network.up", "1", "1: administratively up and with carrier",
                                         SAMPLE_GAUGE };
static const struct metric metric_mtu = { "tpu.nic.mtu", "By", "MTU of a NIC", SAMPLE_GAUGE };

static void check_link(const struct link *l, const char *nic, struct sink *s) {
        struct finding f;

        finding_init(&f, "nic.link", nic);
        finding_set(f.found, "%s", !l->up ? "down" : l->carrier ? "up" : "up, no carrier");
        finding_set(f.wanted, "up");
        finding_set(f.source, "every data-centre NIC carries the run");
        f.verdict = l->up && l->carrier ? VERDICT_OK : VERDICT_FAIL;
        if (!l->up) {
                finding_set(f.reason, "the interface was set down");
                finding_set(f.remedy, "ip link set dev %s up", nic);
        } else if (!l->carrier) {
                finding_set(f.reason, "no carrier: the other end of the link is down or not connected");
                finding_set(f.remedy, "ip -d -s link show dev %s", nic);
        }
        s->finding(s, &f);
}

static void check_mtu(const struct probe_context *c, const struct link *l, const char *nic, struct sink *s) {
        struct finding f;

        if (c->intent && l->mtu != 0) {
                intent_judge_mtu(c->intent, l, &f); /* the same words as tpu-netcfg's */
                (void) make_printable(f.subject);
                s->finding(s, &f);
                return;
        }
        finding_init(&f, "nic.mtu", nic);
        if (l->mtu == 0)
                finding_set(f.reason, "the kernel did not say this NIC's MTU");
        else {
                finding_set(f.found, "%u", l->mtu);
                finding_set(f.reason, "no profile could be read, so it is not known what is wanted");
                finding_set(f.remedy, "ls -l " PATH_PROFILES);
        }
        s->finding(s, &f);
}

static void look_at(const struct host *h, const struct probe_context *c, const struct link *l,
                    struct sink *s) {
        char nic[IF_NAMESIZE];

        memcpy(nic, l->name, sizeof(nic));
        nic[sizeof(nic) - 1] = '\0';
        check_link(l, make_printable(nic), s);
        check_mtu(c, l, nic, s);
        emit_int(s, &metric_up, l->up && l->carrier, NIC_KEY, nic, "hw.id", nic);
        if (l->mtu != 0)
                emit_int(s, &metric_mtu, l->mtu, NIC_KEY, nic, NULL, NULL);
        nic_look_at_device(h, nic, s);
}

static void no_nic(size_t n_links, struct sink *s) {
        struct finding f;

        finding_init(&f, "nic.count", NULL);
        f.verdict = VERDICT_FAIL;
        finding_set(f.found, "no data-centre NIC");
        finding_set(f.wanted, "at least one");
        finding_set(f.source, "a run needs a network");
        finding_set(f.reason, "none of the %zu interfaces is an Ethernet NIC of this host", n_links);
        finding_set(f.remedy, "ip -d link show");
        s->finding(s, &f);
}

static int run(const struct host *h, const struct probe_context *c, struct sink *s) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        size_t found = 0;
        int r;

        r = links_read(h, &t);
        if (r < 0)
                return r;
        for (size_t i = 0; i < t.n; i++)
                if (c->intent ? intent_is_data_nic(c->intent, &t.links[i]) : link_is_data_nic(&t.links[i])) {
                        look_at(h, c, &t.links[i], s);
                        found++;
                }
        if (found == 0)
                no_nic(t.n, s);
        else
                nic_check_count(h, found, c, s);
        return c->intent ? nic_look_at_settings(h, c->intent, &t, s) : 0;
}

const struct probe probe_nic = {
        .name = "nic",
        .summary = "data-centre NICs: link, carrier, MTU, features",
        .group = GROUP_NETWORK,
        .interval = 10 * USEC_PER_SEC,
        .timeout = 2 * USEC_PER_SEC,
        .run = run,
};
