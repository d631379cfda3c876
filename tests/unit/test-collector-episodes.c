/* SPDX-License-Identifier: Apache-2.0 */
/* Captures and verdicts in the store: repeats, too many of one host, hosts by themselves, what is kept. */
#include "store-support.h"
#include "store_episodes.h"
#include "test.h"

#define SECOND USEC_PER_SEC

static char dir[] = "/tmp/test-episodes-XXXXXX";
static const usec_t now = 1795237200 * SECOND;

static struct store *opened(void) {
        static const char *const ends[] = { "", "-wal", "-shm" };
        struct store *s = NULL;
        char aside[300], why[256];
        int64_t host;

        (void) snprintf(path, sizeof(path), "%s/c.db", dir);
        for (size_t i = 0; i < ELEMENTSOF(ends); i++) {
                char file[80];

                (void) snprintf(file, sizeof(file), "%s%s", path, ends[i]);
                (void) unlink(file);
        }
        ASSERT_OK(store_open(path, &s, aside, why));
        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_find_host(s, "h0", 1, &host));
        ASSERT_OK(store_commit(s));
        return s;
}

static int add(struct store *s, const char *episode, const char *host, unsigned round, size_t len,
               usec_t at) {
        _cleanup_free_ uint8_t *data = calloc(1, len);
        const struct store_capture c = { .episode = episode,
                                         .slice = "s0",
                                         .host = host,
                                         .run = "train",
                                         .suspicion = "",
                                         .worker_id = 0,
                                         .generation = 1,
                                         .round = round,
                                         .rounds = 2,
                                         .taken = at,
                                         .data = data,
                                         .len = len };
        int r;

        ASSERT_OK(store_begin(s));
        r = store_add_capture(s, &c, at);
        ASSERT_OK(store_commit(s));
        return r;
}

static int on_capture(const struct store_capture *c, void *userdata) {
        size_t *n = userdata;

        ASSERT_TRUE(c->id > 0 && *c->host == 'h');
        (*n)++;
        return 0;
}

static size_t kept(struct store *s, const char *episode) {
        size_t n = 0;

        ASSERT_OK(store_list_captures(s, episode, 0, on_capture, &n));
        return n;
}

static void repeats_and_too_many(void) {
        struct store *s = opened();
        int64_t last;
        size_t n = 0;

        ASSERT_EQ(add(s, "e0", "h0", 0, 10, now), 1);
        ASSERT_EQ(add(s, "e0", "h0", 0, 10, now), 0);
        ASSERT_EQ(add(s, "e0", "h0", 1, 10, now), 1);
        ASSERT_EQ(kept(s, "e0"), 2);
        for (unsigned i = 2; i < STORE_CAPTURES_OF_HOST; i++) {
                char episode[16];

                (void) snprintf(episode, sizeof(episode), "x%u", i);
                ASSERT_EQ(add(s, episode, "h0", 0, 10, now), 1);
        }
        ASSERT_EQ(add(s, "more", "h0", 0, 10, now + SECOND), -EDQUOT);
        ASSERT_EQ(add(s, "more", "h1", 0, 10, now + SECOND), 1);
        ASSERT_EQ(add(s, "more", "h0", 0, 10, now + STORE_CAPTURES_SPAN + SECOND), 1);
        ASSERT_OK(store_news_captures(s, 0, &last, on_capture, &n));
        ASSERT_EQ(n, STORE_CAPTURES_OF_HOST + 2);
        s = store_free(s);
}

static void hosts_by_themselves(void) {
        struct store_capture c = {
                .slice = "s0", .host = "h0", .run = "train", .generation = 3, .taken = now
        };
        char first[64], second[64];
        struct store *s = opened();

        ASSERT_OK(store_name_episode(s, &c, now, first));
        ASSERT_STREQ(first, "own.train-3-1795237200000000");
        ASSERT_EQ(add(s, first, "h0", 0, 10, now), 1);
        c.generation = 1; /* as add() has it */
        c.taken = now + 40 * SECOND;
        ASSERT_OK(store_name_episode(s, &c, now, second));
        ASSERT_STREQ(second, first);
        c.taken = now + 70 * SECOND;
        ASSERT_OK(store_name_episode(s, &c, now, second));
        ASSERT_FALSE(streq(second, first));
        s = store_free(s);
}

/* Whoever knows how an episode is named gets none of another's: not of another slice, nor with a name that
 * is cut, nor of one whose captures are gone; and no host begins them without end. */
static void guessed_names(void) {
        const char *const slices[] = { "s1" };
        struct store_capture c = {
                .slice = "s0", .host = "h0", .run = "train", .generation = 1, .taken = now
        };
        char first[64], second[64];
        struct store *s = opened();
        unsigned n = 0;

        ASSERT_OK(store_name_episode(s, &c, now, first));
        ASSERT_EQ(add(s, first, "h0", 0, 10, now), 1);
        c.slice = "s1";
        c.host = "h1";
        ASSERT_OK(store_name_episode(s, &c, now, second));
        ASSERT_FALSE(streq(second, first));
        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_begin_episode(
                s, &(struct store_episode){ .episode = second, .run = "", .by = "", .why = "" }, slices, 1));
        ASSERT_OK(store_commit(s));
        c.run = "a-very-long-name-of-a-run-of-41-letters-a";
        c.generation = INT64_MAX;
        ASSERT_OK(store_name_episode(s, &c, now, first));
        ASSERT_TRUE(strlen(first) < 63);
        c.run = "train";
        c.generation = 1;
        c.slice = "s2";
        ASSERT_OK(store_name_episode(s, &c, now, first));
        ASSERT_FALSE(streq(second, first));
        for (usec_t at = now;; at += 120 * SECOND, n++) {
                c.taken = at;
                c.host = "h0";
                if (store_name_episode(s, &c, at, first) == -EDQUOT)
                        break;
                ASSERT_EQ(add(s, first, "h0", 0, 10, at), 1);
        }
        ASSERT_EQ(n, STORE_OWN_OF_HOST - 1);
        c.host = "h1";
        ASSERT_OK(store_name_episode(s, &c, c.taken, first));
        s = store_free(s);
}

static int on_episode(const struct store_episode *e, void *userdata) {
        struct store_episode *ret = userdata;

        ret->confirmed = e->confirmed;
        ret->answered = e->answered;
        ret->hosts += 1;
        ASSERT_TRUE(e->outcome == NULL || streq(e->outcome, "named"));
        return 0;
}

static void verdicts(void) {
        const char *const slices[] = { "s0", "s1" };
        struct store_episode e = { .episode = "e0",
                                   .run = "train",
                                   .by = "h0",
                                   .why = "slow",
                                   .at = now,
                                   .hosts = 2,
                                   .suspected = true },
                             seen = { 0 };
        struct store *s = opened(), *other = NULL;
        char why[256];

        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_begin_episode(s, &e, slices, 2));
        ASSERT_OK(store_begin_episode(s, &e, slices, 2)); /* again: as it was */
        ASSERT_OK(store_commit(s));
        ASSERT_EQ(add(s, "e0", "h0", 0, 10, now), 1);
        ASSERT_OK(store_list_episodes(s, &(struct store_episode_filter){ .open = true, .limit = 9 },
                                      on_episode, &seen));
        ASSERT_EQ(seen.hosts, 1);
        e.outcome = "named", e.summary = "h1", e.report = "{}", e.diagnosed = e.confirmed = now + SECOND;
        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_set_verdict(s, &e));
        ASSERT_OK(store_commit(s));
        seen = (struct store_episode){ 0 };
        ASSERT_OK(store_list_episodes(s, &(struct store_episode_filter){ .open = true, .limit = 9 },
                                      on_episode, &seen));
        ASSERT_EQ(seen.hosts, 0);
        /* Beside the one that writes. */
        ASSERT_OK(store_open_reading(path, &other, why));
        ASSERT_OK(store_list_episodes(other, &(struct store_episode_filter){ .slice = "s1", .limit = 9 },
                                      on_episode, &seen));
        ASSERT_EQ(seen.hosts, 1);
        ASSERT_EQ(seen.confirmed, now + SECOND);
        ASSERT_EQ(seen.answered, 1);
        other = store_free(other);
        ASSERT_OK(store_list_episodes(s, &(struct store_episode_filter){ .slice = "s2", .limit = 9 },
                                      on_episode, &seen));
        ASSERT_EQ(seen.hosts, 1);
        s = store_free(s);
        ASSERT_EQ(store_open_reading("/no/such/file", &other, why), -ENOENT);
}

static void the_oldest_go(void) {
        const struct store_retention r = { .days = 30, .bytes = 16 * 1024 * 1024, .line_bytes = 1 << 20 };
        struct store *s = opened();
        unsigned hosts;

        for (unsigned i = 0; i < 8; i++) {
                char episode[16];

                (void) snprintf(episode, sizeof(episode), "e%u", i);
                ASSERT_EQ(add(s, episode, "h0", 0, 1000 * 1000, now), 1);
        }
        for (unsigned i = 0; i < 4; i++) /* a round over its hosts */
                ASSERT_OK(store_tend(s, &r, now, &hosts));
        ASSERT_EQ(kept(s, "e3"), 0);
        ASSERT_EQ(kept(s, "e4"), 1); /* a quarter of 16 MiB */
        ASSERT_EQ(kept(s, "e7"), 1);
        s = store_free(s);
}

static void remove_directory(void) {
        store_free(opened());
        (void) unlink(path);
        ASSERT_OK(rmdir(dir));
}

static void make_directory(void) {
        ASSERT_TRUE(mkdtemp(dir) != NULL);
}

TEST_MAIN(make_directory, repeats_and_too_many, hosts_by_themselves, guessed_names, verdicts,
          the_oldest_go, remove_directory)
