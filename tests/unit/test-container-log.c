/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the files that engines write, as docker and podman make them, and hostile ones. */
#include "container_log.h"
#include "test.h"

static int parse(const char *form, const char *entry, char buf[static 64], struct container_entry *e) {
        int r = container_entry_parse(form, entry, strlen(entry), buf, 63, e);

        buf[r < 0 ? 0 : e->len] = '\0';
        return r;
}

static void docker(void) {
        struct container_entry e;
        char buf[64];

        ASSERT_OK(parse("json-file",
                        "{\"log\":\"completed step: 7\\n\",\"stream\":\"stdout\","
                        "\"time\":\"2026-11-27T16:39:16.250000000Z\"}",
                        buf, &e));
        ASSERT_STREQ(buf, "completed step: 7");
        ASSERT_TRUE(e.whole);
        ASSERT_EQ(e.time_real, 1795797556 * USEC_PER_SEC + 250000);
        ASSERT_OK(parse("json-file", "{\"log\":\"part\"}", buf, &e));
        ASSERT_FALSE(e.whole);
        ASSERT_EQ(e.time_real, 0);
        ASSERT_EQ(parse("json-file", "{\"log\":7}", buf, &e), -EBADMSG);
        ASSERT_EQ(parse("json-file", "log", buf, &e), -EBADMSG);
        ASSERT_EQ(parse("json-file", "", buf, &e), -EBADMSG);
        ASSERT_EQ(parse("local", "{\"log\":\"x\"}", buf, &e), -EBADMSG);
        ASSERT_OK(parse("json-file",
                        "{\"log\":\"0123456789012345678901234567890123456789"
                        "012345678901234567890123456789\\n\"}",
                        buf, &e));
        ASSERT_EQ(e.len, 63); /* as much as there is room for */
}

static void podman(void) {
        struct container_entry e;
        char buf[64];

        ASSERT_OK(parse("k8s-file", "2026-11-27T17:39:16.5+01:00 stdout F step 8", buf, &e));
        ASSERT_STREQ(buf, "step 8");
        ASSERT_TRUE(e.whole);
        ASSERT_EQ(e.time_real, 1795797556 * USEC_PER_SEC + 500000);
        ASSERT_OK(parse("k8s-file", "2026-11-27T17:39:16.5-05:30 stderr P a", buf, &e));
        ASSERT_FALSE(e.whole);
        ASSERT_EQ(e.time_real, (1795797556 + 3600 + 19800) * USEC_PER_SEC + 500000);
        ASSERT_EQ(parse("k8s-file", "2026-11-27T17:39:16 stdout X a", buf, &e), -EBADMSG);
        ASSERT_OK(parse("k8s-file", "2026-11-27T17:39:16+9999902022222222222 stdout F a", buf, &e));
        ASSERT_EQ(e.time_real, 0); /* no such zone: a line without a time */
        ASSERT_EQ(parse("k8s-file", "a b", buf, &e), -EBADMSG);
        ASSERT_EQ(parse("k8s-file", "a b F", buf, &e), -EBADMSG);
}

TEST_MAIN(docker, podman)
