/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that anybody may write to: what is taken, what is refused, and that nothing hangs or is told
 * twice. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "open_folder.h"
#include "scratch.h"
#include "stack_folder.h"
#include "stack_place.h"
#include "test.h"

#define SETTLE (100 * USEC_PER_MSEC)
#define STACK(f) "Current thread 0x01 (most recent call first):\n  File \"train.py\", line 88 in " f "\n"

struct world {
        sd_event *event;
        struct host host;
        struct scratch root;
        char folder[128];
        struct stack_seen seen;
        struct stack_folder *watched;
        char told[64][96], refused[64][256];
        size_t n_told, n_refused;
        bool accept_all;
};

static bool accepts(uid_t owner, uid_t folder_owner, void *userdata) {
        return ((struct world *) userdata)->accept_all || owner == folder_owner;
}

static void on_snapshot(const struct stack_text *t, const struct stack_source *s, void *userdata) {
        struct world *w = userdata;
        const char *in = strstr(t->text, " in ");

        ASSERT_TRUE(w->n_told < ELEMENTSOF(w->told));
        (void) snprintf(w->told[w->n_told++], sizeof(w->told[0]), "%s:%.*s", strrchr(s->path, '/') + 1,
                        (int) strcspn(in + 4, "\n"), in + 4);
}

static void on_refused(const char *path, const char *why, void *userdata) {
        struct world *w = userdata;

        ASSERT_TRUE(w->n_refused < ELEMENTSOF(w->refused));
        (void) snprintf(w->refused[w->n_refused++], sizeof(w->refused[0]), "%.80s: %.120s",
                        strrchr(path, '/') + 1, why);
}

static void watch_again(struct world *w) {
        static const struct stack_folder_handlers h = { accepts, on_snapshot, on_refused };

        w->watched = stack_folder_free(w->watched);
        ASSERT_OK(stack_folder_new(w->event, &w->host, "/tmp/debugging/stack_trace_*.txt", SETTLE, &w->seen,
                                   &h, w, &w->watched));
}

static void begin(struct world *w) {
        *w = (struct world){ .host = HOST_NULL };
        w->root = scratch_new();
        (void) snprintf(w->folder, sizeof(w->folder), "%s/tmp/debugging", w->root.path);
        ASSERT_OK(host_open(w->root.path, &w->host));
        ASSERT_OK(sd_event_new(&w->event));
        watch_again(w);
}

static void end(struct world *w) {
        (void) stack_folder_free(w->watched);
        (void) sd_event_unref(w->event);
        host_close(&w->host);
        scratch_free(&w->root);
}

static void make_folder(const struct world *w) {
        char tmp[128];

        (void) snprintf(tmp, sizeof(tmp), "%s/tmp", w->root.path);
        ASSERT_TRUE(mkdir(tmp, 0777) == 0 || errno == EEXIST);
        ASSERT_OK(mkdir(w->folder, 0755));
}

static const char *path_of(const struct world *w, const char *name) {
        static char path[4][256];
        static unsigned n;

        n = (n + 1) % 4;
        (void) snprintf(path[n], sizeof(path[n]), "%s/%s", w->folder, name);
        return path[n];
}

static void put(const struct world *w, const char *name, const char *text, int flags) {
        int fd = open(path_of(w, name), O_WRONLY | O_CREAT | flags, 0644);

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ(write(fd, text, strlen(text)), (ssize_t) strlen(text));
        (void) close(fd);
}

/* Goes on until so many were told and refused, with a tick now and then; then once more for what must not
 * come. */
static void run(struct world *w, size_t told, size_t refused) {
        for (unsigned i = 0; i < 1200 && (w->n_told < told || w->n_refused < refused); i++) {
                stack_folder_tick(w->watched);
                ASSERT_TRUE(sd_event_run(w->event, SETTLE / 2) >= 0);
        }
        if (w->n_told != told || w->n_refused != refused)
                test_fail(__FILE__, __LINE__, "%zu told (wanted %zu; last %s), %zu refused (wanted %zu; "
                                              "last %s)", w->n_told, told,
                          w->n_told ? w->told[w->n_told - 1] : "", w->n_refused, refused,
                          w->n_refused ? w->refused[w->n_refused - 1] : "");
}

static void expect_told(const struct world *w, const char *what) {
        for (size_t i = 0; i < w->n_told; i++)
                if (streq(w->told[i], what))
                        return;
        test_fail(__FILE__, __LINE__, "%s was not told", what);
}

static void expect_refused(const struct world *w, const char *what) {
        for (size_t i = 0; i < w->n_refused; i++)
                if (streq(w->refused[i], what))
                        return;
        test_fail(__FILE__, __LINE__, "not refused: %s (the last: %s)", what,
                  w->n_refused ? w->refused[w->n_refused - 1] : "");
}

/* From a folder that is not there yet over growing, cut and replaced files to a restart: each snapshot
 * once. */
static void test_life(void) {
        struct world w;

        begin(&w);
        run(&w, 0, 0);
        make_folder(&w);
        put(&w, "stack_trace_1.txt", STACK("a") STACK("b"), 0);
        put(&w, "other.txt", STACK("x"), 0);
        run(&w, 2, 0);
        expect_told(&w, "stack_trace_1.txt:a");
        expect_told(&w, "stack_trace_1.txt:b");
        put(&w, "stack_trace_1.txt", STACK("a") STACK("c"), O_APPEND); /* a again: that is known */
        run(&w, 3, 0);
        expect_told(&w, "stack_trace_1.txt:c");
        put(&w, "stack_trace_1.txt", STACK("d"), O_TRUNC);
        run(&w, 4, 0);
        put(&w, "new", STACK("e"), 0);
        ASSERT_OK(rename(path_of(&w, "new"), path_of(&w, "stack_trace_1.txt")));
        run(&w, 5, 0);
        watch_again(&w); /* a restart: what was told is not told again */
        put(&w, "stack_trace_2.txt", STACK("e"), 0);
        run(&w, 6, 0);
        expect_told(&w, "stack_trace_2.txt:e"); /* of another process: news */
        end(&w);
}

static void test_hostile_files(void) {
        const struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
        struct world w;
        int fd;

        begin(&w);
        make_folder(&w);
        put(&w, "secret", STACK("secret"), 0);
        ASSERT_OK(symlink("secret", path_of(&w, "stack_trace_link.txt")));
        ASSERT_OK(link(path_of(&w, "secret"), path_of(&w, "stack_trace_hard.txt")));
        ASSERT_OK(mkfifo(path_of(&w, "stack_trace_pipe.txt"), 0666));
        ASSERT_OK(mkdir(path_of(&w, "stack_trace_folder.txt"), 0755));
        put(&w, "stack_trace_old.txt", STACK("old"), 0);
        ASSERT_OK(utimensat(AT_FDCWD, path_of(&w, "stack_trace_old.txt"), old, 0));
        fd = open(path_of(&w, "stack_trace_big.txt"), O_WRONLY | O_CREAT, 0644);
        ASSERT_OK(ftruncate(fd, STACK_FILE_BYTES_MAX + 1));
        (void) close(fd);
        put(&w, "stack_trace_good.txt", STACK("good"), 0);
        if (geteuid() == 0) {
                put(&w, "stack_trace_other.txt", STACK("other"), 0);
                ASSERT_OK(chown(path_of(&w, "stack_trace_other.txt"), 12345, 12345));
        }
        run(&w, 1, geteuid() == 0 ? 6 : 5);
        expect_told(&w, "stack_trace_good.txt:good");
        expect_refused(&w, "stack_trace_link.txt: it is a symbolic link");
        expect_refused(&w, "stack_trace_hard.txt: it has several names (hard links)");
        expect_refused(&w, "stack_trace_pipe.txt: it is no regular file");
        expect_refused(&w, "stack_trace_folder.txt: it is no regular file");
        expect_refused(&w, "stack_trace_big.txt: it is longer than 16 MiB");
        put(&w, "stack_trace_good.txt", STACK("again"), O_APPEND); /* each is said once */
        run(&w, 2, w.n_refused);
        end(&w);
}

static void test_hostile_folder(void) {
        struct world w;
        char elsewhere[160];

        begin(&w);
        make_folder(&w);
        (void) snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", w.root.path);
        ASSERT_OK(rename(w.folder, elsewhere));
        ASSERT_OK(symlink(elsewhere, w.folder));
        watch_again(&w);
        put(&w, "stack_trace_1.txt", STACK("through a link"), 0);
        run(&w, 0, 1);
        expect_refused(&w, "debugging: a part of its path is a symbolic link or no folder");
        ASSERT_OK(unlink(w.folder));
        ASSERT_OK(mkdir(w.folder, 0755));
        put(&w, "stack_trace_2.txt", STACK("good"), 0);
        run(&w, 1, 1); /* as soon as it is right it is taken */
        expect_told(&w, "stack_trace_2.txt:good");
        ASSERT_OK(unlink(path_of(&w, "stack_trace_2.txt")));
        ASSERT_OK(rmdir(w.folder)); /* and made anew */
        ASSERT_OK(mkdir(w.folder, 0755));
        put(&w, "stack_trace_3.txt", STACK("better"), 0);
        run(&w, 2, 1);
        end(&w);
}

/* More than is told in one look, in one file: bounded, counted, and what comes later is taken all the
 * same. */
static void test_many(void) {
        char text[40 * 128] = "";
        struct world w;
        size_t n = 0;

        begin(&w);
        make_folder(&w);
        for (unsigned i = 0; i < 40; i++)
                n += (size_t) snprintf(text + n, sizeof(text) - n, STACK("f%u"), i);
        put(&w, "new", text, 0);
        ASSERT_OK(rename(path_of(&w, "new"), path_of(&w, "stack_trace_1.txt"))); /* there with all of it */
        for (unsigned i = 0; i < 1200 && stack_folder_stats(w.watched)->passed_over == 0; i++) {
                stack_folder_tick(w.watched);
                ASSERT_TRUE(sd_event_run(w.event, SETTLE / 2) >= 0);
        }
        ASSERT_TRUE(stack_folder_stats(w.watched)->passed_over >= 40 - STACK_LOOK_SNAPSHOTS_MAX - 1);
        ASSERT_TRUE(w.n_told >= STACK_LOOK_SNAPSHOTS_MAX && w.n_told < 40);
        n = w.n_told + 1;
        put(&w, "stack_trace_2.txt", STACK("last"), 0);
        /* the last of the first file may come, too: it was not whole before it was quiet */
        while (w.n_told < n) {
                stack_folder_tick(w.watched);
                ASSERT_TRUE(sd_event_run(w.event, SETTLE / 2) >= 0);
                n = streq(w.told[w.n_told - 1], "stack_trace_1.txt:f39") ? STACK_LOOK_SNAPSHOTS_MAX + 2 : n;
        }
        expect_told(&w, "stack_trace_2.txt:last");
        end(&w);
}

/* A user who writes without end gets a burst, and then a trickle; others theirs all the same. */
static void test_budget(void) {
        const usec_t hour = 3600 * USEC_PER_SEC;
        struct stack_budget b = { .n = 0 };
        usec_t now = 5 * hour;
        uint64_t sum = 0;

        for (unsigned i = 0; i < 1000; i++) {
                stack_budget_begin(&b);
                sum += stack_budget_take(&b, now, 1000, 60000) ? 60000 : 0;
        }
        ASSERT_TRUE(sum <= STACK_BUDGET_BYTES / 2 && sum > STACK_BUDGET_BYTES / 2 - 120000);
        for (uid_t other = 1001; other < 1005; other++) /* each comes later, and finds room */
                ASSERT_TRUE(stack_budget_take(&b, now, other, 60000));
        for (unsigned second = 0; second < 24 * 3600; second++) {
                stack_budget_begin(&b);
                sum += stack_budget_take(&b, now += USEC_PER_SEC, 1000, 60000) ? 60000 : 0;
        }
        ASSERT_TRUE(sum <= STACK_BUDGET_BYTES + 24 * STACK_BUDGET_HOUR);
        ASSERT_TRUE(sum > 22 * STACK_BUDGET_HOUR);
        stack_budget_begin(&b);
        now += 1000 * hour;
        ASSERT_TRUE(stack_budget_take(&b, now, 1000, STACK_BUDGET_BYTES / 2 - STACK_EVENT_BYTES));
        ASSERT_FALSE(stack_budget_take(&b, now, 1000, 1));
        ASSERT_TRUE(stack_budget_take(&b, now, 1001, 60000));
}

/* Many small ones cost their events; and in one look there is room for others. */
static void test_small_ones(void) {
        struct stack_budget b = { .n = 0 };
        unsigned taken = 0;

        for (unsigned look = 0; look < 10000; look++) {
                stack_budget_begin(&b);
                for (unsigned i = 0; i < 100; i++)
                        taken += stack_budget_take(&b, USEC_PER_SEC, 1000, 60);
                if (look < 10)
                        ASSERT_EQ(taken, (look + 1) * STACK_LOOK_SNAPSHOTS_MAX);
        }
        ASSERT_TRUE(taken <= STACK_BUDGET_BYTES / 2 / STACK_EVENT_BYTES);
        for (uid_t other = 1; other < 100; other++)
                (void) stack_budget_take(&b, USEC_PER_SEC, other, 60);
        ASSERT_EQ(b.n, STACK_OWNERS_MAX);
}

/* One user's files, as many and as new as it likes, leave the places of others alone. */
static void test_places(void) {
        struct stack_places p = { .n = 0 };
        char name[32];

        ASSERT_TRUE(stack_place_of(&p, "true", 1, 1000));
        for (unsigned i = 0; i < 1000; i++) {
                struct stack_file *file;

                (void) snprintf(name, sizeof(name), "flood%u", i);
                file = stack_place_of(&p, name, 2, 2000 + i);
                ASSERT_TRUE(file);
                file->written = 2000 + i;
        }
        ASSERT_TRUE(streq(p.files[0].name, "true"));
        for (unsigned i = 0; i < STACK_FILES_MAX / 2 - 2; i++) { /* and older ones of others find some */
                (void) snprintf(name, sizeof(name), "later%u", i);
                ASSERT_TRUE(stack_place_of(&p, name, 1, 1000 + i));
        }
        ASSERT_FALSE(stack_place_of(&p, "old", 2, 1));
}

/* Files of the future, more than there are places, and a folder with more than is listed: one that is
 * written now is taken. */
static void test_dated_ahead(void) {
        const struct timespec ahead[2] = { { .tv_sec = INT64_C(5000000000) },
                                           { .tv_sec = INT64_C(5000000000) } };
        struct world w;
        char name[64];

        begin(&w);
        w.accept_all = true;
        make_folder(&w);
        for (unsigned i = 0; i < 5000; i++) {
                (void) snprintf(name, sizeof(name), i < 100 ? "stack_trace_%u.txt" : "other%u", i);
                put(&w, name, "", 0);
                if (i < 100)
                        ASSERT_OK(utimensat(AT_FDCWD, path_of(&w, name), ahead, 0));
        }
        run(&w, 0, 1);
        for (unsigned i = 0; i < 20; i++) { /* where they stand in the listing, the file system says */
                (void) snprintf(name, sizeof(name), "stack_trace_true%u.txt", i);
                put(&w, name, STACK("true"), 0);
        }
        run(&w, 20, 1);
        end(&w);
}

/* Who writes all the time to a file that is looked at first does not hold up one that is looked at later. */
static void test_busy_writer(void) {
        static char much[STACK_LOOK_BYTES_MAX + 4096];
        int held[40]; /* so that no number of a file comes again */
        unsigned n = 0;
        struct world w;

        memset(much, 'x', sizeof(much) - 1);
        begin(&w);
        make_folder(&w);
        put(&w, "stack_trace_1.txt", STACK("first"), 0);
        run(&w, 1, 0);
        put(&w, "stack_trace_2.txt", STACK("true"), 0);
        while (n < ELEMENTSOF(held) && w.n_told == 1) {
                held[n] = open(path_of(&w, "stack_trace_1.txt"), O_WRONLY);
                ASSERT_OK(ftruncate(held[n++], 0));
                put(&w, "new", much, 0);
                ASSERT_OK(rename(path_of(&w, "new"), path_of(&w, "stack_trace_1.txt")));
                stack_folder_tick(w.watched);
                ASSERT_TRUE(sd_event_run(w.event, SETTLE / 2) >= 0);
        }
        expect_told(&w, "stack_trace_2.txt:true");
        while (n > 0)
                (void) close(held[--n]);
        end(&w);
}

TEST_MAIN(test_life, test_budget, test_small_ones, test_places, test_dated_ahead, test_busy_writer,
          test_hostile_files, test_hostile_folder, test_many)
