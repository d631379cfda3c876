/* SPDX-License-Identifier: Apache-2.0 */
#include "replace.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ask.h"
#include "ask_daemons.h"
#include "clock.h"
#include "ctl.h"
#include "order.h"
#include "paths.h"
#include "table.h"

#define KILL_WAIT   (5 * USEC_PER_SEC)
#define LIST_IS_OLD (1100 * 1000) /* tpu-launchd gives the same list again for 1 s */

struct holders {
        struct device_owners owners;
        struct pollfd fds[DEVICE_OWNERS_MAX]; /* fd: a pidfd; -1: it is gone */
        uint32_t pids[DEVICE_OWNERS_MAX];
        nfds_t n;
};

static int complain(const char *what, uint32_t pid, const char *why) {
        fprintf(stderr, "tpuctl run: process %u cannot be %s: %s\n", pid, what, why);
        return EXIT_REFUSED;
}

static bool holds(const struct device_owners *o, uint32_t pid) {
        for (size_t i = 0; i < o->n; i++)
                if (o->owners[i].pid == pid)
                        return true;
        return false;
}

static bool is_taken(const struct holders *l, uint32_t pid) {
        for (nfds_t i = 0; i < l->n; i++)
                if (l->pids[i] == pid)
                        return true;
        return false;
}

static void print_holder(const struct device_owner *o) {
        fprintf(stderr, "%s is held by process %u of uid %u (", o->device, o->pid, o->uid);
        print_clean(stderr, o->command, false);
        fputs(o->unit[0] ? "), in " : ")", stderr);
        print_clean(stderr, o->unit, false);
        fputc('\n', stderr);
}

/* Each process once, by a pidfd. */
static int take_holders(const struct host *h, struct holders *l) {
        ask_owners(h, &l->owners);
        for (size_t i = 0; i < l->owners.n; i++) {
                const struct device_owner *o = &l->owners.owners[i];
                int fd;

                print_holder(o);
                if (startswith(o->unit, RUN_UNIT_PREFIX)) {
                        fprintf(stderr, "to do:  tpuctl stop %.*s # it is a run\n",
                                (int) strcspn(o->unit + strlen(RUN_UNIT_PREFIX), "."),
                                o->unit + strlen(RUN_UNIT_PREFIX));
                        return EXIT_REFUSED;
                }
                fd = is_taken(l, o->pid) ? -1 : (int) syscall(SYS_pidfd_open, (pid_t) o->pid, 0);
                if (fd < 0)
                        continue; /* it has just ended, or is there already */
                l->fds[l->n] = (struct pollfd){ .fd = fd, .events = POLLIN };
                l->pids[l->n++] = o->pid;
        }
        if (l->owners.error == 0)
                return 0;
        fprintf(stderr, "tpuctl run: who holds the chips is not known: %s\n", l->owners.why);
        return EXIT_NO_ANSWER;
}

/* Only those that still hold a chip: another process may have had the number when it was opened. */
static int signal_holders(struct holders *l, int signal) {
        for (nfds_t i = 0; i < l->n; i++) {
                if (l->fds[i].fd < 0 || !holds(&l->owners, l->pids[i]))
                        continue;
                if (syscall(SYS_pidfd_send_signal, l->fds[i].fd, signal, NULL, 0) < 0 && errno != ESRCH)
                        return complain("signalled", l->pids[i],
                                        errno == EPERM ? "it is another user's; to do:  the same with sudo"
                                                       : strerror(errno));
        }
        return 0;
}

/* Whether all have ended by then. */
static bool wait_for_ends(struct holders *l, usec_t timeout) {
        usec_t until = clock_boot(&clock_system) + timeout;
        nfds_t left = l->n;

        while (left > 0) {
                usec_t now = clock_boot(&clock_system);

                if (now >= until || poll(l->fds, l->n, (int) ((until - now) / 1000) + 1) < 0)
                        break;
                left = 0;
                for (nfds_t i = 0; i < l->n; i++) {
                        if (l->fds[i].fd >= 0 && l->fds[i].revents)
                                l->fds[i].fd = close_fd(l->fds[i].fd);
                        left += l->fds[i].fd >= 0;
                }
        }
        return left == 0;
}

static int refuse_unkillable(const struct host *h, const struct holders *l) {
        for (nfds_t i = 0; i < l->n; i++) {
                char path[64], wait[64] = "";

                if (l->fds[i].fd < 0)
                        continue;
                (void) snprintf(path, sizeof(path), "/proc/%u/wchan", l->pids[i]);
                (void) host_read(h, path, wait, sizeof(wait), NULL); /* or it is not shown */
                (void) complain("ended", l->pids[i], "it did not die of KILL");
                fprintf(stderr, "  it stands in %s: ps -o pid,stat,wchan:30,comm -p %u\n",
                        wait[0] ? wait : "the kernel", l->pids[i]);
        }
        return EXIT_REFUSED;
}

static int end_holders(const struct host *h, struct holders *l) {
        int r;

        (void) usleep(LIST_IS_OLD);
        ask_owners(h, &l->owners);
        r = signal_holders(l, SIGTERM);
        if (r != 0 || wait_for_ends(l, REPLACE_GRACE))
                return r;
        r = signal_holders(l, SIGKILL);
        return r != 0 || wait_for_ends(l, KILL_WAIT) ? r : refuse_unkillable(h, l);
}

int replace_holders(const struct options *o, bool yes) {
        _cleanup_free_ struct holders *l = calloc(1, sizeof(*l));
        _cleanup_host_ struct host h = HOST_NULL;
        int r;

        if (!l || host_open(o->root, &h) < 0)
                return EXIT_REFUSED;
        r = take_holders(&h, l);
        if (r == 0 && l->n > 0 && !yes && order_ask_yes(o->program, "End them? [y/N] ") < 0)
                r = EXIT_REFUSED;
        if (r == 0 && l->n > 0)
                r = end_holders(&h, l);
        for (nfds_t i = 0; i < l->n; i++)
                (void) close_fd(l->fds[i].fd);
        return r;
}
