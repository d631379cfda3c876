/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl chips: who holds the TPU devices of this host (tpu-launchd), and what libtpu says of the chips
 * (tpu-hostd). tpuctl run --replace: who holds them is ended. */
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/syscall.h>

#include "answer.h"
#include "ask_daemons.h"
#include "chips.h"
#include "clock.h"
#include "json_text.h"
#include "live.h"
#include "order.h"
#include "screens.h"
#include "show.h"
#include "table.h"
#include "tpu_sysfs.h"
#include "verb_words.h"

#define KILL_WAIT   (5 * USEC_PER_SEC)
#define LIST_IS_OLD (1100 * 1000) /* tpu-launchd gives the same list again for 1 s */

/* --- Who holds them ------------------------------------------------------------------------------------ */

struct walk {
        const struct device_owners *owners;
        json_t *list;
};

static json_t *holder_json(const char *node, const struct device_owner *o) {
        const struct passwd *user = getpwuid(o->uid);
        char uid[24];

        (void) snprintf(uid, sizeof(uid), "uid %u", (unsigned) o->uid);
        return json_pack("{s:s, s:s, s:i, s:s, s:s, s:s}", "device", node, "state", "held", "pid",
                         (int) o->pid, "user", user ? user->pw_name : uid, "unit", o->unit, "command",
                         o->command);
}

/* A line for each holder. A device is free only where all processes could be looked at. */
static int on_node(const char *node, void *userdata) {
        struct walk *w = userdata;
        const char *not_held = w->owners->error < 0 || w->owners->incomplete ? "not known" : "free";
        bool held = false;
        int r = 0;

        for (size_t i = 0; r == 0 && i < w->owners->n; i++)
                if (streq(w->owners->owners[i].device, node)) {
                        held = true;
                        r = json_array_append_new(w->list, holder_json(node, &w->owners->owners[i]));
                }
        if (r == 0 && !held)
                r = json_array_append_new(w->list,
                                          json_pack("{s:s, s:s}", "device", node, "state", not_held));
        return r < 0 ? -ENOMEM : 0;
}

static const struct column device_columns[] = {
        { .title = "DEVICE", .cell = "{device}" },
        { .title = "PID", .cell = "[{pid}|{state}]" },
        { .title = "USER", .cell = "{user}" },
        { .title = "UNIT", .cell = "{unit}" },
        { .title = "COMMAND", .cell = "{command}", .shrinks = true },
};
static const struct column chip_columns[] = {
        { .title = "PROCESS", .cell = "{process}" },
        { .title = "CHIP", .cell = "{chip}" },
        { .title = "HBM USED", .cell = "{hbm_used_bytes:bytes}" },
        { .title = "OF", .cell = "{hbm_total_bytes:bytes}" },
        { .title = "DUTY CYCLE", .cell = "{duty_cycle:percent}" },
        { .title = "IDLE", .cell = "{idle_seconds:long}" },
};

/* GET /v1/chips, or with "devices" those of tpu-launchd. */
static int screen_chips(json_t *answer, usec_t now, FILE *out) {
        const json_t *devices = json_object_get(answer, "devices"),
                     *chips = json_object_get(answer, "chips");
        int r = show_list(out, devices, now, device_columns, ELEMENTSOF(device_columns),
                          "no TPU device on this host\n");

        if (r == 0 && json_array_size(chips) > 0) {
                show(out, answer, now,
                     "\nas libtpu reported[ for run {run}], {looked:age} ago"
                     "[; it reports an error: {error}]:\n");
                r = show_table(out, chips, now, chip_columns, ELEMENTSOF(chip_columns));
        }
        return r;
}

/* --- Ending them --------------------------------------------------------------------------------------- */

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

/* --- The verb ------------------------------------------------------------------------------------------ */

int chips_print(const struct options *o, bool json) {
        _cleanup_host_ struct host h = HOST_NULL;
        struct device_owners owners;
        struct walk w = { &owners, NULL };
        struct problem problem;
        json_t *answer = NULL;
        int hostd, r;

        r = host_open(o->root, &h);
        if (r < 0)
                return options_fail("tpuctl chips", EXIT_NO_ANSWER, "%s: %s", o->root ? o->root : "/",
                                    strerror(-r));
        ask_owners(&h, &owners);
        hostd = hostd_call(o->root, NULL, "/v1/chips", HOSTD_TIMEOUT, &answer, &problem);
        w.list = json_array();
        r = w.list ? tpu_visit_nodes(&h, on_node, &w) : -ENOMEM;
        if (owners.error < 0)
                fprintf(stderr, "tpuctl chips: who holds them is not known: %s\n", owners.why);
        if (hostd < 0) {
                (void) problem_complain(&problem);
                answer = json_object();
        }
        if (!answer || (r < 0 && r != -ENOENT)) { /* -ENOENT: a machine without a PCI bus has no chip */
                fprintf(stderr, "tpuctl chips: the devices cannot be looked at: %s; tpuctl check tpu\n",
                        strerror(r < 0 ? -r : ENOMEM));
                json_decref(answer);
                json_decref(w.list);
                return EXIT_NO_ANSWER;
        }
        (void) json_object_set_new(answer, "devices", w.list);
        r = answer_print(o, answer, &(struct answer_as){ json, screen_chips, NULL });
        return hostd < 0 && owners.error < 0 ? EXIT_NO_ANSWER : r;
}

struct view {
        const struct options *o;
        const bool *json;
};

static int draw_chips(void *userdata) {
        const struct view *v = userdata;

        return chips_print(v->o, *v->json);
}

int verb_chips(const struct ctl *c, int argc, char *argv[]) {
        bool json = false, watch = false;
        const struct option_def defs[] = {
                { "watch", NULL, "show it again every 2 s until it is interrupted", NULL, &watch },
                OPTION_JSON(&json),
        };
        struct options o = VERB_OPTIONS(
                "chips", "[--watch] [--json]", defs,
                "Shows who holds each TPU device of this host, and how full and busy each chip is.");
        struct view v = { &o, &json };
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 0, &w);

        if (r < 0)
                return options_exit(r);
        return watch ? live_show(draw_chips, &v) : draw_chips(&v);
}
