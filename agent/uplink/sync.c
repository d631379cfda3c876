/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "sync.h"

struct task {
        size_t slot, n;
        int fds[SYNC_FDS_MAX]; /* of this process: numbers, not messages' rights */
        bool directory;
        int result;
};

struct sync {
        int ours, its; /* each message is one struct task */
        pthread_t thread;
        bool started, busy[SYNC_SLOTS_MAX];
        sd_event_source *source;
        void (*done)(size_t slot, int result, void *userdata);
        void *userdata;
};

static bool receive_task(int fd, struct task *ret, int flags) {
        ssize_t n;

        do
                n = recv(fd, ret, sizeof(*ret), flags);
        while (n < 0 && errno == EINTR);
        return n == (ssize_t) sizeof(*ret);
}

static void *thread_main(void *userdata) {
        const struct sync *s = userdata;
        struct task task;

        while (receive_task(s->its, &task, 0)) { /* until the other end says that there is no more */
                task.result = 0;
                for (size_t i = 0; i < task.n; i++) {
                        bool whole = task.directory && i + 1 == task.n;

                        if (task.result == 0 && (whole ? fsync(task.fds[i]) : fdatasync(task.fds[i])) < 0)
                                task.result = -errno;
                        (void) close(task.fds[i]);
                }
                /* cannot fail: there is room for a task of each slot */
                (void) send(s->its, &task, sizeof(task), MSG_NOSIGNAL);
        }
        return NULL;
}

static int on_answer(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        struct sync *s = userdata;
        struct task task;

        (void) source;
        (void) revents;
        while (receive_task(fd, &task, MSG_DONTWAIT)) {
                s->busy[task.slot] = false;
                s->done(task.slot, task.result, s->userdata);
        }
        return 0;
}

/* Signals are the loop's: the thread blocks all of them. */
static int start_thread(struct sync *s) {
        sigset_t all, before;
        int r;

        sigfillset(&all);
        r = pthread_sigmask(SIG_SETMASK, &all, &before);
        if (r != 0)
                return -r;
        r = pthread_create(&s->thread, NULL, thread_main, s);
        (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
        s->started = r == 0;
        return -r;
}

int sync_new(sd_event *e, void (*done)(size_t slot, int result, void *userdata), void *userdata,
             struct sync **ret) {
        _cleanup_(sync_freep) struct sync *s = calloc(1, sizeof(*s));
        int pair[2], r;

        if (!s)
                return -ENOMEM;
        s->ours = s->its = -1;
        s->done = done;
        s->userdata = userdata;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        s->ours = pair[0];
        s->its = pair[1];
        r = sd_event_add_io(e, &s->source, s->ours, EPOLLIN, on_answer, s);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(s->source, "spool-synced");
        r = start_thread(s);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

struct sync *sync_free(struct sync *s) {
        if (!s)
                return NULL;
        s->source = sd_event_source_disable_unref(s->source);
        if (s->started) {
                (void) shutdown(s->ours, SHUT_WR);
                (void) pthread_join(s->thread, NULL);
        }
        closep(&s->ours);
        closep(&s->its);
        free(s);
        return NULL;
}

int sync_start(struct sync *s, size_t slot, const int *fds, size_t n, bool directory) {
        struct task task = { .slot = slot, .n = n, .directory = directory };

        assert(slot < SYNC_SLOTS_MAX && n <= SYNC_FDS_MAX);
        if (s->busy[slot])
                return -EBUSY;
        memcpy(task.fds, fds, n * sizeof(*fds));
        if (send(s->ours, &task, sizeof(task), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                return -errno;
        s->busy[slot] = true;
        return 0;
}
