/* SPDX-License-Identifier: Apache-2.0 */
#include "intent.h"
#include "links.h"
#include "machine_of.h"
#include "nic_setting.h"
#include "paths.h"
#include "probe.h"

/* The settings of data-centre NICs that the profile wants: features, private flags, sizes of packets. */

/* Checks nic.feature, nic.private_flag, nic.gso_max_size and so on. -ENOMEM. */
static int nic_look_at_settings(const struct host *h, const struct intent *i, const struct link_table *links,
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

/* The device behind a data-centre NIC: driver, speed and queues by sysfs, and how many NICs there should be.
 */

#define NET "/sys/class/net"

static void tell(const char *check, const char *nic, const char *found, struct sink *s) {
        struct finding f;

        finding_init(&f, check, nic);
        f.verdict = VERDICT_OK;
        finding_set(f.found, "%s", found);
        (void) make_printable(f.found);
        s->finding(s, &f);
}

struct queues {
        unsigned rx, tx;
};

static int count_queue(const char *name, void *userdata) {
        struct queues *q = userdata;

        q->rx += startswith(name, "rx-");
        q->tx += startswith(name, "tx-");
        return 0;
}

/*
 * nic.driver, nic.speed and nic.queues, as far as there is a device (a veth has none) and it says so: told
 * for comparison between hosts, judged by nobody, since no source wants a value.
 */
static void nic_look_at_device(const struct host *h, const char *nic, struct sink *s) {
        struct queues q = { 0 };
        char path[128], text[64];
        struct finding f;
        uint64_t mbit;
        int r;

        (void) snprintf(path, sizeof(path), NET "/%s/device/driver", nic);
        r = host_link_name(h, path, text, sizeof(text));
        if (r == -ENOENT)
                return; /* a veth has no device */
        if (r == 0)
                tell("nic.driver", nic, text, s);
        else {
                finding_init(&f, "nic.driver", nic);
                finding_set(f.reason, "%s cannot be read: %s", path, strerror(-r));
                s->finding(s, &f);
        }
        (void) snprintf(path, sizeof(path), NET "/%s/speed", nic);
        /* A driver that does not know its speed answers -1, or an error. */
        if (host_read_u64(h, path, &mbit) == 0 && mbit > 0 && mbit < 10000000) {
                (void) snprintf(text, sizeof(text), "%" PRIu64 " Mbit/s", mbit);
                tell("nic.speed", nic, text, s);
        }
        (void) snprintf(path, sizeof(path), NET "/%s/queues", nic);
        if (host_list(h, path, count_queue, &q) == 0 && q.rx + q.tx > 0) {
                (void) snprintf(text, sizeof(text), "%u receive, %u transmit", q.rx, q.tx);
                tell("nic.queues", nic, text, s);
        }
}

/* nic.count: found (at least 1) against the machine type. */
static void nic_check_count(const struct host *h, size_t found, const struct probe_context *c, struct sink *s) {
        struct machine_type m = { 0 };
        struct finding f;

        (void) machine_of(h, c, &m); /* unknown: no number is wanted */
        finding_init(&f, "nic.count", NULL);
        finding_set(f.found, "%zu", found);
        f.verdict = VERDICT_OK;
        if (m.nics > 0) {
                finding_set(f.wanted, "%u", m.nics);
                finding_set(f.source, "%s", m.source);
        }
        if (found < m.nics) {
                f.verdict = VERDICT_WARN;
                finding_set(f.reason, "traffic between slices has fewer NICs than this machine type offers");
                finding_set(f.remedy,
                            "create the VM with a second --network-interface in a network of its own");
        }
        s->finding(s, &f);
}

/* Every data-centre NIC: link, carrier, MTU against the rule and its other settings. */

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
        put_int(s, METRIC_NIC_UP, l->up && l->carrier, nic, nic, NULL);
        if (l->mtu != 0)
                put_int(s, METRIC_NIC_MTU, l->mtu, nic, NULL, NULL);
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

int probe_nic(const struct host *h, const struct probe_context *c, struct sink *s) {
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
