/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of URIs, names out of certificates, and addresses to listen on. */
#include "tcp_address.h"
#include "test.h"
#include "tls_files.h"

static void test_allows(void) {
        static const char list[] = "spiffe://site/a  https://x/y* spiffe://site/b";

        ASSERT_TRUE(tls_allows(list, "spiffe://site/a"));
        ASSERT_TRUE(tls_allows(list, "spiffe://site/b"));
        ASSERT_TRUE(tls_allows(list, "https://x/y"));
        ASSERT_TRUE(tls_allows(list, "https://x/y/and/more"));
        ASSERT_FALSE(tls_allows(list, "https://x/"));
        ASSERT_FALSE(tls_allows(list, "spiffe://site/a/b"));
        ASSERT_FALSE(tls_allows(list, "spiffe://site/"));
        ASSERT_FALSE(tls_allows(list, "SPIFFE://site/a"));
        ASSERT_FALSE(tls_allows(list, ""));
        ASSERT_FALSE(tls_allows(list, "spiffe://site/a  https://x/y* spiffe://site/b"));
}

static void test_edges_of_lists(void) {
        ASSERT_FALSE(tls_allows("", "spiffe://site/a"));
        ASSERT_FALSE(tls_allows("", ""));
        ASSERT_FALSE(tls_allows("   ", "spiffe://site/a"));
        ASSERT_TRUE(tls_allows("*", "spiffe://site/a"));
        ASSERT_TRUE(tls_allows(" * ", "x"));
        ASSERT_FALSE(tls_allows("a*b", "axb")); /* a star in the middle is a star */
        ASSERT_TRUE(tls_allows("a*b", "a*b"));
        ASSERT_TRUE(tls_allows("a**", "a*"));
        ASSERT_FALSE(tls_allows("a**", "a"));
}

static void test_names(void) {
        ASSERT_TRUE(tls_name_is_plain("spiffe://site/a", 15));
        ASSERT_FALSE(tls_name_is_plain("spiffe://site/a\0b", 17));
        ASSERT_FALSE(tls_name_is_plain("spiffe://site/a b", 17)); /* a blank is between the URIs of a list */
        ASSERT_FALSE(tls_name_is_plain("spiffe://site/\x1b[2J", 18));
        ASSERT_FALSE(tls_name_is_plain("spiffe://site/\xc3\xa4", 16));
        ASSERT_FALSE(tls_name_is_plain("a\x7f", 2));
        ASSERT_FALSE(tls_name_is_plain("", 0));
}

static void test_addresses(void) {
        static const char *const bad[] = { "", ":", "9470", "::1:9470", "localhost:9470", "127.0.0.1",
                                           "127.0.0.1:", "127.0.0.1:65536",
                                           "127.0.0.1:-1", "127.0.0.1: 1", "[::1]", "[]:1", "[127.0.0.1:1",
                                           "[::1]:0x1" };
        static const struct {
                const char *text;
                bool loopback;
        } good[] = { { "127.0.0.1:0", true }, { "[::1]:9470", true },     { "127.9.9.9:1", true },
                     { "[::]:9470", false },  { "0.0.0.0:65535", false }, { "10.0.0.1:1", false } };
        struct tcp_address a;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ(tcp_address_parse(bad[i], &a), -EINVAL);
        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                ASSERT_OK(tcp_address_parse(good[i].text, &a));
                ASSERT_EQ(tcp_address_is_loopback(&a), good[i].loopback);
        }
}

static void test_hosts(void) {
        static const char *const cases[][2] = { { "[::ffff:10.0.0.7]:1", "10.0.0.7" },
                                                { "10.0.0.7:1", "10.0.0.7" },
                                                { "[::1]:1", "::1" },
                                                { "[2001:db8::7]:1", "2001:db8::7" } };
        char text[TCP_ADDRESS_TEXT_MAX];
        struct tcp_address a;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ASSERT_OK(tcp_address_parse(cases[i][0], &a));
                tcp_address_host((const struct sockaddr *) &a.sa, text);
                ASSERT_STREQ(text, cases[i][1]);
        }
}

TEST_MAIN(test_allows, test_edges_of_lists, test_names, test_addresses, test_hosts)
