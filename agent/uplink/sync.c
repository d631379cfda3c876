/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "sync.h"

enum sync_state { SYNC_IDLE, SYNC_QUEUED, SYNC_RUNNING, SYNC_DONE };

struct sync_slot {
        enum sync_state state;
        int fds[SYNC_FDS_MAX];
        size_t n;
        bool directory;
        int result;
};

struct sync {
        pthread_mutex_t lock; /* over slots and stop */
        pthread_cond_t wake;
        struct sync_slot slots[SYNC_SLOTS_MAX];
        bool stop;

        pthread_t thread;
        bool started;
        int event_fd;
        sd_event_source *source;
        void (*done)(size_t slot, int result, void *userdata);
        void *userdata;
};

static struct sync_slot *next_job(struct sync *s) {
        for (size_t i = 0; i < SYNC_SLOTS_MAX; i++)
                if (s->slots[i].state == SYNC_QUEUED)
                        return &s->slots[i];
        return NULL;
}

static int run_job(const struct sync_slot *j) {
        int result = 0;

        for (size_t i = 0; i < j->n; i++) {
                bool whole = j->directory && i + 1 == j->n;

                if (result == 0 && (whole ? fsync(j->fds[i]) : fdatasync(j->fds[i])) < 0)
                        result = -errno;
                (void) close(j->fds[i]);
        }
        return result;
}

static void *thread_main(void *userdata) {
        struct sync *s = userdata;

        (void) pthread_mutex_lock(&s->lock);
        while (!s->stop) {
                struct sync_slot *slot = next_job(s), job;
                int result;

                if (!slot) {
                        (void) pthread_cond_wait(&s->wake, &s->lock);
                        continue;
                }
                slot->state = SYNC_RUNNING;
                job = *slot;
                (void) pthread_mutex_unlock(&s->lock);
                result = run_job(&job);
                (void) pthread_mutex_lock(&s->lock);
                slot->result = result;
                slot->state = SYNC_DONE;
                (void) eventfd_write(s->event_fd, 1); /* cannot fail: far from full */
        }
        (void) pthread_mutex_unlock(&s->lock);
        return NULL;
}

static int on_answer(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        struct sync *s = userdata;
        eventfd_t n;

        (void) source;
        (void) revents;
        (void) eventfd_read(fd, &n); /* EAGAIN: nothing new */
        for (size_t i = 0; i < SYNC_SLOTS_MAX; i++) {
                bool finished;

                (void) pthread_mutex_lock(&s->lock);
                finished = s->slots[i].state == SYNC_DONE;
                if (finished)
                        s->slots[i].state = SYNC_IDLE;
                (void) pthread_mutex_unlock(&s->lock);
                if (finished)
                        s->done(i, s->slots[i].result, s->userdata);
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
        if (r != 0)
                return -r;
        s->started = true;
        return 0;
}

int sync_new(sd_event *e, void (*done)(size_t slot, int result, void *userdata), void *userdata,
             struct sync **ret) {
        _cleanup_(sync_freep) struct sync *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        s->event_fd = -1;
        s->done = done;
        s->userdata = userdata;
        (void) pthread_mutex_init(&s->lock, NULL); /* neither fails with default attributes */
        (void) pthread_cond_init(&s->wake, NULL);
        s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (s->event_fd < 0)
                return -errno;
        r = sd_event_add_io(e, &s->source, s->event_fd, EPOLLIN, on_answer, s);
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
        if (s->started) {
                (void) pthread_mutex_lock(&s->lock);
                s->stop = true;
                (void) pthread_cond_signal(&s->wake);
                (void) pthread_mutex_unlock(&s->lock);
                (void) pthread_join(s->thread, NULL);
        }
        for (size_t i = 0; i < SYNC_SLOTS_MAX; i++)
                if (s->slots[i].state == SYNC_QUEUED)
                        for (size_t k = 0; k < s->slots[i].n; k++)
                                (void) close(s->slots[i].fds[k]);
        s->source = sd_event_source_disable_unref(s->source);
        closep(&s->event_fd);
        (void) pthread_cond_destroy(&s->wake);
        (void) pthread_mutex_destroy(&s->lock);
        free(s);
        return NULL;
}

int sync_start(struct sync *s, size_t slot, const int *fds, size_t n, bool directory) {
        int r = 0;

        assert(slot < SYNC_SLOTS_MAX && n <= SYNC_FDS_MAX);
        (void) pthread_mutex_lock(&s->lock);
        if (s->slots[slot].state == SYNC_IDLE) {
                s->slots[slot] = (struct sync_slot) { .state = SYNC_QUEUED, .n = n, .directory = directory };
                memcpy(s->slots[slot].fds, fds, n * sizeof(*fds));
                (void) pthread_cond_signal(&s->wake);
        } else
                r = -EBUSY;
        (void) pthread_mutex_unlock(&s->lock);
        return r;
}
