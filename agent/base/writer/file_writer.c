/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "file_writer.h"
#include "io.h"

struct file_writer {
        sd_event *event;
        const struct state_format *format;
        char *path;
        file_written_t done;
        void *userdata;
        pid_t child; /* 0: none at work */
        int pidfd;
        sd_event_source *source;
        char *waiting; /* the text to write after the child's end */
        uint64_t last,
                writing; /* numbers: of the last text that was put, of the one that the child writes */
};

static int start_child(struct file_writer *w, char *text);

/* Only what a child of a program with threads may do; its end tells the result. */
__attribute__((noreturn)) static void write_and_exit(const struct file_writer *w, const char *text) {
        io_close_others(-1); /* it may outlive us, and then must not keep our successor from anything */
        _exit(-state_file_write(AT_FDCWD, w->path, w->format, text, strlen(text)));
}

static void tell(struct file_writer *w, uint64_t number, int result) {
        if (w->done)
                w->done(number, result, w->userdata);
}

static int on_child(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct file_writer *w = userdata;
        siginfo_t info = { 0 };
        uint64_t number = w->writing;
        int r = -EIO, started = 0;

        (void) s, (void) fd, (void) revents;
        if (waitid(P_PID, (id_t) w->child, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0)
                return 0;
        if (info.si_code == CLD_EXITED)
                r = -info.si_status;
        w->child = 0;
        w->source = sd_event_source_disable_unref(w->source);
        w->pidfd = close_fd(w->pidfd);
        if (w->waiting)
                started = start_child(w, TAKE_PTR(w->waiting));
        tell(w, number, r);
        if (started < 0)
                tell(w, w->last, started);
        return 0;
}

/* Takes text over. */
static int start_child(struct file_writer *w, char *text) {
        _cleanup_free_ char *own = text;
        int r;

        w->child = fork();
        if (w->child < 0) {
                w->child = 0;
                return -errno;
        }
        if (w->child == 0)
                write_and_exit(w, own);
        w->writing = w->last;
        w->pidfd = (int) syscall(__NR_pidfd_open, w->child, 0);
        r = w->pidfd < 0 ? -errno : sd_event_add_io(w->event, &w->source, w->pidfd, EPOLLIN, on_child, w);
        if (r < 0)
                return r; /* the child does its work; it stays as a zombie, and no second one is made */
        (void) sd_event_source_set_description(w->source, w->format->what);
        return 0;
}

int file_writer_put(struct file_writer *w, char *text, uint64_t *ret_number) {
        int r = 0;

        w->last++;
        if (w->child == 0)
                r = start_child(w, text);
        else {
                free(w->waiting);
                w->waiting = text;
        }
        if (r >= 0 && ret_number)
                *ret_number = w->last;
        return r;
}

int file_writer_put_json(struct file_writer *w, json_t *o, uint64_t *ret_number) {
        char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

        json_decref(o);
        return text ? file_writer_put(w, text, ret_number) : -ENOMEM;
}

int file_writer_new(sd_event *e, const char *path, const struct state_format *format, file_written_t done,
                    void *userdata, struct file_writer **ret) {
        _cleanup_(file_writer_freep) struct file_writer *w = calloc(1, sizeof(*w));

        if (!w)
                return -ENOMEM;
        *w = (struct file_writer){ .event = sd_event_ref(e),
                                   .format = format,
                                   .path = strdup(path),
                                   .done = done,
                                   .userdata = userdata,
                                   .pidfd = -1 };
        if (!w->path)
                return -ENOMEM;
        *ret = TAKE_PTR(w);
        return 0;
}

struct file_writer *file_writer_free(struct file_writer *w) {
        if (!w)
                return NULL;
        w->source = sd_event_source_disable_unref(w->source);
        w->pidfd = close_fd(w->pidfd);
        w->event = sd_event_unref(w->event);
        free(w->waiting);
        free(w->path);
        free(w);
        return NULL;
}
