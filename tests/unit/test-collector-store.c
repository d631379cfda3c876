/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>

#include "store-support.h"
#include "test.h"

static char dir[] = "/tmp/test-store-XXXXXX";

static void fresh(void) {
        (void) snprintf(path, sizeof(path), "%s/c.db", dir);
        for (size_t i = 0; i < 3; i++) {
                static const char *const ends[] = { "", "-wal", "-shm" };
                char file[80];

                (void) snprintf(file, sizeof(file), "%s%s", path, ends[i]);
                (void) unlink(file);
        }
}

static struct store *opened(void) {
        struct store *s = NULL;
        char aside[300], why[256];

        ASSERT_OK(store_open(path, &s, aside, why));
        ASSERT_STREQ(aside, "");
        return s;
}

static int take(struct store *s, const char *class, uint64_t seq) {
        struct store_record r = { .spool = "00000000000000aa", .seq = seq, .host = "h", .boot = "b",
                                  .machine = "m" };
        int q;

        (void) snprintf(r.class, sizeof(r.class), "%s", class);
        q = store_take_record(s, &r, 1);
        ASSERT_TRUE(q >= 0);
        return MIN(q, 1);
}

static int64_t host(struct store *s, const char *name) {
        int64_t id = 0;

        ASSERT_OK(store_find_host(s, name, 100, &id));
        return id;
}

static const struct store_event event = {
        .service = "", .name = "e", .body = "1", .attributes = "{}", .time = 5, .received = 6
};

static void dedup_is_part_of_the_transaction(void) {
        struct store *s;

        fresh();
        s = opened();
        ASSERT_OK(store_begin(s));
        ASSERT_EQ(take(s, "events", 1), 1);
        ASSERT_OK(store_add_event(s, host(s, "h"), NULL, &event));
        store_rollback(s);
        store_rollback(s);
        ASSERT_EQ(ask("SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM records) + (SELECT "
                      "count(*) FROM hosts)"),
                  0);
        ASSERT_OK(store_begin(s));
        ASSERT_EQ(take(s, "events", 1), 1);
        ASSERT_OK(store_add_event(s, host(s, "h"), NULL, &event));
        ASSERT_EQ(ask("SELECT count(*) FROM events"), 0);
        ASSERT_OK(store_commit(s));
        ASSERT_EQ(ask("SELECT count(*) FROM events"), 1);
        s = store_free(s);

        s = opened();
        ASSERT_EQ(take(s, "events", 1), 0);
        ASSERT_EQ(take(s, "metrics", 1), 1);
        s = store_free(s);
}

/* Against the obvious model: a set of numbers in any order is known exactly, and runs that touch are one. */
static void any_order_is_known_exactly(void) {
        bool known[401] = { false };
        struct store *s;
        int64_t runs = 0;

        fresh();
        srand(test_seed());
        s = opened();
        ASSERT_OK(store_begin(s));
        for (size_t i = 0; i < 1000; i++) {
                size_t seq = 1 + (size_t) rand() % 399;

                ASSERT_EQ(take(s, "events", seq), !known[seq]);
                known[seq] = true;
        }
        ASSERT_OK(store_commit(s));
        for (size_t i = 1; i <= 400; i++)
                runs += known[i - 1] && !known[i];
        ASSERT_EQ(ask("SELECT count(*) FROM records"), runs);
        ASSERT_EQ(take(s, "x", INT64_MAX), 1);
        ASSERT_EQ(take(s, "x", INT64_MAX), 0);
        ASSERT_EQ(take(s, "x", INT64_MAX - 1), 1);
        s = store_free(s);
}

static void runs_are_bounded(void) {
        struct store *s;

        fresh();
        s = opened();
        ASSERT_OK(store_begin(s));
        for (uint64_t i = 1; i <= STORE_RANGES_MAX + 10; i++)
                ASSERT_EQ(take(s, "events", 2 * i), 1);
        ASSERT_OK(store_commit(s));
        ASSERT_EQ(ask("SELECT count(*) FROM records"), STORE_RANGES_MAX);
        ASSERT_EQ(take(s, "events", 2 * (STORE_RANGES_MAX + 10) - 1), 1); /* a high gap is still a gap */
        ASSERT_EQ(take(s, "events", 2 * (STORE_RANGES_MAX + 10)), 0);
        for (uint64_t i = 1; i <= 10; i++) /* what was never sent is no repeat */
                ASSERT_EQ(take(s, "events", 2 * i + 1), 1);
        s = store_free(s);
}

/* A host that is full of spools forgets its own oldest, and nobody else's. */
static void spools_of_a_host_are_bounded(void) {
        struct store_record r = { .class = "events", .seq = 1, .host = "h", .boot = "b h2", .machine = "m" };
        struct store *s;

        fresh();
        s = opened();
        ASSERT_OK(store_begin(s));
        r.host = "other";
        (void) snprintf(r.spool, sizeof(r.spool), "%016x", 0);
        ASSERT_EQ(store_take_record(s, &r, 1), STORE_FIRST_RECORD);
        r.host = "h";
        for (unsigned i = 1; i <= STORE_RANGES_OF_HOST + 20; i++) {
                (void) snprintf(r.spool, sizeof(r.spool), "%016x", i);
                ASSERT_EQ(store_take_record(s, &r, i + 1), STORE_FIRST_RECORD);
        }
        ASSERT_EQ(store_take_record(s, &r, 1), 0);
        r.host = "other";
        (void) snprintf(r.spool, sizeof(r.spool), "%016x", 0);
        ASSERT_EQ(store_take_record(s, &r, 1), 0);
        ASSERT_OK(store_commit(s));
        ASSERT_EQ(ask("SELECT count(*) FROM records"), STORE_RANGES_OF_HOST + 1);
        s = store_free(s);
}

/* All names are in use: a new host is let in when nothing of another is kept any more. */
static void hosts_are_forgotten(void) {
        const struct store_retention days = { .days = 1, .line_bytes = 1, .bytes = UINT64_MAX };
        const usec_t day = (usec_t) 86400 * USEC_PER_SEC, now = 100 * day;
        unsigned n;
        int64_t id;
        struct store *s;

        fresh();
        s = opened();
        ASSERT_OK(store_begin(s));
        for (int64_t i = 1; i <= 5; i++) {
                char name[8];

                (void) snprintf(name, sizeof(name), "h%d", (int) i);
                ASSERT_OK(store_find_host(s, name, i == 3 || i == 4 ? day : now, &id));
                ASSERT_EQ(id, i);
        }
        ASSERT_OK(store_commit(s));
        (void) ask("UPDATE hosts SET id = 100000 WHERE name = 'h5'");
        ASSERT_EQ(ask("SELECT id FROM hosts WHERE name = 'h5'"), STORE_HOSTS_MAX);
        ASSERT_OK(store_begin(s));
        ASSERT_EQ(store_find_host(s, "new", now, &id), -EDQUOT);
        store_rollback(s);
        for (unsigned i = 0; i < 20; i++)
                ASSERT_OK(store_tend(s, &days, now, &n));
        ASSERT_EQ(n, 3);
        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_find_host(s, "new", now, &id));
        ASSERT_TRUE(id > 2 && id < STORE_HOSTS_MAX);
        ASSERT_OK(store_find_host(s, "h1", now, &id));
        ASSERT_EQ(id, 1);
        ASSERT_OK(store_find_host(s, "h3", now, &id));
        ASSERT_TRUE(id > 2 && id < STORE_HOSTS_MAX);
        ASSERT_OK(store_commit(s));
        ASSERT_EQ(ask("SELECT count(DISTINCT name) FROM hosts"), 5);
        s = store_free(s);
}

static void other_databases_are_refused(void) {
        struct store *s = NULL;
        char aside[300], why[256];

        fresh();
        s = opened();
        (void) host(s, "h");
        s = store_free(s);
        (void) ask("PRAGMA user_version = 10");
        s = opened(); /* newer, and says that this version may use it */
        ASSERT_EQ(host(s, "h"), 1);
        s = store_free(s);
        ASSERT_EQ(ask("PRAGMA user_version"), 10);

        (void) ask("UPDATE meta SET value = 10 WHERE key = 'oldest_reader'");
        ASSERT_EQ(store_open(path, &s, aside, why), -ENOTRECOVERABLE);
        ASSERT_TRUE(strstr(why, "schema version 10") && strstr(why, path) && strstr(why, "newer"));
        ASSERT_EQ(ask("SELECT count(*) FROM hosts"), 1);

        (void) ask("UPDATE meta SET value = 1 WHERE key = 'oldest_reader'");
        (void) ask("PRAGMA application_id = 7");
        ASSERT_EQ(store_open(path, &s, aside, why), -ENOTRECOVERABLE);
        ASSERT_TRUE(strstr(why, "another program"));
        (void) snprintf(path, sizeof(path), "%s/no/such/dir", dir);
        ASSERT_EQ(store_open(path, &s, aside, why), -EACCES);
        ASSERT_TRUE(strstr(why, path));
}

static int visit_host(const struct store_host *h, void *userdata) {
        char *line = userdata;

        (void) snprintf(line + strlen(line), 256 - strlen(line), "%s %s %lld %s %s %lld %s;", h->name,
                        h->slice ?: "-", (long long) h->worker_id, h->state ?: "-", h->run ?: "-",
                        (long long) h->step, h->boot_id ?: "-");
        return 0;
}

static void the_latest_goes_by_its_time(void) {
        struct store_identity i = { .slice = "s", .boot_id = "new", .worker_id = 2 },
                              old = { .boot_id = "old", .worker_id = -1 };
        char line[256] = "";
        struct store *s;
        int64_t h;

        fresh();
        s = opened();
        h = host(s, "h");
        ASSERT_EQ(host(s, "h"), h);
        (void) host(s, "g");
        ASSERT_OK(store_agent_seen(s, h, &i, 50, 100));
        ASSERT_OK(store_agent_seen(s, h, &old, 40, 101));
        ASSERT_OK(store_other_seen(s, h, 200));
        ASSERT_OK(store_set_state(s, h, "ready", 50));
        ASSERT_OK(store_set_state(s, h, "unfit", 49));
        ASSERT_OK(store_set_step(s, h, "j", 7, 50));
        ASSERT_OK(store_set_step(s, h, "j", 6, 49));
        ASSERT_OK(store_list_hosts(s, NULL, visit_host, line));
        ASSERT_STREQ(line, "h s 2 ready j 7 new;g - -1 - - -1 -;");
        ASSERT_EQ(ask("SELECT last_seen FROM hosts WHERE name = 'h'"), 101);
        line[0] = '\0'; /* a run whose steps have not come for a minute has ended */
        ASSERT_OK(store_set_state(s, h, "ready", 50 + 60 * USEC_PER_SEC));
        ASSERT_OK(store_list_hosts(s, "h", visit_host, line));
        ASSERT_STREQ(line, "h s 2 ready - -1 new;");
        s = store_free(s);
}

static void series_are_bounded(void) {
        struct store_metric m = {
                .service = "", .unit = "1", .attributes = "{}", .is_int = true, .i = 1, .time = 9
        };
        char name[32];
        struct store *s;
        int64_t h;

        fresh();
        s = opened();
        ASSERT_OK(store_begin(s));
        h = host(s, "h");
        m.name = name;
        for (unsigned i = 0; i < STORE_SERIES_MAX; i++) {
                (void) snprintf(name, sizeof(name), "m%u", i);
                ASSERT_OK(store_add_point(s, h, &m));
        }
        ASSERT_OK(store_add_point(s, h, &m));
        m.name = "one more";
        ASSERT_EQ(store_add_point(s, h, &m), -EDQUOT);
        ASSERT_OK(store_add_point(s, host(s, "g"), &m));
        ASSERT_OK(store_commit(s));
        ASSERT_EQ(ask("SELECT count(*) FROM series"), STORE_SERIES_MAX + 1);
        s = store_free(s);
}

/* A child commits pushes of ten events and tells the number of each committed one; the parent kills it at
 * some moment. */
static void a_kill_leaves_whole_pushes(void) {
        fresh();
        srand(test_seed());
        store_free(opened());
        for (unsigned round = 0; round < 10; round++) {
                int64_t told = 0, n;
                int p[2];
                pid_t child;

                ASSERT_OK(pipe(p));
                child = fork();
                if (child == 0) {
                        struct store *s = opened();

                        for (n = 1;; n++) {
                                ASSERT_OK(store_begin(s));
                                for (unsigned i = 0; i < 10; i++)
                                        ASSERT_OK(store_add_event(s, host(s, "h"), NULL, &event));
                                ASSERT_OK(store_commit(s));
                                ASSERT_EQ(write(p[1], &n, sizeof(n)), sizeof(n));
                        }
                }
                (void) close(p[1]);
                ASSERT_EQ(read(p[0], &told, sizeof(told)), sizeof(told));
                (void) usleep((useconds_t) (rand() % 20000));
                ASSERT_OK(kill(child, SIGKILL));
                ASSERT_EQ(waitpid(child, NULL, 0), child);
                while (read(p[0], &n, sizeof(n)) == sizeof(n))
                        told = n;
                (void) close(p[0]);
                store_free(opened());
                n = ask("SELECT count(*) FROM events");
                ASSERT_EQ(n % 10, 0);
                ASSERT_TRUE(n / 10 == told || n / 10 == told + 1);
                (void) ask("DELETE FROM events");
        }
        fresh();
        (void) rmdir(dir);
}

static void make_directory(void) {
        ASSERT_TRUE(mkdtemp(dir));
}

TEST_MAIN(make_directory, dedup_is_part_of_the_transaction, any_order_is_known_exactly, runs_are_bounded,
          spools_of_a_host_are_bounded, hosts_are_forgotten, other_databases_are_refused,
          the_latest_goes_by_its_time, series_are_bounded,
          a_kill_leaves_whole_pushes)
