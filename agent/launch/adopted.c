/* SPDX-License-Identifier: Apache-2.0 */
#include "adopted.h"

#include <assert.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fnv.h"
#include "holders.h"
#include "log.h"
#include "loop_timer.h"
#include "owners.h"

/* --- Marks of the chips ----------------------------------------------------------------------------- */

/*
 * A cheap mark of who uses the chips, from sysfs: it changes when one is opened or closed. It is made of
 * two numbers of each chip (PCI, vendor 0x1ae0, class 0x1200). "enable" is raised by vfio-pci with the first
 * open and lowered with the last close (vfio_pci_core.c of the kernel). The count of users of its driver's
 * module is raised by each open file of a device node (fs/char_dev.c, chrdev_open()). On real chips neither
 * was tried: who relies on it also looks now and then without it.
 */
#define CHIP_MARKS_MAX 16u
struct chip_marks {
        char address[CHIP_MARKS_MAX][16]; /* "0000:00:04.0" */
        size_t n; /* 0: this host has none */
};

#define PCI_DEVICES   "/sys/bus/pci/devices"
#define VENDOR_GOOGLE 0x1ae0
#define CLASS_MASK    0xffff00
#define CLASS_CHIP    0x120000 /* processing accelerators */

struct finder {
        const struct host *h;
        struct chip_marks *out;
};

static bool reads(const struct host *h, const char *address, const char *file, uint64_t mask,
                  uint64_t wanted) {
        char path[128];
        uint64_t v;

        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
        return host_read_u64(h, path, &v) == 0 && (v & mask) == wanted;
}

static int visit_device(const char *name, void *userdata) {
        struct finder *f = userdata;

        if (f->out->n == CHIP_MARKS_MAX)
                return 1;
        if (strlen(name) < sizeof(f->out->address[0]) &&
            reads(f->h, name, "vendor", UINT64_MAX, VENDOR_GOOGLE) &&
            reads(f->h, name, "class", CLASS_MASK, CLASS_CHIP))
                (void) snprintf(f->out->address[f->out->n++], sizeof(f->out->address[0]), "%s", name);
        return 0;
}

static void find_chips(const struct host *h, struct chip_marks *ret) {
        struct finder f = { .h = h, .out = ret };

        ret->n = 0;
        (void) host_list(h, PCI_DEVICES, visit_device, &f);
}

/* What cannot be read is part of the mark as such. */
static uint64_t add_number(uint64_t mark, const struct host *h, const char *address, const char *file) {
        char path[128];
        uint64_t v;

        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
        if (host_read_u64(h, path, &v) < 0)
                v = UINT64_MAX;
        return fnv(mark, &v, sizeof(v));
}

/* Equal marks say that nothing was opened or closed. */
static uint64_t read_marks(const struct host *h, const struct chip_marks *m) {
        uint64_t mark = FNV_BEGIN;

        for (size_t i = 0; i < m->n; i++) {
                mark = add_number(mark, h, m->address[i], "enable");
                mark = add_number(mark, h, m->address[i], "driver/module/refcnt");
        }
        return mark;
}

#define DEV           "/proc/1/root/dev" /* our own /dev is a private one */
#define PATTERNS_BETWEEN " \t,"

struct adoption {
        struct runs *runs;
        char ignore[256];
        bool only_here;
        struct chip_marks chips;
        uint64_t mark;
        int inotify_fd;
        sd_event_source *nodes, *timer;
        unsigned living;      /* adopted runs at the last timer */
        usec_t watchful_until;
        usec_t looked, due; /* boot clock: the last walk; when the next one is at the latest */
        struct owners_cache owners;
        struct holder_group groups[HOLDER_GROUPS_MAX];
};

/* --- One adopted run ----------------------------------------------------------------------------------- */

int adopted_refuse_stop(const struct kept_run *kept, struct problem *p) {
        const struct holder_group *g = kept->held;
        char remedy[160];

        if (!container_command(g->container, "stop", remedy, sizeof(remedy)))
                (void) snprintf(remedy, sizeof(remedy), "as user %s: kill %u", kept->user, g->main_pid);
        return problem_set(p, -EPERM, remedy,
                           "run %s was started by user %s without tpu-launchd, which ends only what it "
                           "started",
                           kept->name, kept->user);
}

int adopted_refuse_lines(const struct kept_run *kept, struct problem *p) {
        const struct holder_group *g = kept->held;
        char remedy[160];

        if (container_command(g->container, "logs", remedy, sizeof(remedy)))
                ;
        else if (endswith(g->unit, ".service"))
                (void) snprintf(remedy, sizeof(remedy), "sudo journalctl -u %s", g->unit);
        else /* of a login: a terminal or a file */
                (void) snprintf(remedy, sizeof(remedy), "sudo readlink /proc/%u/fd/1 # where it prints to",
                                g->main_pid);
        return problem_set(p, -ENODATA, remedy,
                           "run %s was started by user %s without tpu-launchd, which has the lines only of "
                           "what it started",
                           kept->name, kept->user);
}

static struct kept_run *make_kept(const struct runs *r, const struct holder_group *g, const char *name,
                                  bool only_here) {
        _cleanup_(kept_run_freep) struct kept_run *kept = calloc(1, sizeof(*kept));
        usec_t now = host_now(r->host), age;
        const char *const argv[] = { g->command };

        if (!kept)
                return NULL;
        age = now - MIN(now, g->started_boot);
        (void) snprintf(kept->name, sizeof(kept->name), "%s", name);
        (void) snprintf(kept->id, sizeof(kept->id), "adopted-%u-%" PRIu64, g->main_pid, g->start_ticks);
        (void) host_boot_id(r->host, kept->boot_id);
        kept->uid = g->uid;
        kept->started_boot = g->started_boot;
        kept->started_real = host_now_real(r->host) - age;
        kept->only_here = only_here;
        kept->state = LAUNCH_RUNNING;
        kept->main_pid = g->main_pid;
        kept->argv = strings_copy(argv, 1);
        kept->user = strdup(g->user);
        kept->spec = run_spec_new();
        kept->control_group = g->control_group[0] ? strdup(g->control_group) : NULL;
        kept->held = malloc(sizeof(*kept->held));
        if (!kept->argv || !kept->user || !kept->spec || !kept->held)
                return NULL;
        *kept->held = *g;
        return TAKE_PTR(kept);
}

/* A name that no run has that lives, nor one of ours that has ended. */
static bool choose_name(struct runs *r, const struct holder_group *g, char ret[static RUN_NAME_MAX + 1]) {
        struct run *before;
        int n;

        (void) snprintf(ret, RUN_NAME_MAX + 1, "%s", g->name);
        before = run_find(r, ret);
        if (before && before->kept->held && before->kept->state == LAUNCH_EXITED && !before->capture) {
                run_unlink(r, before); /* the same again */
                before = run_free(before);
        }
        if (!before)
                return run_name_is_valid(ret);
        n = snprintf(NULL, 0, "-%u", g->main_pid);
        (void) snprintf(ret, RUN_NAME_MAX + 1, "%.*s-%u", RUN_NAME_MAX - n, g->name, g->main_pid);
        return run_name_is_valid(ret) && !run_find(r, ret);
}

static void end_adopted(struct run *run, const char *why) {
        struct runs *r = run->owner;
        struct kept_run *kept = run->kept;
        struct cause_found found;
        struct end_evidence e = { .record = &kept->end,
                                  .preempted = kept->preempted_real > 0,
                                  .log = -1 };

        kept->end = (struct exit_record){ .real = host_now_real(r->host), .boot = host_now(r->host) };
        (void) snprintf(kept->end.result, sizeof(kept->end.result), "unknown");
        cause_of(&e, &found);
        (void) snprintf(kept->end.cause, sizeof(kept->end.cause), "%s", cause_name(found.cause));
        (void) snprintf(kept->end.why, sizeof(kept->end.why), "%s",
                        found.cause == CAUSE_UNKNOWN ? why : found.why);
        kept->main_pid = 0;
        kept->state = LAUNCH_EXITED;
        run->main_gone = sd_event_source_disable_unref(run->main_gone);
        log_notice("run %s, which others started, ended: %s (%s)", kept->name, kept->end.cause,
                   kept->end.why);
        r->events->ended(kept, r->userdata);
}

static int on_main_gone(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        struct run *run = userdata;

        (void) s, (void) fd, (void) events;
        end_adopted(run, "its main process has ended; nobody here saw how");
        return 0;
}

/* Without a pidfd (no kernel of ours lacks it, but a filter may) the next walk sees its end. */
static void watch_main(struct run *run) {
        int fd = (int) syscall(SYS_pidfd_open, (pid_t) run->kept->held->main_pid, 0);

        if (fd < 0)
                return;
        if (sd_event_add_io(run->owner->event, &run->main_gone, fd, EPOLLIN, on_main_gone, run) < 0) {
                (void) close_fd(fd);
                return;
        }
        (void) sd_event_source_set_io_fd_own(run->main_gone, true);
        (void) sd_event_source_set_description(run->main_gone, "adopted-main");
}

static void adopt(struct adoption *a, const struct holder_group *g) {
        struct runs *r = a->runs;
        char name[RUN_NAME_MAX + 1];
        struct kept_run *kept;
        struct run *run;

        if (runs_count_active(r) >= RUNS_ACTIVE_MAX || !choose_name(r, g, name))
                return;
        kept = make_kept(r, g, name, a->only_here);
        run = kept ? run_insert(r, kept) : NULL;
        if (!run) {
                (void) kept_run_free(kept);
                return; /* out of memory: the next walk tries again */
        }
        if (r->host->real_root)
                watch_main(run);
        log_notice("run %s: adopted: process %u of user %s (%s%s%s) has held %s for %u s", name, g->main_pid,
                   g->user, g->command, g->container[0] ? ", " : "", g->container, g->devices,
                   (unsigned) ((host_now(r->host) - MIN(host_now(r->host), g->started_boot)) /
                               USEC_PER_SEC));
        r->events->running(kept, r->userdata);
}

/* --- What a walk found --------------------------------------------------------------------------------- */

static bool is_ignored(const struct adoption *a, const char *command) {
        char patterns[sizeof(a->ignore)], program[96], *save = NULL;

        (void) snprintf(patterns, sizeof(patterns), "%s", a->ignore);
        (void) snprintf(program, sizeof(program), "%.*s", (int) strcspn(command, " "), command);
        for (char *p = strtok_r(patterns, PATTERNS_BETWEEN, &save); p;
             p = strtok_r(NULL, PATTERNS_BETWEEN, &save))
                if (fnmatch(p, program, 0) == 0)
                        return true;
        return false;
}

static bool shares_process(const struct holder_group *a, const struct holder_group *b) {
        for (size_t i = 0; i < a->n_pids; i++)
                for (size_t k = 0; k < b->n_pids; k++)
                        if (a->pids[i] == b->pids[k])
                                return true;
        return a->main_pid == b->main_pid && a->start_ticks == b->start_ticks;
}

/* The group that is this run now, or NULL. Its main process stays what it was. */
static struct holder_group *group_of(struct adoption *a, size_t n, const struct run *run) {
        for (size_t i = 0; i < n; i++)
                if (shares_process(&a->groups[i], run->kept->held))
                        return &a->groups[i];
        return NULL;
}

/* A run whose holders have changed keeps its name and its main process. */
static void refresh_run(struct run *run, struct holder_group *g) {
        struct holder_group *held = run->kept->held;

        memcpy(held->pids, g->pids, sizeof(held->pids));
        held->n_pids = g->n_pids;
        memcpy(held->devices, g->devices, sizeof(held->devices));
        g->n_pids = 0; /* it is somebody's */
}

static void settle_groups(struct adoption *a, size_t n) {
        usec_t now = host_now(a->runs->host);

        for (struct run *run = a->runs->list; run; run = run->next) {
                struct holder_group *g;

                if (!run->kept->held || run->kept->state == LAUNCH_EXITED)
                        continue;
                g = group_of(a, n, run);
                if (g)
                        refresh_run(run, g);
                else
                        end_adopted(run, holder_group_lives(a->runs->host, run->kept->held)
                                                 ? "it holds no chip any more"
                                                 : "its main process has ended; nobody here saw how");
        }
        for (size_t i = 0; i < n; i++) {
                struct holder_group *g = &a->groups[i];

                if (g->n_pids == 0 || is_ignored(a, g->command))
                        continue;
                if (now >= g->started_boot + ADOPT_AFTER)
                        adopt(a, g);
                else
                        a->due = MIN(a->due, g->started_boot + ADOPT_AFTER);
        }
}

void adoption_look(struct adoption *a) {
        const struct device_owners *o = owners_get(a->runs->host, &a->owners);
        size_t left_out;

        a->looked = host_now(a->runs->host);
        a->due = a->looked + ADOPT_LOOK_EVERY;
        if (o->error < 0)
                return; /* nothing is known: what was there stays */
        settle_groups(a, holders_group(a->runs->host, o, a->groups, &left_out));
        if (left_out > 0)
                log_warning("%zu more programs hold chips than can be watched: left out", left_out);
}

/* --- When a walk is made ------------------------------------------------------------------------------- */

static void arm(struct adoption *a) {
        usec_t now = host_now(a->runs->host), at = a->due;

        if (a->chips.n > 0)
                at = MIN(at, now + ADOPT_MARK_EVERY);
        (void) loop_timer_in(a->timer, at - MIN(at, now)); /* fails only when the loop ends */
}

static void walk_soon(struct adoption *a) {
        usec_t now = host_now(a->runs->host);

        a->due = MIN(a->due, MAX(now, a->looked + ADOPT_LOOK_APART));
        arm(a);
}

/* Where one ended another may take its chips before the mark is read again, and it reads as before. */
static bool is_watchful(struct adoption *a, usec_t now) {
        unsigned living = 0;

        for (const struct run *run = a->runs->list; run; run = run->next)
                living += run->kept->held && run->kept->state != LAUNCH_EXITED;
        if (living < a->living)
                a->watchful_until = now + ADOPT_WATCHFUL;
        a->living = living;
        return now < a->watchful_until;
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct adoption *a = userdata;
        uint64_t mark = read_marks(a->runs->host, &a->chips);
        usec_t now = host_now(a->runs->host);

        (void) s, (void) usec;
        if (is_watchful(a, now) || mark != a->mark || now >= a->due)
                adoption_look(a);
        a->mark = mark;
        (void) sd_event_source_set_enabled(a->nodes, SD_EVENT_ON);
        arm(a);
        return 0;
}

static int watch_node(const char *name, void *userdata) {
        struct adoption *a = userdata;
        char path[96];

        (void) snprintf(path, sizeof(path), DEV "/%.40s", name);
        if (startswith(name, "accel"))
                (void) inotify_add_watch(a->inotify_fd, path, IN_OPEN | IN_CLOSE);
        return 0;
}

static int watch_group(const char *name, void *userdata) {
        struct adoption *a = userdata;
        char path[96];

        (void) snprintf(path, sizeof(path), DEV "/vfio/%.40s", name);
        if (name[0] >= '0' && name[0] <= '9')
                (void) inotify_add_watch(a->inotify_fd, path, IN_OPEN | IN_CLOSE);
        return 0;
}

static void watch_nodes(struct adoption *a) {
        (void) inotify_add_watch(a->inotify_fd, DEV, IN_CREATE);
        (void) inotify_add_watch(a->inotify_fd, DEV "/vfio", IN_CREATE);
        (void) host_list(a->runs->host, DEV, watch_node, a);
        (void) host_list(a->runs->host, DEV "/vfio", watch_group, a);
}

/* Who opens and closes a node in a loop wakes us once in ADOPT_LOOK_APART. */
static int on_nodes(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
        struct adoption *a = userdata;
        bool made = false;
        ssize_t n;

        (void) revents;
        while ((n = read(fd, buf, sizeof(buf))) > 0)
                for (ssize_t at = 0; at + (ssize_t) sizeof(struct inotify_event) <= n;) {
                        const struct inotify_event *e = (const struct inotify_event *) (buf + at);

                        made = made || (e->mask & IN_CREATE);
                        at += (ssize_t) (sizeof(*e) + e->len);
                }
        if (made)
                watch_nodes(a);
        (void) sd_event_source_set_enabled(s, SD_EVENT_OFF);
        walk_soon(a);
        return 0;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int adoption_new(struct runs *r, const struct device_settings *s, struct adoption **ret) {
        _cleanup_(adoption_freep) struct adoption *a = calloc(1, sizeof(*a));
        int k;

        if (!a)
                return -ENOMEM;
        a->runs = r;
        a->only_here = s->adopt == ADOPT_OBSERVE;
        (void) snprintf(a->ignore, sizeof(a->ignore), "%s", s->adopt_ignore);
        a->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (a->inotify_fd < 0)
                return -errno;
        find_chips(r->host, &a->chips);
        k = sd_event_add_io(r->event, &a->nodes, a->inotify_fd, EPOLLIN, on_nodes, a);
        if (k >= 0)
                k = sd_event_source_set_description(a->nodes, "chip-nodes");
        if (k >= 0)
                k = loop_timer_new(r->event, CLOCK_BOOTTIME, USEC_PER_SEC, "chip-marks", on_timer, a,
                                   &a->timer);
        if (k < 0)
                return k;
        watch_nodes(a);
        if (s->adopt == ADOPT_NO)
                (void) sd_event_source_set_enabled(a->nodes, SD_EVENT_OFF);
        else
                (void) loop_timer_at(a->timer, 0);
        *ret = TAKE_PTR(a);
        return 0;
}

struct adoption *adoption_free(struct adoption *a) {
        if (!a)
                return NULL;
        a->nodes = sd_event_source_disable_unref(a->nodes);
        a->timer = sd_event_source_disable_unref(a->timer);
        a->inotify_fd = close_fd(a->inotify_fd);
        free(a);
        return NULL;
}
