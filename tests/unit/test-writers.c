/* SPDX-License-Identifier: Apache-2.0 */
/* Who sets a setting, out of records as writers.bpf.c writes them. */
#include "test.h"
#include "writers.h"

static struct writers_figures figures;

static struct writer_record *put(enum writer_kind kind, usec_t at, int pid, const char *group) {
        struct writer_record *r = &figures.kept[kind][figures.next[kind]++ % WRITERS_KEPT];

        *r = (struct writer_record) { .at = at * NSEC_PER_USEC, .pid = pid, .parent = pid - 1 };
        (void) snprintf(r->group, sizeof(r->group), "%s", group);
        (void) snprintf(r->comm, sizeof(r->comm), "sysctl");
        return r;
}

static void put_sysctl(usec_t at, int pid, const char *group, const char *folder, const char *name) {
        struct writer_record *r = put(WRITER_SYSCTL, at, pid, group);

        (void) snprintf(r->name, sizeof(r->name), "%s", name);
        (void) snprintf(r->folder, sizeof(r->folder), "%s", folder);
        memcpy(r->command, "sysctl\0-w\0x\ty=1\n\xff", 18);
}

static void test_a_sysctl_is_meant_by_its_last_two_names(void) {
        struct writer_query q = { .kind = WRITER_SYSCTL, .name = "rp_filter", .folder = "eth1" };
        struct writer w = { .pid = -1 };

        memset(&figures, 0, sizeof(figures));
        ASSERT_TRUE(!writers_find(&figures, &q, &w) && w.pid == -1);
        put_sysctl(5, 12, "a.service", "eth1", "rp_filter");
        put_sysctl(6, 13, "b.service", "eth0", "rp_filter");
        put_sysctl(7, 14, "c.service", "eth1", "arp_ignore");
        ASSERT_TRUE(writers_find(&figures, &q, &w));
        ASSERT_EQ(w.pid, 12);
        ASSERT_EQ(w.parent, 11);
        ASSERT_STREQ(w.group, "a.service");
        ASSERT_STREQ(w.command, "sysctl -w x y=1 ?");
        q.since = 6;
        ASSERT_TRUE(!writers_find(&figures, &q, &w));
}

static void test_secrets_are_not_shown(void) {
        struct writer_query q = { .kind = WRITER_RULE };
        struct writer w;

        memset(&figures, 0, sizeof(figures));
        memcpy(put(WRITER_RULE, 1, 20, "a.service")->command, "nmcli\0c\0modify\0w\0wifi.PSK=abc\0more", 35);
        ASSERT_TRUE(writers_find(&figures, &q, &w));
        ASSERT_STREQ(w.command, "nmcli c modify w ...");
}

static void test_who_sets_it_in_a_loop_is_blamed(void) {
        struct writer_query q = { .kind = WRITER_RULE };
        struct writer w;

        memset(&figures, 0, sizeof(figures));
        put(WRITER_RULE, 1, 20, "loop.service");
        put(WRITER_RULE, 2, 21, "loop.service");
        put(WRITER_RULE, 3, 22, "once.service");
        ASSERT_TRUE(writers_find(&figures, &q, &w));
        ASSERT_EQ(w.pid, 21); /* its latest */
        put(WRITER_RULE, 4, 23, "once.service");
        ASSERT_TRUE(writers_find(&figures, &q, &w));
        ASSERT_EQ(w.pid, 23); /* of as many the later */
}

static void test_ours_and_half_written_ones_are_nobody(void) {
        struct writer_query q = { .kind = WRITER_ROUTE };
        struct writer w;

        memset(&figures, 0, sizeof(figures));
        (void) snprintf(put(WRITER_ROUTE, 1, 30, "tpu-netcfg.service")->comm, 16, "tpu-netcfg");
        put(WRITER_ROUTE, 0, 31, "half.service");
        ASSERT_TRUE(!writers_find(&figures, &q, &w));
}

static void test_a_link_by_index_or_name(void) {
        struct writer_query q = { .kind = WRITER_LINK, .name = "eth1", .index = 3 };
        struct writer w;

        memset(&figures, 0, sizeof(figures));
        put(WRITER_LINK, 1, 40, "a.service")->index = 4;
        (void) snprintf(put(WRITER_LINK, 2, 41, "b.service")->name, 16, "eth0");
        ASSERT_TRUE(!writers_find(&figures, &q, &w));
        put(WRITER_LINK, 3, 42, "c.service")->index = 3;
        ASSERT_TRUE(writers_find(&figures, &q, &w));
        ASSERT_EQ(w.pid, 42);
        (void) snprintf(put(WRITER_LINK, 4, 43, "d.service")->name, 16, "eth1");
        ASSERT_TRUE(writers_find(&figures, &q, &w));
        ASSERT_EQ(w.pid, 43);
        ASSERT_STREQ(w.command, "sysctl"); /* no arguments were read: by its name */
}

/* Whatever stands in the shared memory, nothing is read past an end. */
static void test_no_record_is_trusted(void) {
        struct writer_query q = { .kind = WRITER_SYSCTL, .name = "x", .folder = "y" };
        struct writer w;

        memset(&figures, 0xff, sizeof(figures));
        for (int k = 0; k < WRITER_KINDS; k++) {
                q.kind = (enum writer_kind) k;
                if (!writers_find(&figures, &q, &w))
                        continue;
                ASSERT_TRUE(strlen(w.group) < WRITER_GROUP_MAX);
                ASSERT_TRUE(strlen(w.command) < WRITER_COMMAND_MAX);
        }
}

TEST_MAIN(test_a_sysctl_is_meant_by_its_last_two_names, test_secrets_are_not_shown,
          test_who_sets_it_in_a_loop_is_blamed,
          test_ours_and_half_written_ones_are_nobody, test_a_link_by_index_or_name,
          test_no_record_is_trusted)
