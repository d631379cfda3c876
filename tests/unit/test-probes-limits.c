/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel, a packet filter and control groups leave to a run: the probe "limits". */
#include "probe-support.h"

static const struct probe_context nothing = { 0 };

/* As long as the kernel offers cubic, which is its own choice. */
static void limits_of_congestion(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;
        const struct finding *f;

        scratch_write(&s, "proc/sys/net/ipv4/tcp_congestion_control", "vegas\n");
        scratch_write(&s, "proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic vegas\n");
        ASSERT_OK(probe(s.path, "limits", &nothing, &got));
        f = find(&got, "limits.tcp", "net.ipv4.tcp_congestion_control");
        ASSERT_STREQ(f->found, "vegas");
        ASSERT_HAS(f->remedy, "sudo sysctl -w net.ipv4.tcp_congestion_control=cubic #");
}

static void limits_of_tracked_connections(void) {
        static const struct {
                const char *n, *most;
                int verdict; /* -1: nothing is said */
                const char *remedy;
        } cases[] = {
                { NULL, NULL, -1, NULL }, /* not loaded */
                { "0\n", "1024\n", -1, NULL },
                { "300\n", "0\n", -1, NULL }, /* as many as there are */
                { "300\n", "262144\n", VERDICT_OK, "" },
                { "229376\n", "262144\n", VERDICT_OK, "" },
                { "229377\n", "262144\n", VERDICT_WARN, "nf_conntrack_max=1048576 #" },
                { "1\n", "1024\n", VERDICT_WARN, "sudo sysctl -w net.netfilter.nf_conntrack_max=262144 #" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;
                bool said = false;

                if (cases[i].n) {
                        scratch_write(&s, "proc/sys/net/netfilter/nf_conntrack_count", cases[i].n);
                        scratch_write(&s, "proc/sys/net/netfilter/nf_conntrack_max", cases[i].most);
                }
                ASSERT_OK(probe(s.path, "limits", &nothing, &got));
                for (size_t k = 0; k < got.findings.n; k++)
                        said |= streq(got.findings.items[k].check, "limits.conntrack");
                ASSERT_EQ(said, cases[i].verdict >= 0);
                if (!said)
                        continue;
                ASSERT_EQ((int) find(&got, "limits.conntrack", "")->verdict, cases[i].verdict);
                ASSERT_HAS(find(&got, "limits.conntrack", "")->remedy, cases[i].remedy);
        }
}

TEST_MAIN(limits_of_congestion, limits_of_tracked_connections)
