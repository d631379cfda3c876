/* SPDX-License-Identifier: Apache-2.0 */
#include "sync_course.h"

#include "backoff.h"
#include "test.h"

#define LEASE (16 * USEC_PER_SEC)
#define CHANCE UINT64_MAX /* some long wait of those that backoff_next() may give */

static struct sync_course course(const char *list) {
        struct sync_course c;
        char why[COURSE_WHY_MAX];

        ASSERT_OK(sync_course_init(&c, list, LEASE, why));
        return c;
}

static void fails(struct sync_course *c, enum sync_failure f, usec_t now, usec_t *ret_wait) {
        sync_course_send(c, now);
        *ret_wait = sync_course_failed(c, f, "nobody listens", 0, CHANCE);
}

static int answers(struct sync_course *c, const char *store, uint64_t term, usec_t sent) {
        sync_course_send(c, sent);
        return sync_course_answer(c, store, term, LEASE);
}

static void lists(void) {
        static const char *const bad[] = { "", " , ", "/", "http://a http://b,http://c, http://d http://e" };
        struct sync_course c = course(" http://a:1//,\thttp://b:2,http://c http://d/ ");
        char why[COURSE_WHY_MAX], longest[COURSE_URL_MAX + 1] = "";

        ASSERT_EQ(c.n, 4);
        ASSERT_STREQ(c.urls[0], "http://a:1");
        ASSERT_STREQ(c.urls[1], "http://b:2");
        ASSERT_STREQ(c.urls[3], "http://d");
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                why[0] = '\0';
                ASSERT_EQ(sync_course_init(&c, bad[i], LEASE, why), -EINVAL);
                ASSERT_TRUE(why[0]);
        }
        memset(longest, 'u', COURSE_URL_MAX);
        ASSERT_EQ(sync_course_init(&c, longest, LEASE, why), -EINVAL);
        longest[COURSE_URL_MAX - 1] = '\0';
        ASSERT_OK(sync_course_init(&c, longest, LEASE, why));
}

/* Each is asked at once behind the one that failed; only then there is a wait, and never a long one. */
static void rounds(void) {
        struct sync_course c = course("http://a,http://b,http://c");
        usec_t wait;

        for (unsigned round = 0; round < 20; round++) {
                bool seen[3] = { false, false, false };

                for (unsigned i = 0; i < 3; i++) {
                        ASSERT_FALSE(seen[c.at]);
                        seen[c.at] = true;
                        fails(&c, SYNC_AWAY, 0, &wait);
                        ASSERT_EQ(sync_course_is_over(&c), i == 2);
                        ASSERT_TRUE(i == 2 ? wait <= LEASE / 4 : wait == 0);
                        ASSERT_TRUE(sync_course_fails(&c));
                }
                ASSERT_TRUE(strstr(c.why, "http://a: nobody listens") &&
                            strstr(c.why, "http://c: nobody listens"));
                ASSERT_EQ(c.mildest, SYNC_AWAY);
        }
        ASSERT_EQ(wait, MIN(backoff_next(19, CHANCE), LEASE / 4));
        sync_course_send(&c, 0);
        ASSERT_EQ(sync_course_failed(&c, SYNC_AWAY, "", 3600 * USEC_PER_SEC, 0),
                  0); /* others are left to be asked */
        fails(&c, SYNC_AWAY, 0, &wait);
        sync_course_send(&c, 0);
        ASSERT_EQ(sync_course_failed(&c, SYNC_AWAY, "", 3600 * USEC_PER_SEC, 0),
                  LEASE / 4); /* Retry-After: no longer */
        ASSERT_OK(answers(&c, "", 0, 0));
        ASSERT_FALSE(sync_course_fails(&c));
}

/* With a dead leader all are asked again and again well within one lease, however many tries failed before.
 */
static void nobody_stays_away_for_a_lease(void) {
        struct sync_course c = course("http://a,http://b");
        usec_t now = 0, wait;

        for (unsigned i = 0; i < 1000; i++) {
                usec_t round = now;

                fails(&c, SYNC_AWAY, now, &wait);
                now += wait;
                fails(&c, SYNC_AWAY, now, &wait);
                now += wait;
                ASSERT_TRUE(now - round <= LEASE / 4);
        }
}

static void refused_by_all_or_by_some(void) {
        struct sync_course c = course("http://a,http://b");
        usec_t wait;

        fails(&c, SYNC_REFUSED, 0, &wait);
        ASSERT_EQ(wait, 0);
        fails(&c, SYNC_REFUSED, 0, &wait);
        ASSERT_EQ(c.mildest, SYNC_REFUSED);
        ASSERT_EQ(wait, BACKOFF_PARKED);
        fails(&c, SYNC_REFUSED, 0, &wait);
        fails(&c, SYNC_NONSENSE, 0, &wait);
        ASSERT_EQ(c.mildest, SYNC_NONSENSE);
        ASSERT_TRUE(wait <= LEASE / 4);
        fails(&c, SYNC_AWAY, 0, &wait);
        fails(&c, SYNC_REFUSED, 0, &wait);
        ASSERT_EQ(c.mildest, SYNC_AWAY);
        ASSERT_TRUE(wait <= LEASE / 4);
}

static void the_leader_is_followed(void) {
        struct sync_course c = course("http://a:1,http://b:2,http://c:3");
        char why[COURSE_WHY_MAX] = "";

        sync_course_send(&c, 0);
        ASSERT_TRUE(sync_course_follow(&c, "http://c:3/", why));
        ASSERT_STREQ(sync_course_url(&c), "http://c:3");
        ASSERT_OK(answers(&c, "s", 5, 0));
        ASSERT_EQ(c.answered, 2);
        ASSERT_STREQ(sync_course_url(&c), "http://c:3"); /* and stays the one who is asked */
}

/* What a stranger names is not gone to. */
static void a_leader_that_is_not_configured(void) {
        static const char *const strangers[] = { "http://evil:1", "http://a:11",     "http://a:",
                                                 "https://a:1",   "http://a:1@evil", "" };
        char why[COURSE_WHY_MAX];

        for (size_t i = 0; i < ELEMENTSOF(strangers); i++) {
                struct sync_course c = course("http://b:2,http://a:1");

                sync_course_send(&c, 0);
                why[0] = '\0';
                ASSERT_FALSE(sync_course_follow(&c, strangers[i], why));
                ASSERT_TRUE(strstr(why, strangers[i]) && strstr(why, "does not lead"));
                ASSERT_EQ(sync_course_failed(&c, SYNC_AWAY, why, 0, CHANCE), 0);
                ASSERT_STREQ(sync_course_url(&c), "http://a:1"); /* the next one, all the same */
        }
}

/* Two that name each other are asked once each, and the third; then there is a wait. */
static void two_that_name_each_other(void) {
        struct sync_course c = course("http://a,http://b,http://c");
        char why[COURSE_WHY_MAX];

        for (unsigned round = 0; round < 10; round++) {
                unsigned asked = 0;

                for (usec_t wait = 0; wait == 0 && asked < 10;) {
                        const char *other = streq(sync_course_url(&c), "http://a") ? "http://b" : "http://a";

                        sync_course_send(&c, 0);
                        asked++;
                        if (!sync_course_follow(&c, other, why))
                                wait = sync_course_failed(&c, SYNC_AWAY, why, USEC_PER_SEC, CHANCE);
                }
                ASSERT_EQ(asked, 3);
                ASSERT_TRUE(sync_course_is_over(&c));
                ASSERT_TRUE(strstr(c.why, "was asked before"));
        }
}

static void names_itself(void) {
        struct sync_course c = course("http://a");
        char why[COURSE_WHY_MAX];

        sync_course_send(&c, 0);
        ASSERT_FALSE(sync_course_follow(&c, "http://a", why));
        ASSERT_TRUE(sync_course_failed(&c, SYNC_AWAY, why, USEC_PER_SEC, CHANCE) >= USEC_PER_SEC);
}

static void who_led_before_is_not_believed(void) {
        struct sync_course c = course("http://a,http://b");
        struct sync_course before;

        ASSERT_OK(answers(&c, "s", 7, 1000));
        ASSERT_EQ(sync_course_term(&c), 7);
        ASSERT_OK(answers(&c, "s", 7, 2000)); /* the same leader */
        ASSERT_OK(answers(&c, "s", 9, 3000));
        sync_course_send(&c, 4000);
        before = c;
        ASSERT_EQ(sync_course_answer(&c, "s", 8, LEASE), -ESTALE);
        ASSERT_TRUE(memcmp(&before, &c, sizeof(c)) == 0); /* it renews nothing */
        ASSERT_EQ(sync_course_failed(&c, SYNC_AWAY, "", 0, 0), 0);
        ASSERT_OK(answers(&c, "s", 9, 5000));
}

/* Terms are of a store: a restored or another one begins anew, and the old one's are not forgotten. */
static void another_store(void) {
        struct sync_course c = course("http://a,http://b");
        char name[16];

        ASSERT_OK(answers(&c, "s", 900, 0));
        ASSERT_OK(answers(&c, "t", 3, 0));
        ASSERT_EQ(sync_course_term(&c), 3);
        ASSERT_EQ(answers(&c, "s", 899, 0), -ESTALE);
        ASSERT_EQ(answers(&c, "t", 2, 0), -ESTALE);
        ASSERT_EQ(sync_course_term(&c), 3);
        ASSERT_OK(answers(&c, "s", 900, 0));
        ASSERT_EQ(sync_course_term(&c), 900);
        ASSERT_OK(answers(&c, "", 0, 0));    /* of a collector that says none */
        for (unsigned i = 0; i < 100; i++) { /* more than are remembered: the latest are */
                (void) snprintf(name, sizeof(name), "s%u", i);
                ASSERT_OK(answers(&c, name, i + 1, 0));
                ASSERT_EQ(answers(&c, name, i, 0), -ESTALE);
                ASSERT_EQ(sync_course_term(&c), i + 1);
        }
}

/* Nine tenths of the lease, from before the sync was sent: however late its answer comes. */
static void the_claim_ends_by_itself(void) {
        struct sync_course c = course("http://a,http://b");
        usec_t sent = 1000 * USEC_PER_SEC, end = sent + LEASE / 10 * 9, wait;

        ASSERT_FALSE(sync_course_may_claim(&c, 0));
        ASSERT_OK(answers(&c, "s", 1, sent));
        ASSERT_TRUE(sync_course_may_claim(&c, end - 1));
        ASSERT_FALSE(sync_course_may_claim(&c, end));
        fails(&c, SYNC_AWAY, end - 2, &wait); /* what fails ends no claim, and renews none */
        ASSERT_TRUE(sync_course_may_claim(&c, end - 1));
        ASSERT_FALSE(sync_course_may_claim(&c, end));

        /* Stopped for longer than the lease between the question and its answer: no claim, until the next
         * one is answered. */
        sync_course_send(&c, sent);
        ASSERT_OK(sync_course_answer(&c, "s", 1, LEASE));
        ASSERT_FALSE(sync_course_may_claim(&c, sent + 3600 * USEC_PER_SEC));
        ASSERT_OK(answers(&c, "s", 1, sent + 3600 * USEC_PER_SEC));
        ASSERT_TRUE(sync_course_may_claim(&c, sent + 3600 * USEC_PER_SEC + 1));

        ASSERT_OK(answers(&c, "s", 1, sent));
        sync_course_give_up_claim(&c);
        ASSERT_FALSE(sync_course_may_claim(&c, sent));
}

/* Stopped, with its connections open: waited for once, and then not for long; who is named as the leader is
 * given its time. */
static void one_that_is_silent(void) {
        struct sync_course c = course("http://a,http://b");
        const usec_t full = 12 * USEC_PER_SEC;
        char why[COURSE_WHY_MAX];
        usec_t wait;

        ASSERT_EQ(sync_course_patience(&c, full), full);
        fails(&c, SYNC_SILENT, 0, &wait);
        ASSERT_EQ(sync_course_patience(&c, full), full); /* of the other one */
        fails(&c, SYNC_AWAY, 0, &wait);
        ASSERT_STREQ(sync_course_url(&c), "http://a");
        ASSERT_EQ(sync_course_patience(&c, full), LEASE / 4);
        fails(&c, SYNC_SILENT, 0, &wait);
        ASSERT_EQ(sync_course_patience(&c, full), full);
        fails(&c, SYNC_AWAY, 0, &wait);
        sync_course_send(&c, 0);
        ASSERT_EQ(sync_course_failed(&c, SYNC_AWAY, "", 0, 0), 0); /* it speaks again */
        sync_course_send(&c, 0);
        (void) sync_course_failed(&c, SYNC_SILENT, "", 0, 0);
        ASSERT_EQ(sync_course_patience(&c, full), full);
        sync_course_send(&c, 0);
        ASSERT_TRUE(sync_course_follow(&c, "http://b", why));
        /* a leader that is slow, for a whole fleet comes at once */
        ASSERT_EQ(sync_course_patience(&c, full), full);
        ASSERT_OK(answers(&c, "", 0, 0));
        ASSERT_EQ(sync_course_patience(&c, full), full);
}

/* A question that was given up for another, in the middle of a round, leaves nobody out of it for ever. */
static void asked_again(void) {
        struct sync_course c = course("http://a,http://b");
        usec_t wait;

        sync_course_send(&c, 0);
        sync_course_send(&c, 0);
        ASSERT_FALSE(sync_course_is_over(&c));
        fails(&c, SYNC_AWAY, 0, &wait);
        ASSERT_STREQ(sync_course_url(&c), "http://b");
        ASSERT_EQ(wait, 0);
}

/* Who led in an earlier life is asked first, if it is still one of the endpoints; then the others as
 * ever. */
static void who_led_last_is_asked_first(void) {
        struct sync_course c = course("http://a,http://b,http://c");
        usec_t wait;

        sync_course_prefer(&c, NULL);
        ASSERT_STREQ(sync_course_url(&c), "http://a");
        sync_course_prefer(&c, "http://elsewhere");
        ASSERT_STREQ(sync_course_url(&c), "http://a");
        sync_course_prefer(&c, "http://b");
        ASSERT_STREQ(sync_course_url(&c), "http://b");
        fails(&c, SYNC_SILENT, 0, &wait);
        ASSERT_STREQ(sync_course_url(&c), "http://c");
        fails(&c, SYNC_SILENT, 0, &wait);
        ASSERT_STREQ(sync_course_url(&c), "http://a");
        ASSERT_FALSE(sync_course_is_over(&c));
        fails(&c, SYNC_SILENT, 0, &wait);
        ASSERT_TRUE(sync_course_is_over(&c));
}

TEST_MAIN(lists, who_led_last_is_asked_first, rounds, nobody_stays_away_for_a_lease,
          refused_by_all_or_by_some, the_leader_is_followed,
          a_leader_that_is_not_configured, two_that_name_each_other, names_itself,
          who_led_before_is_not_believed, another_store, the_claim_ends_by_itself,
          one_that_is_silent, asked_again)
