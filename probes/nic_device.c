/* SPDX-License-Identifier: Apache-2.0 */
#include "nic_device.h"

#include "emit.h"
#include "machine_of.h"

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

void nic_look_at_device(const struct host *h, const char *nic, struct sink *s) {
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

void nic_check_count(const struct host *h, size_t found, const struct probe_context *c, struct sink *s) {
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
