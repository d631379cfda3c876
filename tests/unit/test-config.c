/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "log.h"
#include "scratch.h"
#include "test.h"

struct values {
        char endpoint[256];
        usec_t interval;
        uint64_t bytes;
        bool observe;
};

static void load(struct config *c, struct config_item items[4], struct values *v, const char *root,
                 const char *file) {
        _cleanup_host_ struct host h = HOST_NULL;

        *v = (struct values) { 0 };
        items[0] = (struct config_item)CONFIG_ITEM("Hostd", "Endpoint", config_parse_string255, v->endpoint,
                                                   "");
        items[1] = (struct config_item)CONFIG_ITEM("Hostd", "MetricsInterval", config_parse_usec,
                                                   &v->interval, "10s");
        items[2] = (struct config_item)CONFIG_ITEM("Hostd", "SpoolBytes", config_parse_bytes, &v->bytes,
                                                   "256M");
        items[3] = (struct config_item)CONFIG_ITEM("Hostd", "Observe", config_parse_bool, &v->observe, "no");
        *c = (struct config) { .items = items, .n_items = 4 };
        ASSERT_OK(host_open(root, &h));
        ASSERT_OK(config_load(c, &h, "hostd", file));
}

static char logged[8][LOG_LINE_MAX];
static size_t n_logged;

static bool keep_line(int priority, int error, const char *line) {
        (void) priority, (void) error;
        ASSERT_TRUE(n_logged < ELEMENTSOF(logged));
        (void) snprintf(logged[n_logged++], LOG_LINE_MAX, "%s", line);
        return true;
}

/* Loads anew, and keeps what is logged. */
static void load_logged(struct config *c, const char *root, const char *name, const char *file) {
        _cleanup_host_ struct host h = HOST_NULL;

        n_logged = 0;
        config_clear(c);
        ASSERT_OK(host_open(root, &h));
        log_set_sink(keep_line);
        ASSERT_OK(config_load(c, &h, name, file));
        log_set_sink(NULL);
        ASSERT_EQ(c->warnings, n_logged);
}

static void test_drop_ins_and_origins(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct config_item items[4];
        struct config c;
        struct values v;

        scratch_write(&s, "usr/lib/tpu-hostd/hostd.conf", "[Hostd]\nMetricsInterval=30s\n");
        scratch_write(&s, "usr/lib/tpu-hostd/hostd.conf.d/10-a.conf",
                      "[Hostd]\nSpoolBytes=1M\nEndpoint=vendor\n");
        scratch_write(&s, "etc/tpu-hostd/hostd.conf.d/10-a.conf",
                      "# masks the vendor's file of the same name\n[Hostd]\nEndpoint=site\n");
        scratch_write(&s, "run/tpu-hostd/hostd.conf.d/20-b.conf",
                      "[Hostd]\n; later names win\n\nEndpoint = run\n");
        load(&c, items, &v, s.path, NULL);
        ASSERT_STREQ(v.endpoint, "run");
        ASSERT_STREQ(c.origins[0].where, "/run/tpu-hostd/hostd.conf.d/20-b.conf:4");
        ASSERT_EQ(v.interval, 30 * USEC_PER_SEC);
        ASSERT_STREQ(c.origins[1].where, "/usr/lib/tpu-hostd/hostd.conf:2");
        ASSERT_EQ(v.bytes, 256 << 20); /* the masked file said 1M */
        ASSERT_STREQ(c.origins[2].where, "default");
        ASSERT_EQ(c.warnings, 0);
        config_clear(&c);
}

static void test_bad_content_keeps_defaults(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct config_item items[4];
        struct config c;
        struct values v;
        char text[1000];

        (void) snprintf(text, sizeof(text), "[Hostd]\nMetricsInterval=soon\nSpoolBytes=-1\nNoSuchKey=1\n"
                                            "Endpoint=%0*d\nObserve=yes\n[Network]\nMtu=8896\n[Odd]\nx=1\n"
                                            "no sense\n",
                        300, 0);
        scratch_write(&s, "etc/tpu-hostd/hostd.conf.d/a.conf", text);
        load(&c, items, &v, s.path, NULL);
        ASSERT_EQ(v.interval, 10 * USEC_PER_SEC);
        ASSERT_EQ(v.bytes, 256 << 20);
        ASSERT_STREQ(v.endpoint, "");
        ASSERT_TRUE(v.observe); /* what follows the bad lines still counts */
        ASSERT_STREQ(c.origins[3].where, "/etc/tpu-hostd/hostd.conf.d/a.conf:6");
        /* interval, bytes, unknown key, long line, [Network] of another file, [Odd], a line that is
         * nothing */
        ASSERT_EQ(c.warnings, 7);
        config_clear(&c);
}

static void test_the_main_file(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct config_item items[4];
        struct config c;
        struct values v;

        scratch_write(&s, "usr/lib/tpu-hostd/hostd.conf", "[Hostd]\nMetricsInterval=30s\nSpoolBytes=1M\n");
        scratch_write(&s, "etc/tpu-hostd/hostd.conf", "[Hostd]\nEndpoint=site\nSpoolBytes=2M\n");
        scratch_write(&s, "usr/lib/tpu-hostd/hostd.conf.d/10-a.conf", "[Hostd]\nSpoolBytes=3M\n");
        load(&c, items, &v, s.path, NULL);
        ASSERT_STREQ(c.origins[0].where, "/etc/tpu-hostd/hostd.conf:2");
        ASSERT_EQ(v.interval, 10 * USEC_PER_SEC); /* the site's file masks the vendor's */
        ASSERT_EQ(v.bytes, 3 << 20);              /* a drop-in comes after it */
        config_clear(&c);
        scratch_write(&s, "etc/tpu-hostd/hostd.conf", "");
        load(&c, items, &v, s.path, NULL);
        ASSERT_EQ(v.interval, 10 * USEC_PER_SEC);
        ASSERT_EQ(c.warnings, 0);
        config_clear(&c);
}

static void test_sections_of_other_files(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct config_item items[4];
        struct config c;
        struct values v;

        load(&c, items, &v, s.path, NULL);
        scratch_write(&s, "etc/tpu-hostd/hostd.conf",
                      "[Netcfg]\nMode=observe\nNics=a\n[Odd]\nx=1\ny=2\n[Uplink]\nCaFile=/a\n"
                      "[Hostd]\nMode=x\n[Odd]\nz=1\n");
        load_logged(&c, s.path, "hostd", NULL);
        ASSERT_EQ(n_logged, 3); /* each section once; [Uplink] is this file's, whoever reads it */
        ASSERT_STREQ(logged[0], "/etc/tpu-hostd/hostd.conf:2: section [Netcfg] belongs into netcfg.conf or "
                                "netcfg.conf.d, ignored here");
        ASSERT_STREQ(logged[1], "/etc/tpu-hostd/hostd.conf:5: there is no section [Odd], ignored");
        ASSERT_STREQ(logged[2],
                     "/etc/tpu-hostd/hostd.conf:10: unknown key 'Mode' in section [Hostd], ignored");
        c.shared = "Hostd";
        load_logged(&c, s.path, "hostd", NULL);
        ASSERT_EQ(n_logged, 2); /* its keys may be another's, and are not asked for here */
        config_clear(&c);
}

static void test_files_that_are_not_read(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct config_item items[4];
        struct config c;
        struct values v;

        load(&c, items, &v, s.path, NULL);
        /* What is read, or is no configuration. */
        scratch_write(&s, "etc/tpu-hostd/README", "What lies here.\n");
        scratch_write(&s, "etc/tpu-hostd/hostd.conf", "");
        scratch_write(&s, "etc/tpu-hostd/netcfg.conf.d/a.conf", "");
        scratch_write(&s, "etc/tpu-hostd/machines.conf", "[Chip 0x1]\n");
        scratch_write(&s, "etc/tpu-hostd/profiles/v6e.conf", "[Mtu]\n");
        scratch_write(&s, "etc/tpu-hostd/tls/ca.pem", "[no]\n");
        scratch_write(&s, "etc/tpu-hostd/token", "secret\n");
        load_logged(&c, s.path, "hostd", NULL);
        ASSERT_EQ(n_logged, 0);
        /* What is not. */
        scratch_write(&s, "etc/tpu-hostd/10-site.conf", "");
        scratch_write(&s, "etc/tpu-hostd/hostd.conf.d/10-site.txt", "");
        scratch_write(&s, "etc/tpu-hostd/hostd.conf~", "");
        scratch_write(&s, "etc/tpu-hostd/netcfg.d/a.conf", "");
        scratch_write(&s, "etc/tpu-hostd/site", "# ours\n\n [Hostd]\n");
        scratch_write(&s, "etc/tpu-hostd/tpu-hostd.conf", "");
        load_logged(&c, s.path, "hostd", NULL);
        ASSERT_EQ(n_logged, 5); /* netcfg.d is tpu-netcfg's to warn about */
        ASSERT_STREQ(logged[0], "/etc/tpu-hostd/hostd.conf.d/10-site.txt is not read: its name does not end "
                                "in .conf");
        ASSERT_TRUE(startswith(logged[1], "/etc/tpu-hostd/10-site.conf is not read: NAME.conf and "));
        ASSERT_STREQ(logged[2],
                     "/etc/tpu-hostd/hostd.conf~ is not read: hostd.conf and hostd.conf.d/*.conf are");
        ASSERT_TRUE(startswith(logged[3], "/etc/tpu-hostd/site is not read: "));
        ASSERT_TRUE(startswith(logged[4], "/etc/tpu-hostd/tpu-hostd.conf is not read: hostd.conf and "));
        scratch_write(&s, "etc/tpu-hostd/profiles/v6e", "[Mtu]\n");
        load_logged(&c, s.path, "netcfg", NULL);
        ASSERT_EQ(n_logged, 2);
        ASSERT_STREQ(logged[1], "/etc/tpu-hostd/profiles/v6e is not read: its name does not end in .conf");
        ASSERT_TRUE(startswith(logged[0], "/etc/tpu-hostd/netcfg.d is not read: netcfg.conf and "));
        config_clear(&c);
}

static void test_given_file(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        struct config_item items[4];
        struct config c;
        struct values v;
        char path[512];

        scratch_write(&s, "etc/tpu-hostd/hostd.conf.d/a.conf", "[Hostd]\nEndpoint=ignored\n");
        scratch_write(&s, "own.conf", "[Hostd]\nEndpoint=own\n");
        scratch_path(&s, "own.conf", path);
        load(&c, items, &v, s.path, path);
        ASSERT_STREQ(v.endpoint, "own");
        /* Such a file is everybody's: only what is nobody's section, and nobody's key in one of ours,
         * warns. */
        scratch_write(&s, "own.conf",
                      "[Path]\nPeers=h3\n[Netcfg]\nMode=observe\n[Paths]\nPeers=h3\n[Hostd]\nEndpoints=a\n");
        config_clear(&c);
        load(&c, items, &v, s.path, path);
        ASSERT_EQ(c.warnings, 2);
        config_clear(&c);
        scratch_write(&s, "etc/tpu-hostd/hostd.conf.d/a.conf", "[Path]\nPeers=h3\n");
        load(&c, items, &v, s.path, NULL);
        ASSERT_EQ(c.warnings, 1);
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_EQ(config_load(&c, &h, "hostd", "/nonexistent/file"), -ENOENT);
        config_clear(&c);
}

static void test_values(void) {
        char why[96];
        uint64_t u;
        uint32_t w;

        ASSERT_OK(config_parse_usec("250ms", &u, why));
        ASSERT_EQ(u, 250000);
        ASSERT_OK(config_parse_usec("2 min", &u, why));
        ASSERT_EQ(u, 120 * USEC_PER_SEC);
        ASSERT_EQ(config_parse_usec("99999999999999999d", &u, why), -ERANGE);
        ASSERT_EQ(config_parse_bytes("1T", &u, why), -EINVAL);
        ASSERT_STREQ(why, "unknown unit 'T' (as in 64K, 256M, 1G)");
        ASSERT_EQ(config_parse_u32("4294967296", &w, why), -ERANGE);
        ASSERT_EQ(config_parse_u32("", &w, why), -EINVAL);
}

static int set(const struct config_item *item, const char *value, char why[static 96]) {
        why[0] = '\0';
        return config_item_set(item, value, why);
}

static void test_bounds(void) {
        usec_t span = 7;
        uint64_t bytes = 7;
        uint32_t days = 7;
        const struct config_item spans = CONFIG_WITHIN("S", "Span", config_parse_usec, &span, "1s",
                                                       100 * USEC_PER_MSEC,
                                                       3600 * USEC_PER_SEC),
                                 sizes = CONFIG_WITHIN("S", "Size", config_parse_bytes, &bytes, "1M",
                                                       1 << 20,
                                                       UINT64_MAX),
                                 numbers = CONFIG_WITHIN("S", "Days", config_parse_u32, &days, "1", 0, 3650);
        char why[96];

        ASSERT_OK(set(&spans, "100ms", why));
        ASSERT_OK(set(&spans, "1h", why));
        ASSERT_EQ(span, 3600 * USEC_PER_SEC);
        ASSERT_EQ(set(&spans, "99ms", why), -ERANGE);
        ASSERT_STREQ(why, "must be from 100ms to 1h");
        ASSERT_EQ(set(&spans, "soon", why), -EINVAL);
        ASSERT_EQ(span, 3600 * USEC_PER_SEC);
        ASSERT_EQ(set(&sizes, "1T", why), -EINVAL);
        ASSERT_OK(set(&sizes, "9000G", why));
        ASSERT_EQ(set(&sizes, "1023K", why), -ERANGE);
        ASSERT_STREQ(why, "must be at least 1M");
        ASSERT_OK(set(&numbers, "3650", why));
        ASSERT_EQ(set(&numbers, "3651", why), -ERANGE);
        ASSERT_STREQ(why, "must be from 0 to 3650");
        ASSERT_EQ(set(&numbers, "4294967296", why), -ERANGE);
        ASSERT_EQ(days, 3650);
}

static void test_words(void) {
        static const char *const words[] = { "auto", "sysctl", "routes", NULL },
                *const two[] = { "none", "gzip", NULL };
        unsigned which = 7;
        bool second = false;
        const struct config_item any = CONFIG_WORD("S", "Word", NULL, &which, "auto", words),
                                 either = CONFIG_WORD("S", "Either", config_parse_bool, &second, "none",
                                                      two);
        char why[96];

        ASSERT_OK(set(&any, "routes", why));
        ASSERT_EQ(which, 2);
        ASSERT_EQ(set(&any, "route", why), -EINVAL);
        ASSERT_STREQ(why, "none of auto sysctl routes");
        ASSERT_EQ(which, 2);
        ASSERT_OK(set(&either, "gzip", why));
        ASSERT_TRUE(second);
        ASSERT_EQ(set(&either, "yes", why), -EINVAL);
        ASSERT_OK(set(&either, "none", why));
        ASSERT_FALSE(second);
}

static void test_texts(void) {
        static const char *const no_urls[] = { "ftp://a", "a", "http://", "https:///x", "http://u:p@a/",
                                               "http://a b",
                                               "http://a/\"x\"" };
        char text[256] = "kept", why[96];

        ASSERT_OK(config_parse_url("https://a:1/x@y", text, why));
        ASSERT_OK(config_parse_url("", text, why));
        ASSERT_STREQ(text, "");
        for (size_t i = 0; i < ELEMENTSOF(no_urls); i++)
                ASSERT_EQ(config_parse_url(no_urls[i], text, why), -EINVAL);
        ASSERT_OK(config_parse_urls(" http://a,https://b\thttp://c http://d ", text, why));
        ASSERT_EQ(config_parse_urls("http://a http://b http://c http://d http://e", text, why), -E2BIG);
        ASSERT_STREQ(why, "more than 4");
        ASSERT_EQ(config_parse_urls("http://a b", text, why), -EINVAL);
        ASSERT_STREQ(text, " http://a,https://b\thttp://c http://d ");
        ASSERT_OK(config_parse_path("/a", text, why));
        ASSERT_EQ(config_parse_path("a", text, why), -EINVAL);
        ASSERT_OK(config_parse_name63("Site-1_b", text, why));
        ASSERT_EQ(config_parse_name63("a.b", text, why), -EINVAL);
        ASSERT_EQ(config_parse_name63("", text, why), -EINVAL);
        ASSERT_STREQ(text, "Site-1_b");
}

TEST_MAIN(test_drop_ins_and_origins, test_the_main_file, test_bad_content_keeps_defaults,
          test_sections_of_other_files, test_files_that_are_not_read, test_given_file,
          test_values, test_bounds, test_words, test_texts)
