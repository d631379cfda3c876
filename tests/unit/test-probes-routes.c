/* SPDX-License-Identifier: Apache-2.0 */
/* What probes say of routes and reverse-path filters: good, missing, garbage and huge. */
#include <linux/rtnetlink.h>

#include "intent.h"
#include "plan.h"
#include "probe-support.h"

#define DUMP_MAX (1 << 20)

static struct intent intent_of(usec_t rto_min) {
        return (struct intent) { .profile = "v6e", .rto_min = rto_min, .rto_min_source = "test",
                                 .source_routing = true, .source_routing_source = "test" };
}

static size_t read_dump(const char *path, char buf[static DUMP_MAX]) {
        FILE *f = fopen(path, "r");
        size_t n;

        ASSERT_TRUE(f != NULL);
        n = fread(buf, 1, DUMP_MAX, f);
        ASSERT_TRUE(n > 0 && n < DUMP_MAX);
        ASSERT_OK(fclose(f));
        return n;
}

static void write_dump(const struct scratch *s, const char *name, const char *data, size_t n) {
        char path[512];
        FILE *f;

        scratch_write(s, name, "");
        scratch_path(s, name, path);
        f = fopen(path, "w");
        ASSERT_TRUE(f && fwrite(data, 1, n, f) == n);
        ASSERT_OK(fclose(f));
}

static void copy_dump(const struct scratch *s, const char *name, const char *fixture) {
        static char buf[DUMP_MAX];

        write_dump(s, name, buf, read_dump(fixture, buf));
}

static void routes_good(void) {
        struct intent wanted = intent_of(5 * USEC_PER_MSEC), none = intent_of(0);
        const struct probe_context c = { .intent = &wanted }, without = { .intent = &none };
        _cleanup_collected_ struct collected got, nothing;

        ASSERT_OK(probe(GOOD, "route", &c, &got));
        ASSERT_EQ(got.findings.n, 5);
        /* Not docker0's; our own tables are route.source's. */
        ASSERT_EQ(find(&got, "route.rto_min", "")->verdict, VERDICT_OK);
        ASSERT_STREQ(find(&got, "route.rto_min", "")->found, "right on 4 data-centre routes");
        ASSERT_OK(probe(GOOD, "route", &without, &nothing));
        ASSERT_EQ(nothing.findings.n, 5);
        ASSERT_STREQ(find(&nothing, "route.foreign", "")->found, "none takes the run's traffic");
        ASSERT_EQ(finding_list_worst(&nothing.findings), VERDICT_OK);
        ASSERT_STREQ(find(&nothing, "route.source", "eth1")->found, "table 847000003: rules 1, routes 4");
}

static void routes_drift(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i = intent_of(5 * USEC_PER_MSEC);
        const struct probe_context c = { .intent = &i };
        _cleanup_collected_ struct collected got;
        const struct finding *f;

        copy_dump(&s, "netlink/links", GOOD "/netlink/links");
        copy_dump(&s, "netlink/routes", GOOD "/netlink/routes.drift");
        copy_dump(&s, "netlink/addresses", GOOD "/netlink/addresses");
        copy_dump(&s, "netlink/rules", GOOD "/netlink/rules.drift");
        ASSERT_OK(probe(s.path, "route", &c, &got));
        f = find(&got, "route.source", "eth0");
        ASSERT_EQ(f->verdict, VERDICT_FAIL);
        ASSERT_HAS(f->reason, "3 to change, first: table 847000002 10.128.0.1/32");
        ASSERT_STREQ(f->found, "table 847000002: rules 0, routes 3");
        f = find(&got, "route.rto_min", "default dev eth0 metric 100");
        ASSERT_EQ(f->verdict, VERDICT_FAIL);
        ASSERT_STREQ(f->found, "none");
        ASSERT_STREQ(f->wanted, "5ms,lock");
        ASSERT_STREQ(f->source, "test");
        ASSERT_STREQ(f->remedy, "sudo tpu-netcfg --once");
        ASSERT_EQ(find(&got, "route.rto_min", "10.129.0.0/20 dev eth1")->verdict, VERDICT_FAIL);
        ASSERT_STREQ(find(&got, "route.rto_min", "")->found, "right on 0 data-centre routes");
}

static void routes_missing_and_garbage(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i = intent_of(5 * USEC_PER_MSEC);
        const struct probe_context c = { .intent = &i };
        _cleanup_collected_ struct collected no_links, no_routes, garbage;

        ASSERT_EQ(probe(s.path, "route", &c, &no_links), -ENODATA);
        ASSERT_EQ(no_links.findings.items[0].verdict, VERDICT_UNKNOWN);
        copy_dump(&s, "netlink/links", GOOD "/netlink/links");
        ASSERT_OK(probe(s.path, "route", &c, &no_routes));
        ASSERT_EQ(no_routes.findings.n, 2);
        ASSERT_EQ(find(&no_routes, "route.source", "")->verdict, VERDICT_UNKNOWN);
        ASSERT_EQ(find(&no_routes, "route.rto_min", "")->verdict, VERDICT_UNKNOWN);
        scratch_write(&s, "netlink/routes", "default via 10.0.0.1, they say");
        ASSERT_OK(probe(s.path, "route", &c, &garbage));
        ASSERT_EQ(garbage.findings.n, 2);
        ASSERT_EQ(find(&garbage, "route.rto_min", "")->verdict, VERDICT_UNKNOWN);
}

/* One route more than we take. */
static void routes_huge(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i = intent_of(5 * USEC_PER_MSEC);
        const struct probe_context c = { .intent = &i };
        static char one[DUMP_MAX], many[DUMP_MAX];
        size_t n = read_dump(GOOD "/netlink/routes", one), len, done = 20, at = 0;
        _cleanup_collected_ struct collected got;

        len = NLMSG_ALIGN(((const struct nlmsghdr *) (const void *) one)->nlmsg_len);
        for (unsigned k = 0; k <= ROUTES_MAX; k++, at += len) {
                ASSERT_TRUE(at + len + done < sizeof(many));
                memcpy(many + at, one, len);
        }
        memcpy(many + at, one + n - done, done);
        copy_dump(&s, "netlink/links", GOOD "/netlink/links");
        write_dump(&s, "netlink/routes", many, at + done);
        ASSERT_OK(probe(s.path, "route", &c, &got));
        ASSERT_EQ(got.findings.n, 2);
        ASSERT_EQ(got.findings.items[0].verdict, VERDICT_UNKNOWN);
        ASSERT_HAS(got.findings.items[0].reason, "more than 6144");
}

/* Someone else's rules by the thousand. */
static void rules_huge(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i = intent_of(0);
        const struct probe_context c = { .intent = &i };
        static char one[DUMP_MAX], many[DUMP_MAX];
        size_t n = read_dump(GOOD "/netlink/rules", one), len, done = 20, at = 0;
        _cleanup_collected_ struct collected got;

        len = NLMSG_ALIGN(((const struct nlmsghdr *) (const void *) one)->nlmsg_len);
        for (unsigned k = 0; k <= RULES_MAX; k++, at += len) {
                ASSERT_TRUE(at + len + done < sizeof(many));
                memcpy(many + at, one, len);
        }
        memcpy(many + at, one + n - done, done);
        copy_dump(&s, "netlink/links", GOOD "/netlink/links");
        copy_dump(&s, "netlink/routes", GOOD "/netlink/routes");
        copy_dump(&s, "netlink/addresses", GOOD "/netlink/addresses");
        write_dump(&s, "netlink/rules", many, at + done);
        ASSERT_OK(probe(s.path, "route", &c, &got));
        ASSERT_EQ(find(&got, "route.source", "")->verdict, VERDICT_UNKNOWN);
        ASSERT_HAS(find(&got, "route.source", "")->reason,
                   "more routes, rules or addresses than are handled");
}

static void rp_filters(void) {
        static const struct {
                const char *all, *eth0;
                bool loose;
                enum verdict verdict;
        } cases[] = {
                { "0\n", "2\n", true, VERDICT_OK },       { "1\n", "2\n", true, VERDICT_OK },
                { "0\n", "1\n", true, VERDICT_FAIL },     { "1\n", "0\n", true, VERDICT_FAIL },
                { "0\n", "1\n", false, VERDICT_WARN },    { "0\n", "", true, VERDICT_UNKNOWN },
                { "0\n", "-1\n", true, VERDICT_UNKNOWN }, { "\033[2J\n", "2\n", true, VERDICT_UNKNOWN },
                { "0\n", NULL, true, VERDICT_UNKNOWN },
                { "0\n", "99999999999999999999999\n", true, VERDICT_UNKNOWN },
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                struct intent i = { .profile = "v6e", .loose_rp_filter = cases[k].loose };
                const struct probe_context c = { .intent = &i };
                _cleanup_collected_ struct collected got;
                const struct finding *f;

                copy_dump(&s, "netlink/links", GOOD "/netlink/links");
                scratch_write(&s, "proc/sys/net/ipv4/conf/all/rp_filter", cases[k].all);
                if (cases[k].eth0)
                        scratch_write(&s, "proc/sys/net/ipv4/conf/eth0/rp_filter", cases[k].eth0);
                ASSERT_OK(probe(s.path, "rp_filter", &c, &got));
                ASSERT_EQ(got.findings.n, 2);
                f = find(&got, "sysctl", "net.ipv4.conf.eth0.rp_filter");
                ASSERT_STREQ(verdict_name(f->verdict), verdict_name(cases[k].verdict));
                ASSERT_EQ(find(&got, "sysctl", "net.ipv4.conf.eth1.rp_filter")->verdict, VERDICT_UNKNOWN);
        }
}

static void rp_filters_of_the_good_machine(void) {
        struct intent i = { .profile = "v6e", .loose_rp_filter = true }, one = i;
        const struct probe_context c = { .intent = &i }, single = { .intent = &one };
        _cleanup_collected_ struct collected got, alone;

        ASSERT_OK(probe(GOOD, "rp_filter", &c, &got));
        ASSERT_EQ(got.findings.n, 2);
        ASSERT_EQ(finding_list_worst(&got.findings), VERDICT_OK);
        (void) snprintf(one.nics, sizeof(one.nics), "eth0");
        ASSERT_OK(probe(GOOD, "rp_filter", &single, &alone));
        ASSERT_EQ(alone.findings.n, 1);
        ASSERT_EQ(find(&alone, "sysctl", "rp_filter")->verdict, VERDICT_OK);
}

TEST_MAIN(routes_good, routes_drift, routes_missing_and_garbage, routes_huge, rules_huge, rp_filters,
          rp_filters_of_the_good_machine)
