/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "handover.h"
#include "log.h"
#include "run_table.h"
#include "secret.h"
#include "state.h"

/* --- The table ----------------------------------------------------------------------------------------- */

struct run *run_free(struct run *run) {
        run->kill_timer = sd_event_source_disable_unref(run->kill_timer);
        run->free_timer = sd_event_source_disable_unref(run->free_timer);
        run->stuck_timer = sd_event_source_disable_unref(run->stuck_timer);
        run->tail = tail_free(run->tail);
        run->capture = child_free(run->capture);
        (void) kept_run_free(run->kept);
        (void) kept_run_free(run->replaced);
        (void) kept_run_free(run->coming);
        free(run);
        return NULL;
}

struct run *run_find(const struct runs *r, const char *name) {
        for (struct run *run = r->list; run; run = run->next)
                if (streq(run->kept->name, name))
                        return run;
        return NULL;
}

void run_unlink(struct runs *r, struct run *run) {
        for (struct run **p = &r->list; *p; p = &(*p)->next)
                if (*p == run) {
                        *p = run->next;
                        return;
                }
}

struct run *run_insert(struct runs *r, struct kept_run *kept) {
        struct run *run = calloc(1, sizeof(*run)), **p = &r->list;

        if (!run)
                return NULL;
        run->owner = r;
        run->kept = kept;
        while (*p && (*p)->kept->started_real > kept->started_real)
                p = &(*p)->next;
        run->next = *p;
        *p = run;
        return run;
}

void run_remove_files(struct runs *r, const char *name, bool exits) {
        /* a file that stays is read, and forgotten again, at the next start */
        (void) unlinkat(r->runs_fd, name, 0);
        if (exits)
                (void) unlinkat(r->exits_fd, name, 0);
        run_remove_handover(r, name);
        secrets_remove(r->secrets_fd, name);
}

void run_remove_handover(struct runs *r, const char *name) {
        char preempt[RUN_NAME_MAX + 16];

        handover_remove(r->handover_fd, name);
        (void) snprintf(preempt, sizeof(preempt), "%s%s", name, HANDOVER_PREEMPT);
        handover_remove(r->handover_fd, preempt);
}

int run_pids(const struct run *run, struct pid_list *ret) {
        const char *group = run->kept->control_group;

        return group ? cgroup_pids(run->owner->host, group, ret) : -ENOENT;
}

int no_such_run(const char *name, struct problem *p) {
        return problem_set(p, -ENOENT, "see: tpuctl runs", "there is no run '%.64s' on this host", name);
}

void runs_prune(struct runs *r) {
        unsigned kept = 0;

        for (struct run *run = r->list, *next; run; run = next) {
                next = run->next;
                if (run->kept->state != LAUNCH_EXITED || run->capture || ++kept <= RUNS_KEPT)
                        continue;
                run_remove_files(r, run->kept->name, true);
                run_unlink(r, run);
                (void) run_free(run);
        }
}

unsigned runs_count_active(const struct runs *r) {
        unsigned n = 0;

        for (struct run *run = r->list; run; run = run->next)
                n += run->kept->state != LAUNCH_EXITED;
        return n;
}

/* --- Directories --------------------------------------------------------------------------------------- */

int state_make(const struct host *h, const char *path, mode_t mode) {
        const char *name = strrchr(path, '/') + 1;
        _cleanup_close_ int dir = -1, fd = -1;
        char parent[128];

        (void) snprintf(parent, sizeof(parent), "%.*s", (int) (name - path - 1), path);
        dir = host_open_file(h, parent, O_RDONLY | O_DIRECTORY);
        if (dir < 0)
                return dir;
        if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;
        if (fchmod(fd, mode) < 0) /* whatever the umask was */
                return -errno;
        return TAKE_FD(fd);
}

/* --- Loading ------------------------------------------------------------------------------------------- */

static int load_one(const char *name, void *userdata) {
        _cleanup_(kept_run_freep) struct kept_run *kept = NULL;
        char boot_id[BOOT_ID_MAX] = "";
        struct runs *r = userdata;
        struct run *run;
        int k;

        if (strchr(name, '.')) /* what a crash left of a write, or what was set aside */
                return 0;
        k = kept_run_read(r->runs_fd, name, &kept);
        if (k < 0 && k != -ENOENT) /* that was set aside, and is said */
                (void) log_warning_errno(k, STATE_RUNS "/%s cannot be read, left out: %m", name);
        if (k < 0)
                return 0;
        run = run_insert(r, kept);
        if (!run)
                return -ENOMEM;
        kept = NULL;
        run->kept->state = LAUNCH_RUNNING; /* until systemd says otherwise */
        (void) host_boot_id(r->host, boot_id);
        k = exit_record_read(r->exits_fd, name, run->kept->id, &run->kept->end);
        /* It was judged before, or the host went down with it. One that ended while we were away is judged
         * when it is asked about: that takes the journal. */
        if ((k == 0 && run->kept->end.cause[0]) || !streq(run->kept->boot_id, boot_id))
                run_ended(run);
        return 0;
}

int runs_load(struct runs *r) {
        return host_list(r->host, STATE_RUNS, load_one, r);
}
