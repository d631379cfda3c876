/* SPDX-License-Identifier: Apache-2.0 */
/* From what hosts say with their syncs to the first word about a stall: when it
 * is judged, and what of. */
#include <jansson.h>

#include "first_word.h"
#include "test.h"

#define T0 (1700000000 * USEC_PER_SEC)
#define HOSTS 4

struct scene {
        struct first_words *words;
        usec_t now, since;
        struct first_word last;
        unsigned said, judged;
};

static struct scene scene_new(void) {
        struct scene s = { .now = T0, .since = T0 - 12 * USEC_PER_SEC };

        ASSERT_OK(first_words_new(&s.words));
        return s;
}

static json_t *peer_of(int host, int peer, const char *turn, int sent, int received, int unread) {
        return json_pack("{s:o, s:o, s:s, s:i, s:i, s:i, s:i}", "local", json_sprintf("10.0.0.%d", host),
                         "peer", json_sprintf("10.0.0.%d", peer), "turn", turn, "sent", sent, "received",
                         received, "unread", unread, "unsent", 0);
}

/* A ring in which host `odd` has what it needs. */
static json_t *ring_of(int host, int odd) {
        int before = (host + HOSTS - 1) % HOSTS, next = (host + 1) % HOSTS;
        json_t *list = json_array();

        (void) json_array_append_new(list, host == odd ? peer_of(host, before, "owes", 12400, 12000, 49632)
                                           : before == odd ? peer_of(host, before, "waits", 12000, 12400, 0)
                                                           : peer_of(host, before, "open", 12000, 12000, 0));
        (void) json_array_append_new(list, peer_of(host, next, "sends", 12000, 12000, 0));
        return list;
}

static void say(struct scene *s, int host, uint64_t generation, json_t *peers) {
        char name[8];
        const struct first_word_source who = { name, "s0", host };
        json_t *figure = json_pack("{s:s, s:I}", "run", "train", "generation", (json_int_t) generation);

        (void) snprintf(name, sizeof(name), "h%d", host);
        if (peers)
                (void) json_object_set_new(figure, "debts",
                                           json_pack("{s:I, s:I, s:i, s:o}", "at", (json_int_t) s->now,
                                                     "silent",
                                                     (json_int_t) ((s->now - s->since) / USEC_PER_MSEC),
                                                     "step", 430, "peers", peers));
        ASSERT_OK(first_words_take(s->words, &who, figure, s->now));
        json_decref(figure);
}

static void judge(struct scene *s, const json_t *slices) {
        const char *run;

        while ((run = first_words_due_run(s->words, s->now))) {
                int r = first_words_judge(s->words, run, slices, s->now, &s->last);

                ASSERT_TRUE(r >= 0);
                s->said += (unsigned) r;
                s->judged++;
        }
}

/* Named at once when all have said it, and once only; the next stall is another
 * one. */
static void test_all_say(void) {
        struct scene s = scene_new();

        for (int h = 0; h < HOSTS; h++)
                say(&s, h, 1, NULL);
        ASSERT_TRUE(first_words_due(s.words) == USEC_INFINITY);
        for (int h = 0; h < HOSTS; h++) {
                say(&s, h, 1, ring_of(h, 2));
                if (h < HOSTS - 1)
                        ASSERT_TRUE(first_words_due(s.words) > s.now);
        }
        judge(&s, NULL);
        ASSERT_EQ(s.said, 1);
        ASSERT_STREQ(s.last.host, "h2");
        ASSERT_STREQ(s.last.text, "first word, from sockets alone (4 of 4 hosts): "
                                  "slice s0, worker 2 (h2) holds it "
                                  "up: it has what it needs and sends nothing, 49632 "
                                  "bytes lie unread there (most "
                                  "of them h1's), it received data 0.40 s after it "
                                  "had last sent; 1 waits for it "
                                  "directly");
        ASSERT_TRUE(first_words_of(s.words, "train", 1) != NULL);
        ASSERT_TRUE(first_words_of(s.words, "train", 2) == NULL);
        s.now += 45 * USEC_PER_SEC; /* they say it again: what all say is not judged at each word */
        s.judged = 0;
        for (int h = 0; h < HOSTS; h++) {
                say(&s, h, 1, ring_of(h, 2));
                judge(&s, NULL);
        }
        ASSERT_EQ(s.judged, 1);
        ASSERT_EQ(s.said, 1);
        s.now += 600 * USEC_PER_SEC;
        s.since = s.now - 12 * USEC_PER_SEC;
        for (int h = 0; h < HOSTS; h++)
                say(&s, h, 1, ring_of(h, 1));
        judge(&s, NULL);
        ASSERT_EQ(s.said, 2);
        ASSERT_STREQ(s.last.host, "h1");
        s.words = first_words_free(s.words);
}

/* Most of them: a moment later. The one that holds it up may be silent, and has
 * its name from the record. */
static void test_most_say(void) {
        struct scene s = scene_new();
        json_t *slices = json_array(), *hosts = json_array();

        for (int h = 0; h < HOSTS; h++) {
                say(&s, h, 1, NULL);
                (void) json_array_append_new(hosts, json_pack("{s:o, s:i, s:[s, o]}", "host",
                                                              json_sprintf("h%d", h), "worker", h, "address",
                                                              "192.0.2.1", json_sprintf("10.0.0.%d", h)));
        }
        (void) json_array_append_new(slices, json_pack("{s:s, s:o}", "slice", "s0", "hosts", hosts));
        say(&s, 0, 1, ring_of(0, 2));
        say(&s, 1, 1, ring_of(1, 2));
        ASSERT_TRUE(first_words_due(s.words) == USEC_INFINITY);
        say(&s, 3, 1, ring_of(3, 2));
        ASSERT_EQ(first_words_due(s.words), s.now + FIRST_WORD_WAIT);
        s.now += FIRST_WORD_WAIT;
        judge(&s, slices);
        ASSERT_EQ(s.said, 1);
        ASSERT_EQ(s.last.says, DEBTS_LIKELY);
        ASSERT_STREQ(s.last.host, "h2");
        ASSERT_EQ(s.last.worker, 2);
        s.now += USEC_PER_SEC; /* it was late: now it is clear, which is said */
        say(&s, 2, 1, ring_of(2, 2));
        judge(&s, slices);
        ASSERT_EQ(s.said, 2);
        ASSERT_EQ(s.last.says, DEBTS_CLEAR);
        json_decref(slices);
        s.words = first_words_free(s.words);
}

/* Nobody, when all have said something and it shows nobody; another start; what
 * makes no sense. */
static void test_nobody_and_nonsense(void) {
        static const char *const odd[] = {
                "{\"run\":\"train\",\"generation\":1,\"debts\":7}",
                "{\"run\":\"train\",\"generation\":1,\"debts\":{\"at\":-1,\"peers\":[1,{}"
                ",{\"local\":\"x\"}]}}",
                "{\"run\":7,\"debts\":{}}",
                "{\"run\":\"train\",\"generation\":1,\"debts\":{\"at\":1,\"silent\":5,"
                "\"peers\":{}}}",
        };
        const struct first_word_source who = { "h0", NULL, -1 };
        struct scene s = scene_new();

        for (size_t i = 0; i < ELEMENTSOF(odd); i++) {
                json_t *v = json_loads(odd[i], 0, NULL);

                ASSERT_OK(first_words_take(s.words, &who, v, s.now));
                json_decref(v);
        }
        judge(&s, NULL);
        ASSERT_EQ(s.said, 0);
        first_words_forget(s.words);
        for (int h = 0; h < HOSTS; h++)
                say(&s, h, 3, json_array());
        judge(&s, NULL);
        ASSERT_EQ(s.said, 1);
        ASSERT_EQ(s.last.says, DEBTS_NOBODY);
        ASSERT_STREQ(s.last.host, "");
        say(&s, 0, 2, ring_of(0, 0)); /* of an earlier start */
        say(&s, 0, 4, NULL);
        ASSERT_TRUE(first_words_of(s.words, "train", 3) == NULL);
        s.words = first_words_free(s.words);
}

/* A host that speaks of more runs than are kept: the stall of another is said. */
static void test_runs_of_one_host(void) {
        const struct first_word_source liar = { "liar", "s9", 0 };
        struct scene s = scene_new();

        for (unsigned i = 0; i < 2 * FIRST_WORD_RUNS_MAX; i++) {
                json_t *figure = json_pack("{s:o, s:i}", "run", json_sprintf("run%u", i), "generation", 1);

                ASSERT_OK(first_words_take(s.words, &liar, figure, s.now));
                json_decref(figure);
        }
        for (int h = 0; h < HOSTS; h++)
                say(&s, h, 1, ring_of(h, 2));
        judge(&s, NULL);
        ASSERT_TRUE(s.said > 0);
        ASSERT_STREQ(s.last.run, "train");
        s.words = first_words_free(s.words);
}

/* A host that speaks ahead of a run, in a generation that never comes: its own hosts are heard once nobody
 * spoke so for two minutes. */
static void test_ahead_of_a_run(void) {
        const struct first_word_source liar = { "liar", "s9", 0 };
        struct scene s = scene_new();
        json_t *figure =
                json_pack("{s:s, s:I}", "run", "train", "generation", (json_int_t) (INT64_C(1) << 62));

        ASSERT_OK(first_words_take(s.words, &liar, figure, s.now));
        json_decref(figure);
        for (unsigned second = 0; second <= 121; second++) {
                for (int h = 0; h < HOSTS; h++)
                        say(&s, h, 1, ring_of(h, 2));
                judge(&s, NULL);
                s.now += USEC_PER_SEC;
        }
        ASSERT_EQ(s.said, 1);
        ASSERT_EQ(s.last.hosts, HOSTS);
        ASSERT_STREQ(s.last.host, "h2");
        s.words = first_words_free(s.words);
}

/* Two hosts say that an address is theirs: it is nobody's. */
static void test_address_of_two(void) {
        struct scene s = scene_new();

        for (int h = 0; h < HOSTS; h++) {
                json_t *list = ring_of(h, 2);

                if (h == 0)
                        (void) json_array_append_new(list, peer_of(2, 3, "open", 12000, 12000, 0));
                say(&s, h, 1, list);
        }
        judge(&s, NULL);
        ASSERT_TRUE(s.last.says != DEBTS_CLEAR);
        s.words = first_words_free(s.words);
}

TEST_MAIN(test_all_say, test_most_say, test_nobody_and_nonsense, test_runs_of_one_host,
          test_ahead_of_a_run, test_address_of_two)
