/* SPDX-License-Identifier: Apache-2.0 */
/* Whom to ask for a path's peer, and reports that follow one another. */
#include "check_path.h"
#include "test.h"

static void test_names(void) {
        static const struct {
                const char *nic, *peer, *wanted;
        } cases[] = {
                { "eth0", "h3", "h3" },
                { "eth1", "h3-eth1", "h3" },
                { "eth0", "h3-eth1", "h3-eth1" }, /* another NIC's name: a host may be called so */
                { "eth1", "-eth1", "-eth1" },
                { "eth1", "eth1", "eth1" },
                { "eth1", "10.10.1.13", "10.10.1.13" },
                { "eth1", "fd00::13", "fd00::13" },
                { "", "h3", "h3" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct path_result r = { 0 };
                char name[PATH_NAME_MAX];

                (void) snprintf(r.nic, sizeof(r.nic), "%s", cases[i].nic);
                (void) snprintf(r.peer, sizeof(r.peer), "%s", cases[i].peer);
                peer_agents_name(&r, name);
                ASSERT_STREQ(name, cases[i].wanted);
        }
}

static void test_reports(void) {
        static const char one[] = "{\"host\":\"h\",\"time\":\"2026-11-21T05:00:00Z\",\"verdict\":\"OK\","
                                  "\"checks\":[],\"results\":[],\"paths\":0,"
                                  "\"packets\":0,\"seconds\":0.0}";
        struct ctl_reports l = { 0 };
        char text[2 * sizeof(one) + 8], why[PATH_REPORT_WHY_MAX] = "";

        (void) snprintf(text, sizeof(text), "%s\n \t%s\n", one, one);
        ASSERT_OK(ctl_reports_add(&l, text, strlen(text), why));
        ASSERT_EQ(l.n, 2);
        ASSERT_OK(ctl_reports_add(&l, one, strlen(one), why)); /* adds to what is there */
        ASSERT_EQ(l.n, 3);
        (void) snprintf(text, sizeof(text), "%s x", one);
        ASSERT_TRUE(ctl_reports_add(&l, text, strlen(text), why) < 0);
        ASSERT_TRUE(why[0] != '\0');
        ASSERT_TRUE(ctl_reports_add(&l, "", 0, why) < 0);
        ctl_reports_clear(&l);
}

TEST_MAIN(test_names, test_reports)
