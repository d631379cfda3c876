/* SPDX-License-Identifier: Apache-2.0 */
#include "waits.h"

#include "grow.h"
#include "thread_wait.h"

void waits_clear(struct waits *w) {
        free(w->items);
        free(w->threads);
        sockets_clear(&w->sockets);
        *w = (struct waits){ 0 };
}

static int count_gone(pid_t pid, void *userdata) {
        struct thread_waiting *t = userdata;
        char path[48], text[1024];
        const char *close;

        (void) snprintf(path, sizeof(path), "../%d/stat", (int) pid);
        if (process_read(t->from->process, path, text, sizeof(text), NULL) < 0)
                return 0;
        close = strrchr(text, ')');
        t->out->children_gone += close && (startswith(close, ") Z") || startswith(close, ") X"));
        return 0;
}

static void read_process(struct thread_waiting *t) {
        const long ticks = MAX(sysconf(_SC_CLK_TCK), 1L);
        struct process_stat s;

        process_stat(t->from->process, &s);
        t->out->parent = s.parent;
        t->out->start_ticks = s.start_ticks;
        t->out->cpu_usec = s.cpu_ticks * (USEC_PER_SEC / (uint64_t) ticks);
        (void) process_children(t->from->process, count_gone,
                                t); /* of a kernel without them: none is known */
}

int waits_read(const struct waits_of *from, struct waits *ret) {
        struct thread_waiting t = { .from = from,
                                    .out = ret,
                                    .locks = { .process = from->process,
                                               .memory = from->memory,
                                               .tasks = from->tasks,
                                               .runtime = from->runtime,
                                               .runtime_end = from->runtime_end,
                                               .python = from->python,
                                               .n_python = from->n_python } };
        int r;

        read_process(&t);
        r = sockets_read(from->process, &ret->sockets);
        if (r != -ENOMEM)
                r = 0;                                /* what is not known of them is not there */
        (void) mounts_read(from->process, &t.mounts); /* likewise */
        control_group_read(from->host, from->process, &t.group);
        ret->threads = calloc(from->tasks->n + 1, sizeof(*ret->threads));
        if (!ret->threads)
                r = -ENOMEM;
        for (size_t i = 0; i < from->tasks->n && r == 0; i++) {
                ret->threads[i].first = (uint32_t) ret->n;
                r = thread_wait_add(&t, &from->tasks->items[i]);
                ret->threads[i].n = (uint32_t) ret->n - ret->threads[i].first;
        }
        ret->n_threads = r == 0 ? from->tasks->n : 0;
        ret->cut |= ret->sockets.cut;
        mounts_clear(&t.mounts);
        lock_places_clear(&t.locks);
        free(t.file_locks);
        return r;
}
