/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bpf.py has a kernel do while it measures BPF programs, as fast as it goes:
 *
 *     bench-bpf connects ADDRESS SECONDS    TCP connections to port 5000, one after the other
 *     bench-bpf accept                      their other end: takes them and closes them
 *     bench-bpf unwanted ADDRESS SECONDS    datagrams to a port where nobody listens
 *     bench-bpf switches SECONDS            two processes that wake each other over pipes
 *     bench-bpf processes SECONDS           processes that begin and end
 *     bench-bpf reads FILE SECONDS          4 KiB each, past the page cache
 *     bench-bpf peers                       connects to 1,000 addresses of 127/8 that refuse
 *
 * Each prints how many a second. And, until its standard input ends:
 *
 *     bench-bpf stats [TRACEPOINT]...       the kernel counts runs and time of all BPF programs
 *                                           (BPF_ENABLE_STATS, Linux 5.8); at each TRACEPOINT hangs a
 *                                           program named "empty" that does nothing
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base.h"

#define PORT 5000
#define BLOCK 4096
#define PEERS 1000u

static _Noreturn void fail(const char *what) {
        fprintf(stderr, "bench-bpf: %s: %s\n", what, strerror(errno));
        exit(EXIT_FAILURE);
}

static int must(int r, const char *what) {
        if (r < 0)
                fail(what);
        return r;
}

static double now(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static struct sockaddr_in at(const char *address, uint16_t port) {
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

        if (inet_pton(AF_INET, address, &a.sin_addr) != 1)
                fail(address);
        return a;
}

/* --- Loads: one step each, of so many ------------------------------------------------------------------ */

struct load {
        struct sockaddr_in to;
        int fd, out, in; /* out, in: of the switches */
        uint64_t seen;
        char *block;
};

static uint64_t connects(struct load *l) {
        int fd = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
        char byte;

        must(connect(fd, (struct sockaddr *) &l->to, sizeof(l->to)), "connect");
        /* the other end closes first: it keeps what waits, and our ports are free */
        (void) !read(fd, &byte, 1);
        (void) close(fd);
        return 1;
}

static uint64_t unwanted(struct load *l) {
        for (int i = 0; i < 100; i++)
                (void) sendto(l->fd, "x", 1, 0, (struct sockaddr *) &l->to, sizeof(l->to));
        return 100;
}

static uint64_t switches(struct load *l) {
        char byte = 'x';

        for (int i = 0; i < 100; i++)
                if (write(l->out, &byte, 1) != 1 || read(l->in, &byte, 1) != 1)
                        fail("pipe");
        return 200;
}

static uint64_t processes(struct load *l) {
        pid_t pid = must(fork(), "fork");

        (void) l;
        if (pid == 0)
                _exit(0);
        (void) waitpid(pid, NULL, 0);
        return 1;
}

static uint64_t reads(struct load *l) {
        off_t blocks = lseek(l->fd, 0, SEEK_END) / BLOCK;

        l->seen = l->seen * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
        if (blocks == 0 || pread(l->fd, l->block, BLOCK, (off_t) (l->seen >> 33) % blocks * BLOCK) != BLOCK)
                fail("pread");
        return 1;
}

static void run(uint64_t (*step)(struct load *), struct load *l, const char *seconds) {
        double begin = now(), length = atof(seconds), end;
        uint64_t n = 0;

        do
                n += step(l);
        while ((end = now()) < begin + length);
        printf("%.1f\n", (double) n / (end - begin));
}

/* The other process answers each byte with one. */
static pid_t begin_switches(struct load *l) {
        int there[2], back[2];
        char byte;
        pid_t pid;

        must(pipe(there), "pipe");
        must(pipe(back), "pipe");
        pid = must(fork(), "fork");
        if (pid == 0) {
                (void) close(there[1]);
                while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
                        ;
                _exit(0);
        }
        l->out = there[1];
        l->in = back[0];
        return pid;
}

static _Noreturn void take(void) {
        struct sockaddr_in a = at("0.0.0.0", PORT);
        int s = must(socket(AF_INET, SOCK_STREAM, 0), "socket"), one = 1;

        (void) setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        must(bind(s, (struct sockaddr *) &a, sizeof(a)), "bind");
        must(listen(s, 500), "listen");
        puts("ready");
        (void) fflush(stdout);
        for (;;)
                (void) close(must(accept(s, NULL, NULL), "accept"));
}

static void refused_by_peers(void) {
        for (uint32_t i = 0; i < PEERS; i++) {
                struct sockaddr_in a = at("127.1.0.1", 9);
                int fd = must(socket(AF_INET, SOCK_STREAM, 0), "socket");

                a.sin_addr.s_addr = htonl(ntohl(a.sin_addr.s_addr) + i);
                (void) connect(fd, (struct sockaddr *) &a, sizeof(a));
                (void) close(fd);
        }
        printf("%u\n", PEERS);
}

/* --- BPF ----------------------------------------------------------------------------------------------- */

static int bpf(int command, union bpf_attr *attr, const char *what) {
        return must((int) syscall(SYS_bpf, command, attr, sizeof(*attr)), what);
}

static void hang_empty(const char *tracepoint) {
        static const struct bpf_insn nothing[] = {
                { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
                { .code = BPF_JMP | BPF_EXIT },
        };
        union bpf_attr program = { .prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT },
                hook = { .raw_tracepoint = { .name = 0 } };

        program.insns = (uintptr_t) nothing;
        program.insn_cnt = ELEMENTSOF(nothing);
        program.license = (uintptr_t) "GPL";
        (void) snprintf(program.prog_name, sizeof(program.prog_name), "empty");
        hook.raw_tracepoint.name = (uintptr_t) tracepoint;
        hook.raw_tracepoint.prog_fd = (uint32_t) bpf(BPF_PROG_LOAD, &program, "an empty BPF program");
        (void) bpf(BPF_RAW_TRACEPOINT_OPEN, &hook, tracepoint);
}

static void count(char *const *tracepoints) {
        union bpf_attr stats = { .enable_stats = { .type = BPF_STATS_RUN_TIME } };
        char byte;

        (void) bpf(BPF_ENABLE_STATS, &stats, "statistics of BPF");
        for (; *tracepoints; tracepoints++)
                hang_empty(*tracepoints);
        puts("ready");
        (void) fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
}

int main(int argc, char *argv[]) {
        const char *what = argc > 1 ? argv[1] : "", *first = argc > 2 ? argv[2] : "",
                *second = argc > 3 ? argv[3] : "";
        struct load l = { .fd = -1 };

        if (streq(what, "stats"))
                count(argv + 2);
        else if (streq(what, "accept"))
                take();
        else if (streq(what, "peers"))
                refused_by_peers();
        else if (streq(what, "connects") && argc == 4) {
                l.to = at(first, PORT);
                run(connects, &l, second);
        } else if (streq(what, "unwanted") && argc == 4) {
                l.to = at(first, 7);
                l.fd = must(socket(AF_INET, SOCK_DGRAM, 0), "socket");
                run(unwanted, &l, second);
        } else if (streq(what, "reads") && argc == 4) {
                l.fd = must(open(first, O_RDONLY | O_DIRECT | O_CLOEXEC), first);
                if (posix_memalign((void **) &l.block, BLOCK, BLOCK) != 0)
                        fail("memory");
                run(reads, &l, second);
                free(l.block);
        } else if (streq(what, "switches") && argc == 3) {
                pid_t pid = begin_switches(&l);

                run(switches, &l, first);
                (void) kill(pid, SIGKILL);
                (void) waitpid(pid, NULL, 0);
        } else if (streq(what, "processes") && argc == 3)
                run(processes, &l, first);
        else {
                fputs("bench-bpf: see tests/bench/bpf_loads.c\n", stderr);
                return 64;
        }
        return EXIT_SUCCESS;
}
