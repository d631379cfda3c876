/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpu-hostd-bpf: loads the BPF programs for tpu-hostd and hands their descriptors over; then it ends. A
 * program of its own so that libbpf, and the kernel's types (10 MB and more while programs are fitted to
 * them), are no part of a daemon that stays. Run by a person it loads them, says how that went, and takes
 * them away again.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "host.h"
#include "load.h"
#include "options.h"

#define BPF_SET(name) extern const struct bpf_set bpf_set_##name;
#include "sets.def"
#undef BPF_SET

static const struct bpf_set *const sets[] = {
#define BPF_SET(name) &bpf_set_##name,
#include "sets.def"
#undef BPF_SET
};

static unsigned long long inode(const struct host *h, const char *path) {
        _cleanup_close_ int fd = host_open_file(h, path, O_RDONLY);
        struct stat st;

        return fd < 0 || fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

/* Where cgroup2 is, beside version 1 or alone (systemd.io, CGROUP_DELEGATION); an id there is an inode
 * number. */
static void look_at_own(const struct host *h, struct bpf_own *ret) {
        _cleanup_close_ int fd = host_open_file(h, "/sys/fs/cgroup/unified/cgroup.procs", O_RDONLY);

        *ret = (struct bpf_own){
                .netns = (unsigned) inode(h, "/proc/self/ns/net"),
                .pidns = (unsigned) inode(h, "/proc/self/ns/pid"),
        };
        if (fd < 0)
                fd = host_open_file(h, "/sys/fs/cgroup/cgroup.procs", O_RDONLY);
        else
                ret->cgroup = inode(h, "/sys/fs/cgroup/unified");
        if (fd >= 0 && ret->cgroup == 0)
                ret->cgroup = inode(h, "/sys/fs/cgroup");
}

static int send_report(int fd, struct loaded_set *l) {
        union {
                char space[CMSG_SPACE(sizeof(int) * BPF_THINGS_MAX)];
                struct cmsghdr align;
        } control = { .space = { 0 } };
        size_t bytes = l->report.n_things * sizeof(int);
        struct iovec body = { .iov_base = &l->report, .iov_len = sizeof(l->report) };
        struct msghdr m = { .msg_iov = &body, .msg_iovlen = 1 };

        if (bytes > 0) {
                struct cmsghdr *c;

                m.msg_control = &control;
                m.msg_controllen = CMSG_SPACE(bytes);
                c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(bytes);
                memcpy(CMSG_DATA(c), l->fds, bytes);
        }
        return sendmsg(fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void print_report(const struct bpf_report *r) {
        printf("%s %s: %u of %u programs%s%s\n", r->name, verdict_name(r->verdict), r->loaded, r->programs,
               r->reason[0] ? ": " : "", r->reason);
}

static int load_all(const struct host *h, bool hand_over) {
        struct btf *kernel = btf__load_vmlinux_btf();
        enum verdict worst = VERDICT_OK;
        struct bpf_own own;
        int r = 0;

        look_at_own(h, &own);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(sets); i++) {
                struct loaded_set l;

                load_set(sets[i], &own, kernel, &l);
                worst = verdict_worse(worst, l.report.verdict);
                if (hand_over)
                        r = send_report(STDOUT_FILENO, &l);
                else
                        print_report(&l.report);
                loaded_set_clear(&l);
        }
        btf__free(kernel);
        if (r < 0)
                (void) fprintf(stderr, "tpu-hostd-bpf: tpu-hostd takes no programs: %s\n", strerror(-r));
        return r < 0 ? EXIT_FAILURE : hand_over ? EXIT_SUCCESS : verdict_exit_code(worst);
}

int main(int argc, char *argv[]) {
        bool hand_over = false, verbose = false;
        const struct option_def defs[] = {
                { .name = "hand-over",
                  .help = "give them to tpu-hostd (standard output is its socket)",
                  .flag = &hand_over },
                { .name = "verbose",
                  .help = "print what the kernel's verifier says of programs that it refuses",
                  .flag = &verbose },
        };
        struct options o = {
                .program = "tpu-hostd-bpf",
                .synopsis = "[--verbose]",
                .summary = "Loads the BPF programs of tpu-hostd, and says of each set whether this kernel "
                           "takes it.",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
        };
        _cleanup_host_ struct host h = HOST_NULL;
        int r = options_parse(&o, argc, argv);

        if (r < 0)
                return options_exit(r);
        if (r < argc) {
                (void) fprintf(stderr, "tpu-hostd-bpf: '%s' is not understood (--help)\n", argv[r]);
                return EXIT_USAGE;
        }
        r = host_open(NULL, &h);
        if (r < 0) {
                (void) fprintf(stderr, "tpu-hostd-bpf: / cannot be opened: %s\n", strerror(-r));
                return EXIT_FAILURE;
        }
        if (verbose)
                load_say_all();
        return load_all(&h, hand_over);
}
