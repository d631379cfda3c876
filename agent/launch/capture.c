/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"
#include "pack.h"
#include "spawn_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#define PROBLEM_MAX 512
#define EXIT_SOME 3 /* tpu-stack: some process could not be read */

struct capture {
        sd_event_source *out_io, *err_io, *child, *timer;
        int out_fd, err_fd;
        pid_t pid;
        const struct capture_handlers *handlers;
        void *userdata;
        struct capture_wish wish;
        struct pack *pack; /* with frames */
        int pack_error;
        char *text;
        size_t len, size;
        char problem[PROBLEM_MAX];
        size_t problem_len;
        bool cut, exited, reported;
        siginfo_t status;
};

/* tpu-stack(1): a process begins with "process PID", a thread with "thread TID", at the start of a line. */
static void count(const char *text, uint32_t *ret_processes, uint32_t *ret_threads) {
        *ret_processes = *ret_threads = 0;
        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (startswith(line, "process "))
                        (*ret_processes)++;
                else if (startswith(line, "thread "))
                        (*ret_threads)++;
        }
}

/* What the tool's exit code says once all its text is here. */
static int judge(const struct capture *c, bool *ret_partial) {
        bool exited = c->status.si_code == CLD_EXITED;

        if (exited && c->status.si_status == EXIT_SOME && c->len == 0)
                return -ESRCH; /* nothing could be read, or there is nothing of Python */
        if (exited && c->status.si_status == EXIT_SOME)
                *ret_partial = true;
        else if (!c->cut && (!exited || c->status.si_status != 0))
                return -EIO;
        return 0;
}

static void report(struct capture *c, int error) {
        struct capture_result r = { .error = error,
                                    .wish = c->wish,
                                    .text = c->text ? c->text : "",
                                    .partial = c->cut,
                                    .problem = c->problem };

        if (c->reported)
                return;
        c->reported = true;
        if (!c->pack)
                count(r.text, &r.processes, &r.threads);
        if (error == 0)
                r.error = judge(c, &r.partial);
        if (r.error == 0 && c->pack)
                r.error = c->pack_error < 0 ? c->pack_error : pack_end(c->pack, &r.packed, &r.packed_len);
        c->handlers->done(c, &r, c->userdata);
}

/* All is known once the child is gone and both pipes are at their end. */
static void settle(struct capture *c) {
        if (!c->exited || c->out_fd >= 0 || c->err_fd >= 0)
                return;
        report(c, 0);
        c->handlers->gone(c, c->userdata);
}

static void close_pipe(sd_event_source **io, int *fd) {
        *io = sd_event_source_disable_unref(*io);
        *fd = close_fd(*fd);
}

/* What cannot be packed is of no use cut: the tool ends, and its caller is told. */
static int append_packed(struct capture *c, const char *data, size_t n) {
        c->pack_error = pack_add(c->pack, data, n);
        c->cut = c->pack_error < 0;
        c->len += n;
        return c->pack_error;
}

static int append(struct capture *c, const char *data, size_t n) {
        if (c->pack)
                return append_packed(c, data, n);
        if (c->len + n > CAPTURE_TEXT_MAX) {
                n = CAPTURE_TEXT_MAX - c->len;
                c->cut = true;
        }
        if (c->len + n + 1 > c->size) {
                size_t size = MAX(c->size * 2, c->len + n + 1);
                char *text = realloc(c->text, size);

                if (!text)
                        return -ENOMEM;
                c->text = text;
                c->size = size;
        }
        memcpy(c->text + c->len, data, n);
        c->len += n;
        c->text[c->len] = '\0';
        return 0;
}

static int on_out(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct capture *c = userdata;
        char buf[16384];
        ssize_t n;

        (void) s;
        (void) revents;
        n = read(fd, buf, sizeof(buf));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n > 0 && append(c, buf, (size_t) n) == 0 && !c->cut)
                return 0;
        close_pipe(&c->out_io, &c->out_fd); /* a tool that writes on gets SIGPIPE */
        settle(c);
        return 0;
}

static int on_err(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct capture *c = userdata;
        char buf[1024];
        ssize_t n;

        (void) s;
        (void) revents;
        n = read(fd, buf, sizeof(buf));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n > 0) {
                size_t k = MIN((size_t) n, sizeof(c->problem) - 1 - c->problem_len);

                memcpy(c->problem + c->problem_len, buf, k);
                c->problem_len += k;
                c->problem[c->problem_len] = '\0';
                return 0;
        }
        while (c->problem_len > 0 && c->problem[c->problem_len - 1] == '\n')
                c->problem[--c->problem_len] = '\0';
        close_pipe(&c->err_io, &c->err_fd);
        settle(c);
        return 0;
}

static int on_child(sd_event_source *s, const siginfo_t *si, void *userdata) {
        struct capture *c = userdata;

        (void) s;
        c->status = *si;
        c->exited = true;
        c->timer = sd_event_source_disable_unref(c->timer);
        settle(c);
        return 0;
}

static int on_timeout(sd_event_source *s, uint64_t usec, void *userdata) {
        struct capture *c = userdata;

        (void) s;
        (void) usec;
        if (!c->exited)
                /* our own child, not yet waited for: the pid cannot be another's */
                (void) kill(c->pid, SIGKILL);
        close_pipe(&c->out_io, &c->out_fd);
        close_pipe(&c->err_io, &c->err_fd);
        report(c, -ETIMEDOUT);
        settle(c);
        return 0;
}

#define WORD_MAX 16
#define OPTIONS_MAX 2

static void word(char ***at, char **words, const char *text) {
        (void) snprintf(*words, WORD_MAX, "%s", text);
        *(*at)++ = *words;
        *words += WORD_MAX;
}

/* argv has room for n + OPTIONS_MAX + 2, words for n + OPTIONS_MAX words. */
static void fill(char **argv, char *words, char *tool, const struct capture_wish *wish, const pid_t *pids,
                 size_t n) {
        char number[WORD_MAX];

        *argv++ = tool;
        if (wish->frames)
                word(&argv, &words, "--json");
        if (wish->native)
                word(&argv, &words, "--native");
        for (size_t i = 0; i < n; i++) {
                (void) snprintf(number, sizeof(number), "%d", (int) pids[i]);
                word(&argv, &words, number);
        }
}

static int spawn(const char *tool, const pid_t *pids, size_t n, const struct capture_wish *wish, int out,
                 int err, pid_t *ret) {
        char *const environment[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" },
                                      (char[]){ "LANG=C.UTF-8" }, NULL };
        _cleanup_free_ char **argv = calloc(n + OPTIONS_MAX + 2, sizeof(*argv));
        _cleanup_free_ char *words = calloc(n + OPTIONS_MAX, WORD_MAX), *path = strdup(tool);
        if (!argv || !words || !path)
                return -ENOMEM;
        fill(argv, words, path, wish, pids, n);
        return spawn_program(&(struct spawn_options){ .path = tool,
                                                      .argv = (const char *const *) argv,
                                                      .environment = environment,
                                                      .out = out,
                                                      .error = err,
                                                      .own_group = true },
                             ret);
}

static int watch(struct capture *c, sd_event *e) {
        int r;

        r = sd_event_add_child(e, &c->child, c->pid, WEXITED, on_child, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->child, "capture-child");
        r = sd_event_add_io(e, &c->out_io, c->out_fd, EPOLLIN, on_out, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->out_io, "capture-text");
        r = sd_event_add_io(e, &c->err_io, c->err_fd, EPOLLIN, on_err, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->err_io, "capture-problem");
        r = sd_event_add_time_relative(e, &c->timer, CLOCK_MONOTONIC,
                                       c->wish.native ? CAPTURE_NATIVE_TIMEOUT : CAPTURE_TIMEOUT,
                                       250 * USEC_PER_MSEC, on_timeout, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->timer, "capture-timeout");
        return 0;
}

int capture_new(sd_event *e, const char *tool, const pid_t *pids, size_t n, const struct capture_wish *wish,
                const struct capture_handlers *h, void *userdata, struct capture **ret) {
        int out[2] = { -1, -1 }, err[2] = { -1, -1 };
        struct capture *c;
        int r;

        if (n == 0 || n > CAPTURE_PIDS_MAX)
                return n == 0 ? -ESRCH : -E2BIG;
        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        c->wish = *wish;
        r = pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 ? -errno : 0;
        if (r == 0 && wish->frames)
                r = pack_new(CAPTURE_JSON_MAX, CAPTURE_PACKED_MAX, &c->pack);
        if (r == 0)
                r = spawn(tool, pids, n, wish, out[1], err[1], &c->pid);
        (void) close_fd(out[1]);
        (void) close_fd(err[1]);
        c->out_fd = out[0];
        c->err_fd = err[0];
        c->handlers = h;
        c->userdata = userdata;
        if (r == 0)
                r = watch(c, e);
        if (r < 0) {
                (void) capture_free(c);
                return r;
        }
        *ret = c;
        return 0;
}

struct capture *capture_free(struct capture *c) {
        if (!c)
                return NULL;
        c->child = sd_event_source_disable_unref(c->child);
        c->timer = sd_event_source_disable_unref(c->timer);
        close_pipe(&c->out_io, &c->out_fd);
        close_pipe(&c->err_io, &c->err_fd);
        if (c->pid > 0 && !c->exited) {
                (void) kill(c->pid, SIGKILL);
                (void) waitpid(c->pid, NULL, WNOHANG); /* not gone yet: PID 1 waits for it after us */
        }
        c->pack = pack_free(c->pack);
        free(c->text);
        free(c);
        return NULL;
}
