/* SPDX-License-Identifier: Apache-2.0 */
/* deaths.bpf.c in the kernel: real processes send, die, and run out of memory. Skipped (77) where BPF is not
 * permitted. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "bpf-live.h"
#include "deaths.h"
#include "ring_reader.h"
#include "test.h"

#define PATIENCE 2000 /* looks, 10 ms apart */

static struct death_log seen;
static struct ring_reader ring;
static struct death wanted;

static void take(const void *data, size_t len, void *userdata) {
        const struct death *e = deaths_take(&seen, data, len);

        (void) userdata;
        if (e && e->victim == wanted.victim)
                wanted = *e;
}

/* Until victim's end was told. */
static const struct death *wait_for(pid_t victim) {
        wanted = (struct death){ .victim = victim };
        for (int i = 0; i < PATIENCE && !wanted.ended; i++) {
                ASSERT_TRUE(ring_reader_read(&ring, 1000, take, NULL) >= 0);
                if (!wanted.ended)
                        (void) poll(NULL, 0, 10);
        }
        ASSERT_TRUE(wanted.ended);
        return &wanted;
}

static pid_t start(const char *comm, void (*run)(pid_t), pid_t argument) {
        pid_t pid = fork();

        ASSERT_TRUE(pid >= 0);
        if (pid == 0) {
                (void) prctl(PR_SET_NAME, comm);
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                run(argument);
                _exit(0);
        }
        return pid;
}

static void stand(pid_t unused) {
        (void) unused;
        for (;;)
                (void) pause();
}

static void send_kill(pid_t victim) {
        ASSERT_OK(kill(victim, SIGKILL));
}

static void crash(pid_t unused) {
        (void) unused;
        (void) signal(SIGILL, SIG_DFL);
        __builtin_trap(); /* ud2 */
}

static void reap(pid_t pid) {
        ASSERT_EQ(waitpid(pid, NULL, 0), pid);
}

static void test_kill(void) {
        char text[DEATH_TEXT_MAX], start_of[64];
        pid_t victim = start("the-victim", stand, 0), sender = start("the-sender", send_kill, victim);
        const struct death *e;

        reap(victim);
        e = wait_for(victim);
        reap(sender);
        (void) snprintf(start_of, sizeof(start_of), "SIGKILL from pid %d (the-sender, uid %u", (int) sender,
                        (unsigned) getuid());
        ASSERT_TRUE(startswith(death_text(e, text), start_of));
        ASSERT_TRUE(e->sender == sender && e->sender_known && !e->by_kernel);
        puts(text);
}

static void test_crash(void) {
        char text[DEATH_TEXT_MAX];
        pid_t victim = start("the-crash", crash, 0);

        reap(victim);
        ASSERT_STREQ(death_text(wait_for(victim), text), "SIGILL from the kernel");
}

/* --- Out of memory ------------------------------------------------------------------------------------- */

#define GROUP "/sys/fs/cgroup/memory/tpu-hostd-test-deaths"

static bool write_to(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text);

        (void) close_fd(fd);
        return good;
}

static void eat(pid_t unused) {
        (void) unused;
        ASSERT_TRUE(write_to(GROUP "/cgroup.procs", "0"));
        for (;;) {
                char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

                if (p != MAP_FAILED)
                        memset(p, 1, 1 << 20);
        }
}

static void test_out_of_memory(void) {
        char text[DEATH_TEXT_MAX];
        pid_t victim;

        (void) rmdir(GROUP); /* of a test that was interrupted */
        if (mkdir(GROUP, 0755) < 0 || !write_to(GROUP "/memory.limit_in_bytes", "16777216")) {
                puts("out of memory: skipped, there is no memory controller of version 1 to limit a group "
                     "with");
                (void) rmdir(GROUP);
                return;
        }
        victim = start("the-eater", eat, 0);
        reap(victim);
        ASSERT_STREQ(death_text(wait_for(victim), text), "SIGKILL from the kernel, out of memory");
        for (int i = 0; i < PATIENCE && rmdir(GROUP) < 0 && errno == EBUSY; i++)
                (void) poll(NULL, 0, 10);
}

int main(void) {
        struct bpf_sets *sets = bpf_live_sets("deaths");
        const struct deaths_figures *f = bpf_sets_figures(sets, "deaths", sizeof(*f));

        ASSERT_TRUE(f != NULL);
        ASSERT_OK(ring_reader_open(bpf_sets_map(sets, "deaths", "death_ring"), DEATH_RING_BYTES, &ring));
        test_kill();
        test_crash();
        test_out_of_memory();
        ASSERT_EQ(f->lost, 0);
        ring_reader_close(&ring);
        (void) bpf_sets_free(sets);
        return 0;
}
