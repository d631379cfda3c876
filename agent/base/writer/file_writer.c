/* SPDX-License-Identifier: Apache-2.0 */
#include "file_writer.h"

#include <fcntl.h>

#include "child.h"

struct file_writer {
        sd_event *event;
        const struct state_format *format;
        char *path;
        file_written_t done;
        void *userdata;
        struct child *child; /* NULL: none at work */
        char *text;          /* that it writes */
        char *waiting;       /* the text to write after the child's end */
        uint64_t last,
                writing; /* numbers: of the last text that was put, of the one that the child writes */
};

static int start_child(struct file_writer *w, char *text);

/* In the child, of a program that may have threads. */
static int write_text(int fd, const void *data) {
        const struct file_writer *w = data;

        (void) fd;
        return state_file_write(AT_FDCWD, w->path, w->format, w->text, strlen(w->text));
}

static void tell_written(struct file_writer *w, uint64_t number, int result) {
        if (w->done)
                w->done(number, result, w->userdata);
}

static void on_written(int result, const char *answer, size_t len, void *userdata) {
        struct file_writer *w = userdata;
        uint64_t number = w->writing;
        int started = 0;

        (void) answer, (void) len;
        w->child = child_free(w->child);
        free(TAKE_PTR(w->text));
        if (w->waiting)
                started = start_child(w, TAKE_PTR(w->waiting));
        tell_written(w, number, result);
        if (started < 0)
                tell_written(w, w->last, started);
}

/* Takes text over. */
static int start_child(struct file_writer *w, char *text) {
        const struct child_work work = { .name = w->format->what,
                                         .run = write_text,
                                         .data = w,
                                         .outlives = true,
                                         .done = on_written,
                                         .userdata = w };

        int r;

        w->text = text;
        w->writing = w->last;
        r = child_start(w->event, &work, &w->child);
        if (r < 0)
                free(TAKE_PTR(w->text));
        return r;
}

int file_writer_put(struct file_writer *w, char *text, uint64_t *ret_number) {
        int r = 0;

        w->last++;
        if (!w->child)
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
                                   .userdata = userdata };
        if (!w->path)
                return -ENOMEM;
        *ret = TAKE_PTR(w);
        return 0;
}

struct file_writer *file_writer_free(struct file_writer *w) {
        if (!w)
                return NULL;
        w->child = child_free(w->child);
        w->event = sd_event_unref(w->event);
        free(w->text);
        free(w->waiting);
        free(w->path);
        free(w);
        return NULL;
}
