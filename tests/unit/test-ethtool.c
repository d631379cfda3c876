/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>

#include "ethtool.h"
#include "scratch.h"
#include "test.h"

#define GOOD FIXTURES "/machine-v6e-4t"

static size_t read_fixture(const char *path, unsigned char *buf, size_t size) {
        FILE *f = fopen(path, "r");
        size_t n;

        ASSERT_TRUE(f != NULL);
        n = fread(buf, 1, size, f);
        ASSERT_TRUE(n > 0 && n < size);
        ASSERT_OK(fclose(f));
        return n;
}

static void test_recorded(void) {
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_ethtool_ struct ethtool e = ETHTOOL_NULL;
        struct ethtool_bit features[] = { { .name = "tx-nocache-copy" }, { .name = "rx-lro" },
                                          { .name = "nothing" } };
        struct ethtool_bit flags[] = { { .name = "enable-max-rx-buffer-size" }, { .name = "report-stats" },
                                       { .name = "nothing" } };

        ASSERT_OK(host_open(GOOD, &h));
        ASSERT_OK(ethtool_open(&h, &e));
        ASSERT_OK(ethtool_read(&e, ETHTOOL_FEATURES, 3, features, ELEMENTSOF(features)));
        ASSERT_TRUE(features[0].known && features[0].changeable && features[0].active &&
                    features[0].requested);
        ASSERT_TRUE(features[1].known && !features[1].changeable && !features[1].active);
        ASSERT_FALSE(features[2].known);
        ASSERT_OK(ethtool_read(&e, ETHTOOL_PRIVATE_FLAGS, 2, flags, ELEMENTSOF(flags)));
        ASSERT_TRUE(flags[0].known && flags[0].changeable && flags[0].active && flags[0].requested);
        ASSERT_TRUE(flags[1].known && !flags[1].active);
        ASSERT_FALSE(flags[2].known);
        ASSERT_EQ(ethtool_read(&e, ETHTOOL_FEATURES, 9, features, 1), -ENODATA); /* docker0: not recorded */
        ASSERT_EQ(ethtool_set(&e, ETHTOOL_FEATURES, 2, "tx-nocache-copy", true), -EROFS);
}

static void test_missing_and_garbage(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_ethtool_ struct ethtool e = ETHTOOL_NULL;
        struct ethtool_bit b = { .name = "tx-nocache-copy", .active = true };
        _cleanup_free_ char *huge = malloc(1200 * 1024);

        ASSERT_OK(host_open(s.path, &h));
        ASSERT_OK(ethtool_open(&h, &e));
        ASSERT_EQ(ethtool_read(&e, ETHTOOL_FEATURES, 2, &b, 1), -ENODATA);
        scratch_write(&s, "netlink/features", "this is no answer, whatever it says");
        ASSERT_EQ(ethtool_read(&e, ETHTOOL_FEATURES, 2, &b, 1), -EBADMSG);
        ASSERT_FALSE(b.active);
        ASSERT_TRUE(huge != NULL);
        memset(huge, 1, 1200 * 1024 - 1);
        huge[1200 * 1024 - 1] = '\0';
        scratch_write(&s, "netlink/features", huge);
        ASSERT_EQ(ethtool_read(&e, ETHTOOL_FEATURES, 2, &b, 1), -E2BIG);
}

/* Cut anywhere, or with any byte changed, it is refused or understood, and nothing else happens. */
static void test_cut_and_changed(void) {
        unsigned char good[8192], bad[8192];
        struct ethtool_bit b = { .name = "tx-nocache-copy" };
        size_t n = read_fixture(GOOD "/netlink/features", good, sizeof(good)), first;
        uint32_t len;

        memcpy(&len, good, sizeof(len));
        first = len;
        for (size_t k = 0; k < first; k++)
                ASSERT_TRUE(ethtool_parse(good, k, ETHTOOL_FEATURES, 2, &b, 1) < 0);
        ASSERT_OK(ethtool_parse(good, first, ETHTOOL_FEATURES, 2, &b, 1));
        ASSERT_EQ(ethtool_parse(good, n, ETHTOOL_PRIVATE_FLAGS, 2, &b, 1), -ENODATA); /* another answer */
        for (size_t k = 0; k < n; k++)
                for (unsigned bit = 0; bit < 8; bit++) {
                        memcpy(bad, good, n);
                        bad[k] ^= (unsigned char) (1U << bit);
                        (void) ethtool_parse(bad, n, ETHTOOL_FEATURES, 3, &b, 1);
                }
}

static void test_errors(void) {
        struct {
                struct nlmsghdr h;
                struct nlmsgerr e;
        } m = { .h = { .nlmsg_len = sizeof(m), .nlmsg_type = NLMSG_ERROR } };
        struct ethtool_bit b = { .name = "x" };
        uint16_t family = 0;
        uint32_t monitor = 0;

        /* an acknowledgement */
        ASSERT_EQ(ethtool_parse(&m, sizeof(m), ETHTOOL_FEATURES, 2, &b, 1), -ENODATA);
        m.e.error = -EOPNOTSUPP;
        ASSERT_EQ(ethtool_parse(&m, sizeof(m), ETHTOOL_FEATURES, 2, &b, 1), -EOPNOTSUPP);
        m.e.error = -ENOENT;
        ASSERT_EQ(ethtool_parse_family(&m, sizeof(m), &family, &monitor), -ENOENT);
        m.e.error = 5;
        ASSERT_EQ(ethtool_parse(&m, sizeof(m), ETHTOOL_FEATURES, 2, &b, 1), -EBADMSG);
        m.e.error = INT32_MIN;
        ASSERT_EQ(ethtool_parse_family(&m, sizeof(m), &family, &monitor), -EBADMSG);
        m.h.nlmsg_len = NLMSG_HDRLEN + 2;
        ASSERT_EQ(ethtool_parse(&m, NLMSG_HDRLEN + 2, ETHTOOL_FEATURES, 2, &b, 1), -EBADMSG);
}

static void test_notifications(void) {
        struct {
                struct nlmsghdr h;
                struct genlmsghdr g;
        } m = { .g = { .cmd = ETHTOOL_MSG_FEATURES_NTF } };

        ASSERT_EQ(sizeof(m), ETHTOOL_HEAD_SIZE);
        ASSERT_TRUE(ethtool_tells_bits(&m, sizeof(m)));
        m.g.cmd = ETHTOOL_MSG_PRIVFLAGS_NTF;
        ASSERT_TRUE(ethtool_tells_bits(&m, sizeof(m)));
        m.g.cmd = ETHTOOL_MSG_CHANNELS_NTF;
        ASSERT_FALSE(ethtool_tells_bits(&m, sizeof(m)));
        ASSERT_TRUE(ethtool_tells_bits(&m, 3));
}

/* This machine's own lo, where its kernel tells it. */
static void test_live(void) {
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_ethtool_ struct ethtool e = ETHTOOL_NULL;
        struct ethtool_bit b[] = { { .name = "loopback" }, { .name = "nothing" } };
        int r;

        ASSERT_OK(host_open("/", &h));
        r = ethtool_open(&h, &e);
        if (r < 0) {
                printf("not tested: %s\n", strerror(-r));
                return;
        }
        ASSERT_TRUE(e.family > 0 && e.monitor > 0);
        for (int k = 0; k < 3; k++) { /* one answer a question */
                ASSERT_OK(ethtool_read(&e, ETHTOOL_FEATURES, 1, b, ELEMENTSOF(b)));
                ASSERT_TRUE(b[0].known && b[0].active && !b[0].changeable);
                ASSERT_FALSE(b[1].known);
                ASSERT_EQ(ethtool_read(&e, ETHTOOL_PRIVATE_FLAGS, 1, b, ELEMENTSOF(b)), -EOPNOTSUPP);
                ASSERT_EQ(ethtool_read(&e, ETHTOOL_FEATURES, INT32_MAX, b, ELEMENTSOF(b)), -ENODEV);
        }
}

TEST_MAIN(test_recorded, test_missing_and_garbage, test_cut_and_changed, test_errors, test_notifications,
          test_live)
