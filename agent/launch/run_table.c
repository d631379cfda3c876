/* SPDX-License-Identifier: Apache-2.0 */
#include "run_table.h"

#include "handover.h"
#include "holders.h"
#include "log.h"
#include "run_words.h"
#include "secret.h"
#include "texts.h"

struct run *run_free(struct run *run) {
        run->free_timer = sd_event_source_disable_unref(run->free_timer);
        run->stuck_timer = sd_event_source_disable_unref(run->stuck_timer);
        run->main_gone = sd_event_source_disable_unref(run->main_gone);
        run->tail = tail_free(run->tail);
        run->words = child_free(run->words);
        run->core = child_free(run->core);
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
        if (exits) {
                (void) unlinkat(r->exits_fd, name, 0);
                run_remove_words(r, name);
        }
        run_remove_handover(r, name);
        secrets_remove(r->secrets_fd, name);
}

void run_remove_handover(struct runs *r, const char *name) {
        static const char *const beside[] = { "", HANDOVER_PREEMPT, HANDOVER_VARIABLES };
        char file[RUN_NAME_MAX + 16];

        for (size_t i = 0; i < ELEMENTSOF(beside); i++) {
                (void) snprintf(file, sizeof(file), "%s%s", name, beside[i]);
                handover_remove(r->handover_fd, file);
        }
}

int run_pids(const struct run *run, struct pid_list *ret) {
        const char *group = run->kept->control_group;

        if (!run->kept->held)
                return group ? cgroup_pids(run->owner->host, group, ret) : -ENOENT;
        /* The main process of an adopted run, if it is still that one: tpu-stack reads what it started. */
        if (run->kept->state == LAUNCH_EXITED || !holder_group_lives(run->owner->host, run->kept->held))
                return -ESRCH;
        *ret = (struct pid_list){ .pids = { (pid_t) run->kept->held->main_pid }, .n = 1 };
        return 0;
}

#define NAMED_MAX 5 /* of the runs that there are; the newest */

int no_such_run(const struct runs *r, const char *name, struct problem *p) {
        char known[NAMED_MAX * (RUN_NAME_MAX + 3)] = "";
        size_t i = 0;

        for (const struct run *run = r->list; run && i < NAMED_MAX; run = run->next)
                if (!run->kept->only_here) { /* whoever asks */
                        text_append(known, sizeof(known), ", ", "%s", run->kept->name);
                        i++;
                }
        return problem_set(p, -ENOENT, "tpuctl runs", "there is no run '%.64s' on this host%s%s", name,
                           i > 1   ? "; there are: "
                           : i > 0 ? "; there is: "
                                   : ", nor any other",
                           known);
}

static bool is_forgettable(const struct run *run) {
        return run->kept->state == LAUNCH_EXITED && !run->capture;
}

/* How many of this user, and how many in all; the oldest of the user. */
static unsigned count_ended(const struct runs *r, uid_t uid, unsigned *ret_all, struct run **ret_oldest) {
        unsigned n = 0;

        *ret_all = 0;
        for (struct run *run = r->list; run; run = run->next) {
                if (!is_forgettable(run))
                        continue;
                ++*ret_all;
                if (run->kept->uid != uid)
                        continue;
                n++;
                *ret_oldest = run;
        }
        return n;
}

/* Of who has the most: nobody's records go because of another's runs. */
void runs_prune(struct runs *r) {
        for (;;) {
                struct run *oldest = NULL;
                unsigned all = 0, most = 0;

                for (struct run *run = r->list; run; run = run->next) {
                        struct run *last = NULL;
                        unsigned n;

                        if (!is_forgettable(run) || (oldest && oldest->kept->uid == run->kept->uid))
                                continue;
                        n = count_ended(r, run->kept->uid, &all, &last);
                        if (n > most) {
                                most = n;
                                oldest = last;
                        }
                }
                if (all <= RUNS_KEPT)
                        return;
                if (!oldest->kept->held)
                        run_remove_files(r, oldest->kept->name, true);
                run_unlink(r, oldest);
                (void) run_free(oldest);
        }
}

unsigned runs_count_active(const struct runs *r) {
        unsigned n = 0;

        for (struct run *run = r->list; run; run = run->next)
                n += run->kept->state != LAUNCH_EXITED;
        return n;
}

pid_t run_left_over(const struct run *run) {
        _cleanup_free_ struct pid_list *pids = malloc(sizeof(*pids));

        if (!pids || run_pids(run, pids) < 0)
                return 0;
        return pids->n > 0 ? pids->pids[0] : 0;
}

int run_refuse_stale(const struct kept_run *kept, uint64_t generation, struct problem *p) {
        return problem_set(p, -ESTALE, "see: tpuctl runs",
                           "run %s is of generation %" PRIu64 " already, which is later than %" PRIu64,
                           kept->name, kept->generation, generation);
}

int run_refuse_existing(const struct kept_run *kept, struct problem *p) {
        int k = problem_set(p, -EEXIST,
                            kept->held ? "choose another name" : "choose another name, or: tpuctl stop NAME",
                            "run %s is %s",
                            kept->name, launch_state_name(kept->state));

        return problem_fill(p, k, kept->name, 0);
}
