/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata server's answers and the last good copy, as bytes. */
#include "metadata.h"
#include "metadata_copy.h"
#include "metadata_token.h"
#include "scratch.h"
#include "texts.h"

#define JSON "application/json"
#define NIC                                                                                                 \
        "{\"mac\": \"42:01:0A:80:00:02\", \"mtu\": 8896, \"ip\": \"10.128.0.2\", \"dnsServers\": "          \
        "[\"169.254.169.254\"]}"

static struct metadata_answer good(const char *type, const char *body) {
        return (struct metadata_answer){
                .status = 200, .content_type = type, .flavored = true, .body = body, .len = strlen(body)
        };
}

static void test_nics(void) {
        struct metadata_answer a = good(JSON, "[" NIC ", {\"mac\": \"42:01:0a:80:01:02\"}]");
        struct metadata_facts f = { .machine_type = "kept" };
        char why[METADATA_WHY_MAX], mac[MAC_TEXT_MAX];

        ASSERT_OK(metadata_take(&f, METADATA_NICS, &a, why));
        ASSERT_EQ(f.n_nics, 2);
        ASSERT_EQ(f.nics[0].mtu, 8896);
        ASSERT_STREQ(f.nics[0].ip, "10.128.0.2");
        ASSERT_STREQ(mac_text(f.nics[0].mac, mac), "42:01:0a:80:00:02");
        ASSERT_EQ(f.nics[1].mtu, 0);
        ASSERT_STREQ(f.machine_type, "kept");
}

static void test_hostile_nics(void) {
        static const char *const bodies[] = {
                "",
                "null",
                "{}",
                "[]",
                "[1]",
                "[" NIC,
                "[" NIC "] x",
                "[" NIC ", " NIC "]",
                "[{\"mac\": \"42:01:0a:80:00:02\", \"mac\": \"42:01:0a:80:00:03\"}]",
                "[{\"mtu\": 8896}]",
                "[{\"mac\": \"42:01:0a:80:00\"}]",
                "[{\"mac\": \"42-01-0a-80-00-02\"}]",
                "[{\"mac\": \"42:01:0a:80:00:0g\"}]",
                "[{\"mac\": 42}]",
                "[{\"mac\": \"42:01:0a:80:00:02\", \"mtu\": \"8896\"}]",
                "[{\"mac\": \"42:01:0a:80:00:02\", \"mtu\": -1}]",
                "[{\"mac\": \"42:01:0a:80:00:02\", \"mtu\": 0}]",
                "[{\"mac\": \"42:01:0a:80:00:02\", \"mtu\": 65536}]",
                "[{\"mac\": \"42:01:0a:80:00:02\", \"mtu\": 8896.5}]",
                "[{\"mac\": \"42:01:0a:80:00:02\", \"mtu\": 99999999999999999999}]",
                "<html>[" NIC "]</html>",
                " \n<!DOCTYPE html>",
                "[\"\xff\"]",
        };
        struct metadata_facts f = { .n_nics = 7 };

        for (size_t i = 0; i < ELEMENTSOF(bodies); i++) {
                struct metadata_answer a = good(JSON, bodies[i]);
                char why[METADATA_WHY_MAX] = "";

                if (metadata_take(&f, METADATA_NICS, &a, why) != -EBADMSG || !why[0] || f.n_nics != 7)
                        test_fail(__FILE__, __LINE__, "taken, or refused without a word: %s", bodies[i]);
        }
}

static void test_too_many_nics(void) {
        char body[8192] = "[", why[METADATA_WHY_MAX];
        struct metadata_facts f = { 0 };
        struct metadata_answer a;

        for (int i = 0; i <= METADATA_NICS_MAX; i++) {
                size_t n = strlen(body);

                a = good(JSON, body);
                (void) snprintf(body + n, sizeof(body) - n, "%s{\"mac\": \"42:01:0a:80:00:%02x\"}]",
                                i ? "," : "", (unsigned) i);
                a = good(JSON, body);
                ASSERT_EQ(metadata_take(&f, METADATA_NICS, &a, why), i < METADATA_NICS_MAX ? 0 : -EBADMSG);
                body[strlen(body) - 1] = '\0';
        }
        ASSERT_EQ(f.n_nics, METADATA_NICS_MAX);
}

static void test_who_answers(void) {
        const struct {
                struct metadata_answer answer;
                int result;
        } t[] = {
                { { .status = 200, .content_type = JSON, .body = "[" NIC "]", .len = 100 },
                  -EBADMSG }, /* no flavor */
                { { .status = 404, .content_type = "text/html", .flavored = true, .body = "x", .len = 1 },
                  -ENOENT },
                { { .status = 404, .content_type = "text/html", .body = "x", .len = 1 }, -EBADMSG },
                { { .status = 503, .body = "", .len = 0 }, -EAGAIN },
                { { .status = 429, .flavored = true, .body = "", .len = 0 }, -EAGAIN },
                { { .status = 301, .flavored = true, .body = "", .len = 0 }, -EBADMSG },
                { { .status = 403, .flavored = true, .body = "", .len = 0 }, -EBADMSG },
                { { .status = 200, .flavored = true, .body = "[]", .len = 2 }, -EBADMSG }, /* no type */
                { { .status = 200, .flavored = true, .content_type = "text/html", .body = "[]", .len = 2 },
                  -EBADMSG },
                { { .status = 200, .flavored = true, .content_type = JSON, .body = "", .len = 0 },
                  -EBADMSG },
                { { .status = 200,
                    .flavored = true,
                    .content_type = JSON,
                    .body = "[",
                    .len = METADATA_BODY_MAX + 1 },
                  -EBADMSG },
        };
        struct metadata_facts f = { 0 };
        char why[METADATA_WHY_MAX];

        for (size_t i = 0; i < ELEMENTSOF(t); i++)
                ASSERT_EQ(metadata_take(&f, METADATA_NICS, &t[i].answer, why), t[i].result);
        ASSERT_EQ(f.n_nics, 0);
}

static void test_texts(void) {
        static const struct {
                enum metadata_key key;
                const char *body, *wanted; /* NULL: refused */
        } t[] = {
                { METADATA_MACHINE_TYPE, "projects/123/machineTypes/ct6e-standard-4t", "ct6e-standard-4t" },
                { METADATA_MACHINE_TYPE, "projects/123/machineTypes/ct6e-standard-4t\n",
                  "ct6e-standard-4t" },
                { METADATA_MACHINE_TYPE, "ct6e-standard-4t", NULL },
                { METADATA_MACHINE_TYPE, "projects/123/machineTypes/", NULL },
                { METADATA_MACHINE_TYPE, "projects/123/machineTypes/a/b", NULL },
                { METADATA_MACHINE_TYPE, "x/machineTypes/a", NULL },
                { METADATA_MACHINE_TYPE, "", NULL },
                { METADATA_MACHINE_TYPE, "<html>projects/123/machineTypes/a", NULL },
                { METADATA_NAME, "t1v-n-0a1b2c3d-w-0", "t1v-n-0a1b2c3d-w-0" },
                { METADATA_NAME, "two words", NULL },
                { METADATA_NAME, "", NULL },
                { METADATA_NAME, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(t); i++) {
                struct metadata_answer a = good("application/text", t[i].body);
                struct metadata_facts f = { .machine_type = "old", .name = "old" };
                char why[METADATA_WHY_MAX];

                ASSERT_EQ(metadata_take(&f, t[i].key, &a, why), t[i].wanted ? 0 : -EBADMSG);
                ASSERT_STREQ(t[i].key == METADATA_NAME ? f.name : f.machine_type,
                             t[i].wanted ? t[i].wanted : "old");
        }
}

static void test_copy_comes_back(void) {
        struct metadata_copy c = {
                .boot_id = "5e0f3a52-52a7",
                .taken = 1795243496123456,
                .facts = { .machine_type = "ct6e-standard-4t", .name = "w-0", .n_nics = 2 }
        };
        _cleanup_free_ char *text = NULL;
        char why[METADATA_WHY_MAX], origin[METADATA_ORIGIN_MAX];
        struct metadata_copy back;

        memcpy(c.facts.nics[0].mac, "\x42\x01\x0a\x80\x00\x02", 6);
        c.facts.nics[0].mtu = 8896;
        (void) snprintf(c.facts.nics[0].ip, sizeof(c.facts.nics[0].ip), "10.128.0.2");
        text = metadata_copy_format(&c);
        ASSERT_TRUE(text);
        ASSERT_OK(metadata_copy_parse(text, strlen(text), &back, why));
        ASSERT_TRUE(metadata_facts_equal(&c.facts, &back.facts));
        ASSERT_STREQ(back.boot_id, c.boot_id);
        ASSERT_TRUE(back.taken == c.taken);
        ASSERT_STREQ(metadata_copy_origin(&back, origin), "metadata, last good of 2026-11-21T06:44:56.123Z");
        for (size_t n = 0; n < strlen(text); n++) /* torn anywhere */
                ASSERT_EQ(metadata_copy_parse(text, n, &back, why), -EBADMSG);
}

struct written {
        sd_event *event;
        int result;
        unsigned n;
        uint64_t number;
};

static void on_written(uint64_t number, int result, void *userdata) {
        struct written *w = userdata;

        w->result = result;
        w->number = number;
        if (++w->n == 2)
                (void) sd_event_exit(w->event, 0);
}

/* The newest of what waits wins; a directory that is not there is said. */
static void test_writer(void) {
        _cleanup_(sd_event_unrefp) sd_event *e = NULL;
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct metadata_copy c = { .taken = 1, .facts = { .n_nics = 1 } }, back;
        struct written w = { 0 };
        char path[512], why[METADATA_WHY_MAX];

        ASSERT_OK(sd_event_new(&e) < 0);
        w.event = e;
        for (int missing = 0; missing < 2; missing++) {
                _cleanup_(file_writer_freep) struct file_writer *writer = NULL;
                _cleanup_host_ struct host h = HOST_NULL;

                ASSERT_OK(host_open(NULL, &h));
                (void) snprintf(path, sizeof(path), "%s/%scopy.json", s.path, missing ? "none/" : "");
                ASSERT_OK(file_writer_new(e, path, &metadata_copy_file, on_written, &w, &writer));
                w.n = 0;
                for (c.taken = 1; c.taken <= 5; c.taken++)
                        ASSERT_OK(metadata_copy_put(writer, &c));
                ASSERT_TRUE(sd_event_loop(e) >= 0);
                ASSERT_EQ(w.number, 5); /* the first and the last were written */
                ASSERT_EQ(w.result, missing ? -ENOENT : 0);
                ASSERT_EQ(metadata_copy_read(&h, path, &back, why), missing ? -ENOENT : 0);
                ASSERT_EQ(back.taken, 5);
                sd_event_unref(e);
                ASSERT_OK(sd_event_new(&e) < 0);
                w.event = e;
        }
}

static void test_whose_copy(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct metadata_copy c = { .facts = {
                .n_nics = 2,
                .nics = { { .mac = { 0x42, 1, 10, 128, 0, 1 } }, { .mac = { 0x42, 1, 10, 128, 0, 2 } } },
        } };
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(s.path, &h));
        ASSERT_TRUE(!metadata_copy_is_ours(&h, &c)); /* no NIC at all */
        scratch_write(&s, "sys/class/net/eth0/address", "42:01:0a:80:00:03\n");
        scratch_write(&s, "sys/class/net/bonding_masters", "");
        ASSERT_TRUE(!metadata_copy_is_ours(&h, &c));
        scratch_write(&s, "sys/class/net/eth1/address", "42:01:0a:80:00:02\n");
        ASSERT_TRUE(metadata_copy_is_ours(&h, &c));
        c.facts.n_nics = 0;
        ASSERT_TRUE(!metadata_copy_is_ours(&h, &c));
}

static void test_addresses(void) {
        static const char *const good_ones[] = { "169.254.169.254", "127.0.0.1:8080", "[::1]",
                                                 "[fd20:ce::254]:80" };
        static const char *const bad_ones[] = { "",
                                                "localhost",
                                                "metadata.google.internal",
                                                "1.2.3",
                                                "1.2.3.4:",
                                                "1.2.3.4:0",
                                                "1.2.3.4:65536",
                                                "1.2.3.4:80x",
                                                "::1",
                                                "[::1",
                                                "[::1]x",
                                                "[1.2.3.4]",
                                                "1.2.3.4/x",
                                                "a@1.2.3.4",
                                                " 1.2.3.4" };

        for (size_t i = 0; i < ELEMENTSOF(good_ones); i++)
                ASSERT_TRUE(metadata_address_is_valid(good_ones[i]));
        for (size_t i = 0; i < ELEMENTSOF(bad_ones); i++)
                ASSERT_FALSE(metadata_address_is_valid(bad_ones[i]));
}

/*
 * What is said of the slice: each key its own, the first of them counts, and a copy brings all of it back.
 */
static void test_said(void) {
        static const struct {
                enum metadata_key key;
                const char *body;
        } t[] = {
                { METADATA_TPU_ENV, "WORKER_ID: '2'\nACCELERATOR_TYPE: 'v6e-16'\nTOPOLOGY: '4x4'\n" },
                { METADATA_ENDPOINTS, "a:1:10.0.0.1,b:2:10.0.0.2,c:3:10.0.0.3,d:4:10.0.0.4" },
                { METADATA_WORKER, "3" },
                { METADATA_ACCELERATOR, "v6e-16" },
                { METADATA_SLICE, "slice-a" },
                { METADATA_ZONE, "projects/123456789/zones/us-east5-b" },
                { METADATA_ID, "6502082742571311568" },
                { METADATA_PREEMPTIBLE, "TRUE" },
        };
        _cleanup_metadata_facts_ struct metadata_facts f = { 0 };
        _cleanup_identity_ struct identity i = IDENTITY_NULL, again = IDENTITY_NULL;
        struct metadata_copy copy = { .taken = 1 }, back;
        _cleanup_free_ char *text = NULL;
        char why[METADATA_WHY_MAX];

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                struct metadata_answer a = good("application/text", t[k].body);

                ASSERT_OK(metadata_take(&f, t[k].key, &a, why));
                ASSERT_STREQ(why, "");
        }
        ASSERT_OK(metadata_facts_fill(&f, "metadata", &i));
        ASSERT_STREQ(identity_get(&i, IDENTITY_WORKER_ID), "2");
        ASSERT_STREQ(i.fields[IDENTITY_WORKER_ID].origin, "metadata (tpu-env)");
        ASSERT_STREQ(identity_get(&i, IDENTITY_ZONE), "us-east5-b");
        ASSERT_STREQ(i.fields[IDENTITY_ZONE].origin, "metadata (zone)");
        ASSERT_STREQ(identity_get(&i, IDENTITY_PREEMPTIBLE), "true");
        ASSERT_STREQ(identity_get(&i, IDENTITY_HOST_BOUNDS), "2,2,1"); /* follows */

        struct metadata_answer a = good(JSON, "[" NIC "]");
        ASSERT_OK(metadata_take(&f, METADATA_NICS, &a, why));
        copy.facts = f;
        text = metadata_copy_format(&copy);
        ASSERT_OK(metadata_copy_parse(text, strlen(text), &back, why));
        ASSERT_TRUE(metadata_facts_equal(&f, &back.facts));
        ASSERT_OK(metadata_facts_fill(&back.facts, "copy", &again));
        ASSERT_STREQ(identity_get(&again, IDENTITY_WORKER_ADDRESSES), "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4");
        metadata_facts_clear(&back.facts);
        a = good("application/text", "WORKER_ID: '3'\n");
        ASSERT_OK(metadata_take(&f, METADATA_TPU_ENV, &a, why));
        ASSERT_TRUE(!f.said[METADATA_TPU_ENV][IDENTITY_TOPOLOGY]); /* gone with the text that said it */
}

static void test_hostile_said(void) {
        static const struct {
                enum metadata_key key;
                const char *body;
        } t[] = {
                { METADATA_TPU_ENV, "nonsense" },
                { METADATA_ENDPOINTS, "a:b" },
                { METADATA_WORKER, "x" },
                { METADATA_WORKER, "" },
                { METADATA_ACCELERATOR, "v6e" },
                { METADATA_SLICE, "a b" },
                { METADATA_ZONE, "projects/1/" },
                { METADATA_ID, "0x1" },
                { METADATA_PREEMPTIBLE, "perhaps" },
        };
        _cleanup_metadata_facts_ struct metadata_facts f = { 0 }, empty = { 0 };
        char why[METADATA_WHY_MAX];

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                struct metadata_answer a = good("application/text", t[k].body);

                ASSERT_EQ(metadata_take(&f, t[k].key, &a, why), -EBADMSG);
                ASSERT_TRUE(why[0] != '\0' && metadata_facts_equal(&f, &empty));
        }
}

/* Either spelling; nothing that is no plan; and what the text may hold. */
static void test_upcoming(void) {
        static const char *const none[] = { "", "NONE", "{ }",
                                            ("{ \"error\": \"no notifications have been "
                                             "received yet, try again later\" }"),
                                            "[]", "{\"windowStartTime\": 5}", "{\"windowStartTime\": \"\"}",
                                            "{\"windowStartTimes\": \"x\"}" };
        char text[METADATA_UPCOMING_MAX];

        for (size_t i = 0; i < ELEMENTSOF(none); i++)
                ASSERT_TRUE(!metadata_upcoming_parse(none[i], text));
        ASSERT_TRUE(metadata_upcoming_parse("{\"window_start_time\": \"A\", \"windowEndTime\": \"B\", "
                                            "\"type\": \"SCHEDULED\","
                                            "\"maintenance_status\": \"PENDING\", \"canReschedule\": "
                                            "\"false\"}",
                                            text));
        ASSERT_STREQ(text, "SCHEDULED, PENDING, A to B");
        ASSERT_TRUE(metadata_upcoming_parse("{\"windowStartTime\": \"a\\u001bb\", \"canReschedule\": "
                                            "\"TRUE\","
                                            "\"latestWindowStartTime\": "
                                            "\"0123456789012345678901234567890123456789and more\"}",
                                            text));
        ASSERT_STREQ(text,
                     "a?b, at the latest from 012345678901234567890123456789012345678, can be rescheduled");
}

/* Ten minutes before its end, and never more often than once a minute, whatever the clocks say. */
static void test_token_is_renewed(void) {
        const usec_t now = UINT64_C(1700000000) * USEC_PER_SEC, minute = 60 * USEC_PER_SEC;

        ASSERT_EQ(metadata_token_renewal(now + 60 * minute, now), 50 * minute);
        ASSERT_EQ(metadata_token_renewal(now + 12 * minute, now), 2 * minute);
        ASSERT_EQ(metadata_token_renewal(now + 11 * minute, now), minute);
        ASSERT_EQ(metadata_token_renewal(now, now), minute);
        ASSERT_EQ(metadata_token_renewal(now - 600 * minute, now), minute);
}

static void test_audiences(void) {
        ASSERT_TRUE(metadata_audience_is_valid("https://collectors.site.example"));
        ASSERT_FALSE(metadata_audience_is_valid(""));
        ASSERT_FALSE(metadata_audience_is_valid("two words"));
        ASSERT_FALSE(metadata_audience_is_valid("a\nb"));
}

TEST_MAIN(test_said, test_hostile_said, test_nics, test_hostile_nics, test_too_many_nics, test_who_answers,
          test_texts, test_upcoming, test_copy_comes_back, test_writer, test_whose_copy,
          test_addresses, test_token_is_renewed, test_audiences)
