/* SPDX-License-Identifier: Apache-2.0 */
#include "run_look.h"

#include "cgroup_files.h"
#include "proc_pid.h"

/* --- Threads ------------------------------------------------------------------------------------------- */

struct walk {
        const struct host *host;
        struct run_look *look;
        struct lines *lines;
};

static void take_thread_state(const struct host *h, struct run_thread *t) {
        struct proc_pid_stat s;

        if (proc_pid_stat_read(h, (uint32_t) t->tid, &s) < 0)
                return;
        t->state = s.state;
        (void) snprintf(t->comm, sizeof(t->comm), "%.15s", s.name);
}

/* "RUN WAITED SLICES", nanoseconds. A thread that is gone is no thread of the run any more. */
static int take_thread(struct walk *w, int64_t tid) {
        struct run_look *l = w->look;
        char path[48], text[96];
        const char *p = text;
        int64_t ran, waited;

        if (l->n_threads == RUN_LOOK_THREADS) {
                l->more_threads = true;
                return 0;
        }
        (void) snprintf(path, sizeof(path), "/proc/%" PRId64 "/schedstat", tid);
        if (host_read(w->host, path, text, sizeof(text), NULL) < 0 || !take_number(&p, &ran) ||
            !take_number(&p, &waited))
                return 0;
        if (!l->threads)
                l->threads = calloc(RUN_LOOK_THREADS, sizeof(*l->threads));
        if (!l->threads)
                return -ENOMEM;
        l->threads[l->n_threads] = (struct run_thread){ .tid = tid, .waited_ns = waited, .ran_ns = ran };
        take_thread_state(w->host, &l->threads[l->n_threads++]);
        return 0;
}

/* The first is the run's own. A group that is gone has no threads. */
static int take_group_threads(const char *group, uint64_t id, void *userdata) {
        _cleanup_(source_close) struct source file = SOURCE_NULL;
        char path[544];
        struct walk *w = userdata;
        int r = 0;

        if (w->look->group == 0)
                w->look->group = id;
        (void) snprintf(path, sizeof(path), "%s/cgroup.threads", group);
        if (lines_begin(w->lines, &file, w->host, path) >= 0)
                for (const char *line; r >= 0 && (line = lines_next(w->lines));) {
                        int64_t tid;

                        r = take_number(&line, &tid) ? take_thread(w, tid) : 0;
                }
        return r;
}

static int compare_tids(const void *a, const void *b) {
        const struct run_thread *x = a, *y = b;

        return COMPARE(x->tid, y->tid);
}

static void count_standing(const struct run_thread *t, size_t *n, char comm[static RUN_THREAD_COMM]) {
        if ((*n)++ == 0)
                memcpy(comm, t->comm, RUN_THREAD_COMM);
}

/* The thread of that number at the last look; at: where to go on, for numbers that rise. NULL: it was not
 * there. */
static const struct run_thread *thread_before(const struct run_look *from, int64_t tid, size_t *at) {
        while (*at < from->n_threads && from->threads[*at].tid < tid)
                (*at)++;
        return *at < from->n_threads && from->threads[*at].tid == tid ? &from->threads[*at] : NULL;
}

/* Who left a state in between has run since, or at least waited for that. */
static bool stood_still(const struct run_thread *a, const struct run_thread *b) {
        return a->ran_ns == b->ran_ns && a->waited_ns == b->waited_ns;
}

void run_look_standing(const struct run_look *from, const struct run_look *to, struct run_standing *ret) {
        int64_t next_to_none = (int64_t) (to->at - MIN(to->at, from->at)) * (int64_t) NSEC_PER_USEC / 100;

        *ret = (struct run_standing){ .starved = 0 };
        for (size_t i = 0, k = 0; i < to->n_threads; i++) {
                const struct run_thread *t = &to->threads[i], *before = thread_before(from, t->tid, &k);

                if (!before || before->state != t->state)
                        continue;
                if (t->state == 'R' && t->ran_ns >= before->ran_ns &&
                    t->ran_ns - before->ran_ns <= next_to_none)
                        count_standing(t, &ret->starved, ret->starved_comm);
                else if (t->state == 'D' && stood_still(before, t))
                        count_standing(t, &ret->blocked, ret->blocked_comm);
        }
}

int64_t run_look_waited(const struct run_look *from, const struct run_look *to) {
        int64_t sum = 0;

        if (to->n_threads == 0)
                return -1;
        for (size_t i = 0, k = 0; i < to->n_threads; i++) {
                const struct run_thread *t = &to->threads[i], *before = thread_before(from, t->tid, &k);

                if (before && before->waited_ns <= t->waited_ns)
                        sum = sum_held(sum, t->waited_ns - before->waited_ns);
                else if (!from->more_threads)
                        sum = sum_held(sum, t->waited_ns);
        }
        return sum;
}

/* --- The control group --------------------------------------------------------------------------------- */

static void take_files(const struct host *h, struct cgroup_files *files, struct lines *lines,
                       struct run_look *ret) {
        const struct metrics_look l = { .host = h, .lines = lines, .now = ret->at };

        cgroup_cpu(files, &l, &ret->cpu);
        cgroup_memory(files, &l, &ret->memory);
        cgroup_io(files, &l, &ret->io);
        ret->tasks = cgroup_tasks(files, &l);
        for (enum pressure_resource p = PRESSURE_CPU; p <= PRESSURE_IO; p++)
                cgroup_pressure(files, p, &l, &ret->some[p], &ret->full[p]);
}

void run_look_clear(struct run_look *l) {
        free(l->threads);
        *l = (struct run_look){ .group = 0 };
}

int run_look_take(const struct host *h, const char *base, const char *run, const char *in, usec_t now,
                  struct run_look *ret) {
        _cleanup_free_ struct lines *lines = malloc(sizeof(*lines));
        _cleanup_(cgroup_files_close) struct cgroup_files files;
        _cleanup_(run_look_clear) struct run_look look = { .at = now };
        struct walk w = { .host = h, .look = &look, .lines = lines };
        char group[CGROUP_PATH_MAX];
        int r = run_group_path(run, in, group, sizeof(group));

        if (r < 0 || cgroup_files_init(&files, base, group) < 0)
                (void) cgroup_files_init(&files, "", ""); /* nothing is open: there is nothing to close */
        if (!lines)
                return -ENOMEM;
        r = r < 0 ? -ENOENT : cgroup_walk(h, files.path, take_group_threads, &w);
        if (r == -ENOMEM || look.group == 0)
                return r == -ENOMEM ? r : -ENOENT;
        take_files(h, &files, lines, &look);
        if (look.threads)
                qsort(look.threads, look.n_threads, sizeof(look.threads[0]), compare_tids);
        *ret = look;
        look.threads = NULL;
        return 0;
}
