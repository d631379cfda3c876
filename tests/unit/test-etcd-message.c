/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_ops.h"
#include "test.h"

static void expect(enum etcd_method m, const char *bytes, size_t len, int wanted, struct etcd_message *ret) {
        ASSERT_EQ(etcd_message_take(m, (const uint8_t *) bytes, len, ret), wanted);
        ASSERT_EQ(ret->method, m);
}
#define EXPECT(m, bytes, wanted, ret) expect((m), (bytes), sizeof(bytes) - 1, (wanted), (ret))

/* Written by hand, by etcd's own numbers: header {revision 7}, kv {key k, create 2, mod 3, version 1, value
 * v, lease 9}. */
#define HEADER "\x0a\x02\x18\x07"
#define KV "\x0a\x01k\x10\x02\x18\x03\x20\x01\x2a\x01v\x30\x09"

static void test_range(void) {
        struct etcd_message m;

        EXPECT(ETCD_RANGE, HEADER "\x12\x0e" KV "\x20\x05", 0, &m);
        ASSERT_EQ(m.revision, 7);
        ASSERT_EQ(m.range->n_kvs, 1);
        ASSERT_EQ(m.range->count, 5);
        ASSERT_EQ(m.range->kvs[0]->create_revision, 2);
        ASSERT_EQ(m.range->kvs[0]->mod_revision, 3);
        ASSERT_EQ(m.range->kvs[0]->lease, 9);
        ASSERT_TRUE(m.range->kvs[0]->value.len == 1 && m.range->kvs[0]->value.data[0] == 'v');
        etcd_message_clear(&m);
        ASSERT_TRUE(!m.range);
        EXPECT(ETCD_RANGE, "", -EBADMSG, &m);                        /* no header */
        EXPECT(ETCD_RANGE, HEADER "\x12\x02\x10\x02", -EBADMSG, &m); /* a pair without a key */
        EXPECT(ETCD_RANGE, HEADER "\x12\x7f", -EBADMSG, &m);         /* cut */
}

static void test_txn(void) {
        struct etcd_message m;

        EXPECT(ETCD_TXN, HEADER "\x10\x01\x1a\x02\x12\x00", 0, &m);
        ASSERT_TRUE(m.txn->succeeded && m.txn->n_responses == 1);
        etcd_message_clear(&m);
        EXPECT(ETCD_TXN, HEADER "\x1a\x00", -EBADMSG, &m);                  /* an answer to nothing */
        EXPECT(ETCD_TXN, HEADER "\x1a\x06\x22\x04\x1a\x02\x12\x00", 0, &m); /* one in another */
        etcd_message_clear(&m);
        EXPECT(ETCD_TXN, HEADER "\x1a\x08\x22\x06\x1a\x04\x22\x02\x12\x00", -EBADMSG, &m);
}

static void test_watch(void) {
        struct etcd_message m;

        EXPECT(ETCD_WATCH, HEADER "\x5a\x12\x08\x01\x12\x0e" KV, 0, &m);
        ASSERT_EQ(m.watch->n_events, 1);
        ASSERT_EQ(m.watch->events[0]->type, ETCD__EVENT__TYPE__DELETE);
        etcd_message_clear(&m);
        EXPECT(ETCD_WATCH, HEADER "\x20\x01\x28\x03\x32\x02no", 0, &m);
        ASSERT_TRUE(m.watch->canceled && m.watch->compact_revision == 3);
        ASSERT_STREQ(m.watch->cancel_reason, "no");
        etcd_message_clear(&m);
        EXPECT(ETCD_WATCH, HEADER "\x5a\x02\x08\x01", -EBADMSG, &m); /* an event of nothing */
}

/* Two bytes a pair on the wire, eighty in memory: it ends at the bound, not at the end of memory. */
static void test_bound(void) {
        size_t n = 2 * 1024 * 1024, at = 4;
        uint8_t *bytes = malloc(at + 2 * n);
        struct etcd_message m;

        ASSERT_TRUE(bytes);
        memcpy(bytes, HEADER, at);
        for (size_t i = 0; i < n; i++, at += 2)
                memcpy(bytes + at, "\x12\x00", 2);
        ASSERT_EQ(etcd_message_take(ETCD_RANGE, bytes, at, &m), -E2BIG);
        free(bytes);
}

static void test_keys(void) {
        uint8_t nul[] = { '/', 'a', '/', 0 };
        ProtobufCBinaryData key = etcd_bytes("/a/b"), bad = { .data = nul, .len = 4 }, end;
        char buf[16];
        size_t n = 0;

        ASSERT_TRUE(etcd_key_behind(&key, "/a/", &n) && n == 1);
        ASSERT_TRUE(!etcd_key_behind(&key, "/a/bc", &n));
        ASSERT_TRUE(!etcd_key_behind(&bad, "/a/", &n));
        end = etcd_range_end("/a/", buf);
        ASSERT_TRUE(end.len == 3 && memcmp(end.data, "/a0", 3) == 0);
        ASSERT_EQ(etcd_range_end("/a", buf).len, 0);
}

static void test_endpoints(void) {
        static const char *const bad[] = {
                "",
                " , ",
                "127.0.0.1:2379",
                "http://user:word@h",
                "ftp://h",
                "http://a,http://b,http://c,http://d,http://e,http://f,http://g,http://h,http://i,http://j"
        };
        struct etcd_options o = { .user_agent = "test", .timeout = USEC_PER_SEC };
        struct etcd *c = NULL;
        sd_event *e = NULL;
        char why[256];

        ASSERT_TRUE(sd_event_new(&e) >= 0);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                o.endpoints = bad[i];
                ASSERT_EQ(etcd_new(e, &o, &c, why), -EINVAL);
                ASSERT_TRUE(why[0] && !c);
                ASSERT_FALSE(strstr(why, "word"));
        }
        o.endpoints = "http://127.0.0.1:1, http://[::1]:2,https://name:3/";
        ASSERT_OK(etcd_new(e, &o, &c, why));
        c = etcd_free(c);
        (void) sd_event_unref(e);
}

static void test_ops(void) {
        struct etcd_ops *o = etcd_ops_new();

        ASSERT_TRUE(o);
        for (size_t i = 0; i < ETCD_OPS_MAX; i++)
                etcd_ops_put(o, ETCD_THEN, "k", "v", 0);
        ASSERT_EQ(etcd_ops_count(o), ETCD_OPS_MAX);
        etcd_ops_delete(o, ETCD_THEN, "k");
        ASSERT_EQ(etcd_ops_send(o, NULL, NULL, NULL), -E2BIG);
        o = etcd_ops_free(o);
}

TEST_MAIN(test_range, test_txn, test_watch, test_bound, test_keys, test_endpoints, test_ops)
