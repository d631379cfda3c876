/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGKILL at random points. A child appends, syncs, acknowledges and rotates as fast as it can and says
 * through a pipe what was durable; the parent kills it, opens the spool and compares: everything said
 * durable and not acknowledged is there, in order; nothing is there that was not appended; numbers said
 * durable are never given again. Numbers have gaps of SPOOL_JUMP only.
 */
#include <signal.h>
#include <sys/wait.h>

#include "spool-support.h"

#define MAX_RECORD 2000
#define KILLS 120

static const struct spool_options options = { .max_bytes = 1024 * SPOOL_SEGMENT_MIN,
                                              .segment_bytes = SPOOL_SEGMENT_MIN };

struct said {
        uint64_t durable, acked; /* sequence numbers */
};

/* Record content follows from its sequence number, so that any record that is read can be checked. */
__attribute__((noreturn)) static void child(const char *dir, int out, unsigned seed) {
        uint8_t buf[MAX_RECORD];
        struct spool_stats st;
        struct spool *s;
        struct said said;
        uint64_t least; /* numbers that were jumped over name no record: none of them is acknowledged */

        if (spool_open(dir, &options, &s) < 0)
                _exit(3);
        spool_get_stats(s, &st);
        said = (struct said) { st.synced_seq, st.first_seq - 1 };
        least = st.torn > 0 ? st.next_seq - 1 : 0;
        for (;;) {
                for (int k = rand_r(&seed) % 20; k >= 0; k--) {
                        uint64_t seq = 0;

                        spool_get_stats(s, &st);
                        if (spool_append(s, buf, record_make(3, st.next_seq, buf, sizeof(buf)), &seq) < 0 ||
                            seq != st.next_seq)
                                _exit(4);
                        said.durable = seq;
                }
                if (spool_sync(s) < 0)
                        _exit(5);
                if (rand_r(&seed) % 4 == 0) {
                        uint64_t back = (uint64_t) (rand_r(&seed) % 100);

                        said.acked = MAX(said.acked, said.durable - MIN(said.durable, back));
                        said.acked = MAX(said.acked, least);
                        /* said before it is done: then it may be gone */
                        if (write(out, &said, sizeof(said)) != sizeof(said))
                                _exit(6);
                        spool_ack(s, said.acked);
                        if (ledger_save(spool_ledger(s)) < 0)
                                _exit(7);
                } else if (write(out, &said, sizeof(said)) != sizeof(said))
                        _exit(6);
        }
}

static void check(const char *dir, const struct said *said) {
        uint8_t buf[MAX_RECORD];
        struct spool_stats st;
        uint64_t after = 0, seq, life, n, expected = 0;
        struct spool *s;
        size_t len;
        int r;

        ASSERT_OK(spool_open(dir, &options, &s));
        spool_get_stats(s, &st);
        ASSERT_TRUE(st.next_seq > said->durable);
        ASSERT_EQ(st.damaged, 0);
        while ((r = spool_read(s, after, buf, sizeof(buf), &len, &seq)) > 0) {
                ASSERT_TRUE(record_check(buf, len, MAX_RECORD, &life, &n));
                ASSERT_EQ(n, seq);
                ASSERT_TRUE(seq > after);
                if (expected == 0)
                        expected = MIN(seq, said->acked + 1);
                ASSERT_EQ((seq - expected) % SPOOL_JUMP, 0); /* a kill inside of a write leaves a torn end */
                expected = seq + 1;
                after = seq;
        }
        ASSERT_OK(r);
        ASSERT_TRUE(expected > said->durable || said->durable <= said->acked);
        spool_free(s);
}

static struct said run_and_kill(const char *dir, unsigned seed, struct said said) {
        struct timespec t = { .tv_nsec = 200000 + rand_r(&seed) % 30000000 };
        struct said one;
        int pipe_fds[2], status;
        pid_t pid;

        ASSERT_OK(pipe(pipe_fds));
        pid = fork();
        ASSERT_TRUE(pid >= 0);
        if (pid == 0) {
                (void) close(pipe_fds[0]);
                child(dir, pipe_fds[1], seed);
        }
        (void) close(pipe_fds[1]);
        if (seed % 5 != 0) /* the others die somewhere in recovery */
                (void) !read(pipe_fds[0], &said, sizeof(said));
        for (struct timespec end = t; nanosleep(&end, &end) < 0 && errno == EINTR;)
                ;
        (void) fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
        while (read(pipe_fds[0], &one, sizeof(one)) == sizeof(one)) {
                ASSERT_TRUE(one.durable >= said.durable);
                said = one;
        }
        ASSERT_OK(kill(pid, SIGKILL));
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        while (read(pipe_fds[0], &one, sizeof(one)) == sizeof(one))
                said = one;
        (void) close(pipe_fds[0]);
        return said;
}

static void test_kills(void) {
        struct said said = { 0 };
        unsigned seed = test_seed();
        char dir[64];

        scratch_make(dir);
        for (unsigned i = 0; i < KILLS; i++) {
                said = run_and_kill(dir, seed + i, said);
                check(dir, &said);
        }
        printf("%d kills, %llu records durable\n", KILLS, (unsigned long long) said.durable);
        ASSERT_TRUE(said.durable > KILLS);
        scratch_clear(dir);
}

TEST_MAIN(test_kills)
