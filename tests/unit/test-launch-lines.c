/* SPDX-License-Identifier: Apache-2.0 */
/* What runs have printed, out of real journal files: whose lines somebody sees, pages, and the wait for a
 * line. */
#include <sys/stat.h>

#include "answer_lines.h"
#include "launch-bench.h"

#define WRITER "/lib/systemd/systemd-journal-remote"
#define STRANGER 12345

static FILE *writer;

static void journal_up(struct bench *b) {
        char command[700], path[512];

        scratch_write(&b->scratch, "var/log/journal/x", "");
        scratch_path(&b->scratch, "var/log/journal/system.journal", path);
        (void) snprintf(command, sizeof(command), WRITER " -o %s - 2>/dev/null", path);
        writer = popen(command, "w");
        ASSERT_TRUE(writer != NULL);
}

static void print(const char *unit, const char *uid, const char *text) {
        static unsigned n;

        n++;
        fprintf(writer,
                "__REALTIME_TIMESTAMP=%u\n__MONOTONIC_TIMESTAMP=%u\n"
                "_BOOT_ID=00000000000000000000000000000001\n%s_UID=0\n_SYSTEMD_UNIT=%s\nMESSAGE=%s\n\n",
                1000000000u + n, 1000u + n, uid, unit, text);
        ASSERT_TRUE(fflush(writer) == 0);
}

static void journal_down(void) {
        ASSERT_TRUE(pclose(writer) == 0);
}

/* Asks as somebody: the kernel's word is of who connects. */
static int ask_lines(struct bench *b, uid_t uid, Local__LinesRequest *q) {
        int fd, r;

        ASSERT_TRUE(seteuid(uid) == 0);
        fd = frame_connect(b->socket);
        ASSERT_TRUE(seteuid(0) == 0 && fd >= 0);
        r = frame_send(fd, LOCAL__KIND__KIND_LINES_REQUEST, &q->base, USEC_PER_SEC);
        ASSERT_OK(r);
        return fd;
}

static Local__LinesReply *take_lines(struct bench *b, int fd) {
        Local__LinesReply *l = (Local__LinesReply *) take(b, fd, LOCAL__KIND__KIND_LINES_REPLY,
                                                          &local__lines_reply__descriptor);

        (void) close(fd);
        return l;
}

static void expect_lines(struct bench *b, uid_t uid, Local__LinesRequest q, const char *text) {
        Local__LinesReply *l = take_lines(b, ask_lines(b, uid, &q));

        ASSERT_STREQ(l->text.len > 0 ? strndupa((char *) l->text.data, l->text.len) : "", text);
        local__lines_reply__free_unpacked(l, NULL);
}

static void bench_init_open(struct bench *b) {
        bench_init(b);
        ASSERT_TRUE(chmod(b->scratch.path, 0755) == 0 && chmod(b->socket, 0666) == 0);
        journal_up(b);
}

static Local__LinesRequest of(const char *name) {
        Local__LinesRequest q = LOCAL__LINES_REQUEST__INIT;

        q.name = wire_text(name);
        return q;
}

/* systemd's field says whose a line is, else the journal's own; another unit's is nobody's. */
static void test_whose(void) {
        _cleanup_bench_ struct bench b;
        Local__LinesRequest q = of("a");

        bench_init_open(&b);
        print("tpu-run-a.service", "TPU_RUN_UID=12345\n", "under sudo");
        print("tpu-run-a.service", "TPU_RUN_UID=99\n", "of a run before");
        print("tpu-run-b.service", "TPU_RUN_UID=12345\n", "of another run");
        print("tpu-run-a.service", "TPU_RUN_UID=12345\nTPU_RUN_UID=99\n", "two");
        print("tpu-run-a.service", "TPU_RUN_UID=98\nTPU_RUN_UID=12345\n", "two");
        print("tpu-run-a.service", "TPU_RUN_UID=12345\n", "last");
        journal_down();
        expect_lines(&b, STRANGER, q, "under sudo\nlast\n");
        expect_lines(&b, 0, q, "under sudo\nof a run before\ntwo\ntwo\nlast\n");
        q.last = 2;
        expect_lines(&b, 0, q, "two\nlast\n");
        expect_lines(&b, STRANGER, q, "under sudo\nlast\n");
        q.last = 1;
        expect_lines(&b, STRANGER, q, "last\n");
}

static void test_unknown_and_anothers(void) {
        _cleanup_bench_ struct bench b;
        Local__LinesRequest q = of("nosuch"), bad = of("../x"), a = of("a");

        bench_init_open(&b);
        print("tpu-run-a.service", "TPU_RUN_UID=0\n", "root's");
        journal_down();
        expect_error(&b, ask_lines(&b, 0, &q), ENOENT,
                     "there is no run 'nosuch' on this host, nor any other");
        start(&b, "a");
        start(&b, "b");
        expect_error(&b, ask_lines(&b, STRANGER, &q), ENOENT, "there are: ");
        expect_error(&b, ask_lines(&b, STRANGER, &a), EACCES, "run a is of user root");
        expect_error(&b, ask_lines(&b, 0, &bad), EINVAL, "no name of a run");
        expect_lines(&b, 0, a, "root's\n");
        expect_lines(&b, 0, of("b"), ""); /* it has printed nothing yet */
}

/* Page by page nothing is missed and nothing comes twice. */
static void test_pages(void) {
        enum { N = 40 };
        _cleanup_bench_ struct bench b;
        char line[10001];
        size_t bytes = 0, pages = 0;
        Local__LinesRequest q = of("a");
        char next[512] = "";
        bool more;

        bench_init_open(&b);
        for (unsigned i = 0; i < N; i++) {
                memset(line, 'a' + (int) i % 26, sizeof(line));
                line[sizeof(line) - 1] = '\0';
                print("tpu-run-a.service", "", line);
        }
        journal_down();
        do {
                Local__LinesReply *l;

                q.after = next;
                l = take_lines(&b, ask_lines(&b, 0, &q));
                ASSERT_TRUE(l->text.len <= LINES_PAGE);
                ASSERT_EQ(l->text.data[0], 'a' + (int) (bytes / sizeof(line)) % 26);
                bytes += l->text.len;
                pages++;
                more = l->more;
                (void) snprintf(next, sizeof(next), "%s", l->next);
                local__lines_reply__free_unpacked(l, NULL);
        } while (more);
        ASSERT_EQ(bytes, N * sizeof(line));
        ASSERT_EQ(pages, 2);
        q.after = next;
        expect_lines(&b, 0, q, "");
        q.after = (char[]){ "s=nonsense" };
        expect_error(&b, ask_lines(&b, 0, &q), EINVAL, "its lines cannot be read");
}

/* Who waits gets the line that comes, and how the run ended when none will. */
static void test_follow(void) {
        _cleanup_bench_ struct bench b;
        Local__LinesRequest q = of("a");
        Local__LinesReply *l;
        int fd;

        bench_init_open(&b);
        start(&b, "a");
        print("tpu-run-a.service", "", "first");
        q.wait_usec = 20 * USEC_PER_SEC;
        fd = ask_lines(&b, 0, &q);
        l = take_lines(&b, fd);
        ASSERT_STREQ(strndupa((char *) l->text.data, l->text.len), "first\n");
        ASSERT_STREQ(l->ended, "");
        q.after = strdupa(l->next);
        local__lines_reply__free_unpacked(l, NULL);

        fd = ask_lines(&b, 0, &q);
        turn(&b);
        print("tpu-run-a.service", "", "second");
        l = take_lines(&b, fd);
        ASSERT_STREQ(strndupa((char *) l->text.data, l->text.len), "second\n");
        q.after = strdupa(l->next);
        local__lines_reply__free_unpacked(l, NULL);

        fd = ask_lines(&b, 0, &q);
        turn(&b);
        record(&b, "exit-code", "exited", "3");
        runs_unit_events.gone("a", b.runs);
        l = take_lines(&b, fd); /* long before its wait is over */
        ASSERT_EQ(l->text.len, 0);
        ASSERT_STREQ(l->ended, "exit-code 3");
        local__lines_reply__free_unpacked(l, NULL);
        journal_down();
        q.after = (char[]){ "" };
        expect_lines(&b, 0, q, "first\nsecond\n");
}

/* A few readers at a time; one that goes away makes room. */
static void test_readers(void) {
        int fds[READERS_OF_A_USER_MAX], again;
        _cleanup_bench_ struct bench b;
        Local__LinesRequest q = of("a");

        bench_init_open(&b);
        print("tpu-run-a.service", "TPU_RUN_UID=99\n", "of somebody else");
        journal_down(); /* the line is there: of a run that nobody knows none is waited for */
        q.wait_usec = 20 * USEC_PER_SEC;
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                fds[i] = ask_lines(&b, STRANGER, &q);
        turn(&b);
        expect_error(&b, ask_lines(&b, STRANGER, &q), EBUSY, "by 4 others");
        (void) close(fds[0]);
        turn(&b);
        again = ask_lines(&b, STRANGER, &q);
        turn(&b);
        expect_lines(&b, 0, q, "of somebody else\n");
        for (size_t i = 1; i < ELEMENTSOF(fds); i++)
                (void) close(fds[i]);
        (void) close(again);
        turn(&b);
}

int main(void) {
        static void (*const tests[])(void) = { test_whose, test_unknown_and_anothers, test_pages,
                                               test_follow, test_readers };

        if (access(WRITER, X_OK) < 0) {
                printf("skipped: systemd-journal-remote is not installed\n");
                return 77;
        }
        return bench_main(tests, ELEMENTSOF(tests));
}
