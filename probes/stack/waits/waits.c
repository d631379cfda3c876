/* SPDX-License-Identifier: Apache-2.0 */
#include "waits.h"

#include <assert.h>
#include <poll.h>

#include "proc_pid.h"
#include "wait_descriptor.h"

#define POLLED_MAX 1024u /* descriptors of one call that are looked at */

/* What no descriptor is behind. */
static int put_kind(struct thread_waiting *t, uint8_t kind, const char *text) {
        return thread_wait_put(t, &(struct captured_wait){ .kind = kind, .fd = WAIT_FD_NONE }, text);
}

/* --- Many descriptors --------------------------------------------------------------------------------- */

static int add_polled(struct thread_waiting *t, const struct call_wait *call) {
        struct pollfd fds[POLLED_MAX];
        size_t n = MIN(call->n, (uint64_t) POLLED_MAX);
        bool any = n > 1;
        int r = 0;

        if (call->n == 0 && call->limited)
                return put_kind(t, WAIT_TIMER, "");
        if (!thread_wait_memory(t, call->address, fds, n * sizeof(fds[0])))
                return put_kind(t, WAIT_UNKNOWN, "what it polls is not in readable memory");
        t->out->cut |= n < call->n;
        for (size_t i = 0; i < n && r == 0; i++)
                if (fds[i].fd >= 0)
                        r = wait_descriptor_add(
                                t, (uint32_t) fds[i].fd,
                                &(struct captured_wait){ .any = any,
                                                         .limited = call->limited,
                                                         .writes = (fds[i].events & POLLOUT) &&
                                                                   !(fds[i].events & POLLIN) });
        return r;
}

static int add_selected(struct thread_waiting *t, const struct call_wait *call) {
        uint8_t sets[2][POLLED_MAX / 8] = { { 0 } };
        size_t n = MIN(call->n, (uint64_t) POLLED_MAX), bytes = (n + 7) / 8;
        int r = 0;

        if ((call->address && !thread_wait_memory(t, call->address, sets[0], bytes)) ||
            (call->write_set && !thread_wait_memory(t, call->write_set, sets[1], bytes)))
                return put_kind(t, WAIT_UNKNOWN, "what it selects is not in readable memory");
        if (!call->address && !call->write_set && call->limited)
                return put_kind(t, WAIT_TIMER, "");
        for (unsigned set = 0; set < 2; set++)
                for (size_t i = 0; i < n && r == 0; i++)
                        if (sets[set][i / 8] & 1u << i % 8)
                                r = wait_descriptor_add(t, (uint32_t) i,
                                                        &(struct captured_wait){ .any = true,
                                                                                 .limited = call->limited,
                                                                                 .writes = set == 1 });
        return r;
}

/* --- Paths -------------------------------------------------------------------------------------------- */

/* A string of the process up to the end of what can be read. */
static bool read_path(const struct thread_waiting *t, uint64_t address, char buf[static 1024]) {
        size_t n = MIN((size_t) (MEMORY_PAGE - address % MEMORY_PAGE), (size_t) 1023);

        memset(buf, 0, 1024);
        if (!thread_wait_memory(t, address, buf, n))
                return false;
        if (!memchr(buf, '\0', n))
                (void) thread_wait_memory(t, address + n, buf + n, 1023 - n); /* else it is cut there */
        return buf[0] != '\0';
}

static int add_path(struct thread_waiting *t, const struct call_wait *call) {
        char name[1024], path[2048], base[32] = "cwd", dir[1024];
        const struct mount *m;
        struct captured_wait w = { .kind = WAIT_FILE, .fd = WAIT_FD_NONE };
        ssize_t n;

        if (!read_path(t, call->address, name))
                return put_kind(t, WAIT_UNKNOWN, "the name of a file, which is not in readable memory");
        (void) snprintf(path, sizeof(path), "%s", name);
        if (name[0] != '/') {
                if (call->fd != WAIT_FD_NONE && (int32_t) call->fd >= 0)
                        (void) snprintf(base, sizeof(base), "fd/%" PRIu32, call->fd);
                n = readlinkat(t->from->process->dir_fd, base, dir, sizeof(dir) - 1);
                dir[MAX(n, 0)] = '\0';
                (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        }
        m = mounts_of_path(&t->mounts, path);
        if (streq(t->task->wait, "wait_for_partner") || streq(t->task->wait, "fifo_open")) {
                w.kind = WAIT_PIPE;
                (void) snprintf(dir, sizeof(dir), "(nobody else has opened %.300s)", path);
        } else if (startswith(path, "/dev/") && !startswith(path, "/dev/shm/")) {
                w.kind = WAIT_DEVICE;
                (void) snprintf(dir, sizeof(dir), "%.300s", path);
        } else
                (void) snprintf(dir, sizeof(dir), "%.300s", m ? m->words : path);
        return thread_wait_put(t, &w, dir);
}

/* --- Children, locks, pages --------------------------------------------------------------------------- */

struct child_search {
        const struct process *process;
        int32_t own;
        pid_t found;
};

static int compare_child(pid_t pid, void *userdata) {
        struct child_search *s = userdata;
        char path[48], status[2048];
        pid_t own = 0;

        (void) snprintf(path, sizeof(path), "../%d/status", (int) pid);
        if (process_read(s->process, path, status, sizeof(status), NULL) >= 0)
                (void) process_nested_pid(status, &own);
        if (own != s->own)
                return 0;
        s->found = pid;
        return 1;
}

/* The child's number as /proc has it. */
static uint32_t child_of(const struct thread_waiting *t, int32_t own) {
        struct child_search s = { .process = t->from->process, .own = own };

        if (own == 0 || !t->from->process->nested)
                return (uint32_t) own;
        (void) process_children(t->from->process, compare_child, &s); /* not found: not known */
        return (uint32_t) s.found;
}

static int add_lock(struct thread_waiting *t, const struct call_wait *call) {
        struct captured_wait w = { .kind = WAIT_LOCK, .fd = WAIT_FD_NONE, .limited = call->limited };
        char text[LOCK_TEXT_MAX];

        lock_owner_find(&t->locks, t->task, call, &w, text);
        return thread_wait_put(t, &w, text);
}

static int add_locks(struct thread_waiting *t, const struct call_wait *call) {
        struct { /* struct futex_waitv of linux/futex.h */
                uint64_t value, address;
                uint32_t flags, reserved;
        } list[128];
        size_t n = MIN(call->n, (uint64_t) ELEMENTSOF(list));
        int r = 0;

        if (!thread_wait_memory(t, call->address, list, n * sizeof(list[0])))
                return put_kind(t, WAIT_UNKNOWN, "a list of locks, which is not in readable memory");
        for (size_t i = 0; i < n && r == 0; i++) {
                struct captured_wait w = {
                        .kind = WAIT_LOCK, .any = true, .fd = WAIT_FD_NONE, .limited = call->limited
                };
                struct call_wait one = { .address = list[i].address, .shared = !(list[i].flags & 128) };
                char text[LOCK_TEXT_MAX];

                lock_owner_find(&t->locks, t->task, &one, &w, text);
                r = thread_wait_put(t, &w, text);
        }
        return r;
}

static int add_page(struct thread_waiting *t) {
        const char *wchan = t->task->wait;

        if (streq(wchan, "handle_userfault"))
                return put_kind(t, WAIT_PAGE, "which a program provides by userfaultfd");
        if (strstr(wchan, "swap"))
                return put_kind(t, WAIT_PAGE, "swap");
        return put_kind(t, WAIT_PAGE,
                        startswith(wchan, "request_wait_answer") ? "of a FUSE file system" : "");
}

/* --- One call ----------------------------------------------------------------------------------------- */

static int add_of_call(struct thread_waiting *t, const struct call_wait *call) {
        struct captured_wait w = { .fd = WAIT_FD_NONE, .limited = call->limited };
        char text[128];
        int r;

        switch (call->kind) {
        case CALL_FD:
                w.writes = call->writes;
                w.any = call->fd_in != WAIT_FD_NONE;
                r = wait_descriptor_add(t, call->fd, &w);
                w.writes = false;
                return r < 0 || !w.any ? r : wait_descriptor_add(t, call->fd_in, &w);
        case CALL_PATH:
                return add_path(t, call);
        case CALL_LOCKS_FILE:
                return wait_descriptor_lock(t, call->fd);
        case CALL_POLL:
                return add_polled(t, call);
        case CALL_SELECT:
                return add_selected(t, call);
        case CALL_EPOLL:
                w.any = true;
                return wait_descriptor_add(t, call->fd, &w);
        case CALL_FUTEX:
                return add_lock(t, call);
        case CALL_FUTEXES:
                return add_locks(t, call);
        case CALL_CHILD:
                if (call->fd != WAIT_FD_NONE)
                        return wait_descriptor_add(t, call->fd, &w);
                w.kind = WAIT_CHILD;
                w.holder_pid = child_of(t, call->child);
                return thread_wait_put(t, &w, "");
        case CALL_SLEEP:
                w.kind = WAIT_TIMER;
                return thread_wait_put(t, &w, "");
        case CALL_SIGNAL:
                return put_kind(t, WAIT_UNKNOWN, "a signal");
        case CALL_IO:
                w.kind = WAIT_IO_URING;
                w.fd = call->fd;
                return thread_wait_put(t, &w, call->fd == WAIT_FD_NONE ? "(Linux AIO)" : "");
        case CALL_OTHER:
        default:
                (void) snprintf(text, sizeof(text), "%s%s%s", t->task->call, t->task->wait[0] ? " in " : "",
                                t->task->wait);
                return put_kind(t, WAIT_UNKNOWN, text);
        }
}

/* What stops a thread whatever it does. */
static int add_stopped(struct thread_waiting *t, const struct task *task, bool *ret_done) {
        struct captured_wait w = { .kind = WAIT_STOPPED, .fd = WAIT_FD_NONE };
        char path[48], status[2048], text[CONTROL_GROUP_MAX + 128];
        const char *tracer;

        *ret_done = true;
        if (task->state == 'T' || task->state == 't') {
                (void) snprintf(path, sizeof(path), "task/%d/status", (int) task->tid);
                if (process_read(t->from->process, path, status, sizeof(status), NULL) >= 0 &&
                    (tracer = strstr(status, "\nTracerPid:")) && task->state == 't')
                        w.holder_pid = (uint32_t) strtoul(tracer + strlen("\nTracerPid:"), NULL, 10);
                return thread_wait_put(t, &w, "");
        }
        if (control_group_freezes(task->wait) || (t->group.frozen && task->state != 'R')) {
                w.kind = WAIT_FROZEN;
                return thread_wait_put(t, &w, t->group.name);
        }
        if (control_group_reclaims(task->wait) || (task->state == 'R' && t->group.why[0])) {
                w.kind = WAIT_THROTTLED;
                (void) snprintf(text, sizeof(text), "%.200s %s", t->group.name,
                                t->group.why[0] ? t->group.why : "(its memory is reclaimed)");
                return thread_wait_put(t, &w, text);
        }
        *ret_done = false;
        return 0;
}

/* Adds what the thread waits for, nothing when it runs. -ENOMEM. */
static int add_thread(struct thread_waiting *t, const struct task *task) {
        struct call_wait call;
        char text[96];
        bool done;
        int r;

        t->task = task;
        t->looked = 0;
        r = add_stopped(t, task, &done);
        if (r < 0 || done || task->state == 'R' || task->state == 'Z' || task->state == 'X' ||
            task->in.number == CALL_RUNNING)
                return r;
        if (task->in.number == CALL_UNKNOWN) {
                if (task->in.error == -ESRCH || task->in.error == -ENOENT)
                        return 0; /* it has ended */
                (void) snprintf(text, sizeof(text), "%s",
                                task->in.error == -EPERM || task->in.error == -EACCES
                                        ? "it is not permitted to know it"
                                        : strerror(-task->in.error));
                return put_kind(t, WAIT_UNKNOWN, text);
        }
        if (task->in.number == CALL_FAULT)
                return add_page(t);
        call_wait_of(&task->in, task->wait, &call);
        return add_of_call(t, &call);
}

/* --- The process --------------------------------------------------------------------------------------- */

void waits_clear(struct waits *w) {
        free(w->items);
        free(w->threads);
        sockets_clear(&w->sockets);
        *w = (struct waits){ 0 };
}

static int count_gone(pid_t pid, void *userdata) {
        struct thread_waiting *t = userdata;
        char path[48], text[1024];
        struct proc_pid_stat s;

        (void) snprintf(path, sizeof(path), "../%d/stat", (int) pid);
        if (process_read(t->from->process, path, text, sizeof(text), NULL) >= 0 &&
            proc_pid_stat_parse(text, &s) == 0)
                t->out->children_gone += s.state == 'Z' || s.state == 'X';
        return 0;
}

static void read_process(struct thread_waiting *t) {
        struct process_stat s;

        process_stat(t->from->process, &s);
        t->out->parent = s.parent;
        t->out->start_ticks = s.start_ticks;
        t->out->cpu_usec = process_usec(s.cpu_ticks);
        (void) process_children(t->from->process, count_gone,
                                t); /* of a kernel without them: none is known */
}

/* Reads what all threads of a process are beside; end() lets go of it. */
static struct thread_waiting begin(const struct waits_of *from, struct waits *out) {
        struct thread_waiting t = { .from = from,
                                    .out = out,
                                    .locks = { .process = from->process,
                                               .memory = from->memory,
                                               .tasks = from->tasks,
                                               .runtime = from->runtime,
                                               .runtime_end = from->runtime_end,
                                               .python = from->python,
                                               .n_python = from->n_python } };

        (void) mounts_read(from->process, &t.mounts); /* what cannot be read is not there */
        control_group_read(from->host, from->process, &t.group);
        return t;
}

static void end(struct thread_waiting *t) {
        mounts_clear(&t->mounts);
        lock_places_clear(&t->locks);
        free(t->file_locks);
}

int waits_read(const struct waits_of *from, struct waits *ret) {
        struct thread_waiting t = begin(from, ret);
        int r;

        read_process(&t);
        r = sockets_read(from->process, &ret->sockets);
        if (r != -ENOMEM)
                r = 0; /* likewise */
        ret->threads = calloc(from->tasks->n + 1, sizeof(*ret->threads));
        if (!ret->threads)
                r = -ENOMEM;
        for (size_t i = 0; i < from->tasks->n && r == 0; i++) {
                ret->threads[i].first = (uint32_t) ret->n;
                r = add_thread(&t, &from->tasks->items[i]);
                ret->threads[i].n = (uint32_t) ret->n - ret->threads[i].first;
        }
        ret->n_threads = r == 0 ? from->tasks->n : 0;
        ret->cut |= ret->sockets.cut;
        end(&t);
        return r;
}

int waits_add_looks(const struct waits_of *from, struct waits *w) {
        struct thread_waiting t = begin(from, w);
        int r = 0;

        assert(w->n_threads == from->tasks->n);
        for (size_t i = 0; i < w->n_threads && r == 0; i++) {
                const struct task *task = &from->tasks->items[i];
                struct call_wait call;

                if (task->state != 'R' || task->in.number < 0 || w->threads[i].n > 0)
                        continue;
                t.task = task;
                t.looked = 0;
                w->threads[i].first = (uint32_t) w->n;
                call_wait_of(&task->in, "", &call);
                r = add_of_call(&t, &call);
                w->threads[i].n = (uint32_t) w->n - w->threads[i].first;
                for (size_t k = w->threads[i].first; k < w->n; k++)
                        w->items[k].w.spins = true;
        }
        end(&t);
        return r;
}
