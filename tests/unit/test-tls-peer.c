/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of URIs, names out of certificates, and addresses to listen on. */
#include <sys/resource.h>

#include "scratch.h"
#include "tcp_address.h"
#include "tls_peer.h"

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

static void assert_host(const char *words, const char *name, const char *host) {
        _cleanup_(host_from_freep) struct host_from *h = NULL;
        char why[NAME_LIST_WHY_MAX], ret[HOST_FROM_MAX] = "";

        ASSERT_OK(host_from_new(words, &h, why));
        ASSERT_EQ(host_from_pattern(h, 0, name, ret), *host != '\0');
        ASSERT_STREQ(ret, host);
}

static void test_patterns_of_hosts(void) {
        static const char uri[] = "spiffe://s/host/{host}";
        char long_name[128] = "spiffe://s/host/";

        assert_host(uri, "spiffe://s/host/h0", "h0");
        assert_host(uri, "spiffe://s/host/h0.zone-a_1", "h0.zone-a_1");
        assert_host(uri, "spiffe://s/host/h0/h1", "");
        assert_host(uri, "spiffe://s/host/", "");
        assert_host(uri, "spiffe://s/host/-h", "");
        assert_host(uri, "spiffe://s/host/h%30", "");
        assert_host(uri, "spiffe://s/hosts/h0", "");
        assert_host(uri, "", "");
        assert_host("*/{host}", "spiffe://s/any/h0", "h0");
        assert_host("*/{host}", "h0", "");
        assert_host("*/{host}", "/h0", "h0");
        assert_host("*/{host}", "spiffe://s/h:0", "");
        assert_host("*/{host}", "spiffe://s/", "");
        assert_host("dns:{host}.x", "dns:a.b.x", "a.b");
        assert_host("dns:{host}.x", "dns:.x", "");
        assert_host("dns:{host}.x", "dns:x", "");
        memset(long_name + strlen(long_name), 'a', HOST_FROM_MAX);
        assert_host(uri, long_name, "");
        long_name[strlen(long_name) - 1] = '\0';
        assert_host(uri, long_name, long_name + strlen("spiffe://s/host/"));
}

/* As many names as a large site has, in a file. */
static void test_lists_in_files(void) {
        _cleanup_scratch_ struct scratch dir = scratch_new();
        _cleanup_(name_list_freep) struct name_list *l = NULL;
        _cleanup_free_ char *text = calloc(20000, 40);
        char path[512], words[600], why[NAME_LIST_WHY_MAX];
        size_t n = 0;

        for (unsigned i = 0; i < 20000; i++)
                n += (size_t) sprintf(text + n, "spiffe://s/host/h%u v%u\n", i, i);
        scratch_write(&dir, "list", text);
        scratch_path(&dir, "list", path);
        (void) snprintf(words, sizeof(words), "spiffe://s/one  %s dns:x*", path);
        ASSERT_OK(name_list_new(words, &l));
        ASSERT_TRUE(name_list_look(l, why));
        ASSERT_STREQ(why, "");
        ASSERT_FALSE(name_list_look(l, why));
        ASSERT_STREQ(name_list_find(l, "spiffe://s/one"), "");
        ASSERT_STREQ(name_list_find(l, "dns:xyz"), "");
        ASSERT_STREQ(name_list_find(l, "spiffe://s/host/h0"), "v0");
        ASSERT_STREQ(name_list_find(l, "spiffe://s/host/h19999"), "v19999");
        ASSERT_TRUE(name_list_find(l, "spiffe://s/host/h20000") == NULL);
        ASSERT_TRUE(name_list_find(l, path) == NULL);
        scratch_write(&dir, "list", "\tspiffe://s/a* all # here\r\n# no\n\n");
        ASSERT_TRUE(name_list_look(l, why));
        ASSERT_STREQ(name_list_find(l, "spiffe://s/ab"), "all");
        ASSERT_TRUE(name_list_find(l, "spiffe://s/host/h0") == NULL);
        scratch_write(&dir, "list", "spiffe://s/\xc3\xa4\n");
        ASSERT_TRUE(name_list_look(l, why));
        ASSERT_TRUE(strstr(why, ":1: the name is not of printable ASCII") != NULL);
        ASSERT_STREQ(name_list_find(l, "spiffe://s/ab"), "all");
}

/* The file cannot be opened while it is looked at for the first time: it is no known file since. */
static void test_a_list_while_descriptors_are_out(void) {
        _cleanup_scratch_ struct scratch dir = scratch_new();
        _cleanup_(name_list_freep) struct name_list *l = NULL;
        char path[512], why[NAME_LIST_WHY_MAX];
        struct rlimit limit, none;

        scratch_write(&dir, "denied", "spiffe://s/old\n");
        scratch_path(&dir, "denied", path);
        ASSERT_OK(name_list_new(path, &l));
        ASSERT_TRUE(name_list_look(l, why));
        scratch_write(&dir, "denied", "spiffe://s/old\nspiffe://s/stolen\n");
        ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
        none = limit;
        none.rlim_cur = 0;
        ASSERT_OK(setrlimit(RLIMIT_NOFILE, &none));
        ASSERT_TRUE(name_list_look(l, why));
        ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
        ASSERT_TRUE(strstr(why, strerror(EMFILE)) != NULL);
        ASSERT_TRUE(name_list_find(l, "spiffe://s/old") && !name_list_find(l, "spiffe://s/stolen"));
        ASSERT_TRUE(name_list_look(l, why));
        ASSERT_STREQ(why, "");
        ASSERT_TRUE(name_list_find(l, "spiffe://s/stolen") != NULL);
        ASSERT_FALSE(name_list_look(l, why));
}

static void test_who_may_call(void) {
        static struct tls_peer p = { .names = { "dns:h0.x", "spiffe://s/people", "spiffe://s/host/h0" },
                                     .n = 3 };
        struct tls_callers c = { 0 };
        char why[NAME_LIST_WHY_MAX];
        struct tls_verdict v;

        ASSERT_OK(tls_callers_set(&c, "spiffe://s/*", "", ""));
        ASSERT_OK(tls_judge_peer(&c, &p, &v, why));
        ASSERT_FALSE(v.acts);
        ASSERT_STREQ(v.host, "");
        ASSERT_OK(host_from_new(HOST_FROM_DEFAULT, &c.hosts, why));
        ASSERT_OK(tls_judge_peer(&c, &p, &v, why));
        ASSERT_STREQ(v.host, "people"); /* the first that the list names */
        ASSERT_OK(tls_callers_set(&c, "spiffe://s/host/*", "dns:h0.x", ""));
        ASSERT_OK(tls_judge_peer(&c, &p, &v, why));
        ASSERT_TRUE(v.acts);
        ASSERT_FALSE(v.proxy);
        /* A proxy does not act, whatever other lists say. */
        ASSERT_OK(name_list_new("spiffe://s/people", &c.proxies));
        ASSERT_OK(tls_judge_peer(&c, &p, &v, why));
        ASSERT_TRUE(v.proxy && !v.acts);
        ASSERT_STREQ(v.name, "spiffe://s/people");
        ASSERT_OK(tls_callers_set(&c, "spiffe://s/host/*", "", "spiffe://s/people"));
        ASSERT_EQ(tls_judge_peer(&c, &p, &v, why), -EACCES);
        ASSERT_STREQ(why, "'spiffe://s/people' is denied here");
        ASSERT_OK(tls_callers_set(&c, "", "", ""));
        c.proxies = name_list_free(c.proxies);
        ASSERT_EQ(tls_judge_peer(&c, &p, &v, why), -EACCES);
        ASSERT_EQ(c.changes, 4);
        tls_callers_clear(&c);
}

TEST_MAIN(test_allows, test_edges_of_lists, test_names, test_addresses, test_hosts, test_patterns_of_hosts,
          test_lists_in_files, test_a_list_while_descriptors_are_out, test_who_may_call)
