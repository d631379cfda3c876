/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "worker.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "json_text.h"
#include "processes.h"
#include "report.h"

/* --- Writing ------------------------------------------------------------------------------------------- */

struct writer {
        struct sink sink;
        FILE *out;
        int error;
};

static void put_line(struct writer *w, json_t *line) {
        if (!line || json_dumpf(line, w->out, JSON_COMPACT) < 0 || fputc('\n', w->out) == EOF)
                w->error = -EIO;
        json_decref(line);
}

static void put_finding(struct sink *s, const struct finding *f) {
        put_line((struct writer *) s, json_pack("{s:o}", "finding", finding_to_json(f)));
}

/* Numbers only: no probe makes a histogram. The rest of a metric is in metrics.def. */
static void put_sample(struct sink *s, const struct sample *m) {
        json_t *values = json_array();

        for (size_t i = 0; i < ELEMENTSOF(m->keys) && m->keys[i]; i++)
                values = json_list_add(values, json_string(m->values[i] ? m->values[i] : ""));
        put_line((struct writer *) s,
                 json_pack("{s:{s:s, s:o, s:o}}", "sample", "name", m->name, "value",
                           m->is_int ? json_integer(m->i) : json_real(m->d), "values", values));
}

int wire_serve(const struct probe *p, const struct host *h, const struct probe_context *c, FILE *out) {
        struct writer w = { .sink = { put_finding, put_sample }, .out = out };
        int r = p->run(h, c, &w.sink);

        put_line(&w, json_pack("{s:i}", "done", r < 0 ? r : 0));
        return fflush(out) == EOF || w.error < 0 ? -EIO : 0;
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static int take_finding(const json_t *o, struct sink *s) {
        struct finding f;
        int r = finding_from_json(o, &f);

        if (r == 0)
                s->finding(s, &f);
        return r;
}

static enum metric_id find_metric(const char *name) {
        enum metric_id id = 0;

        while (id < _METRIC_MAX && !streq(metric_def(id)->name, name))
                id++;
        return id;
}

static int take_sample(const json_t *o, struct sink *s) {
        const json_t *value = json_object_get(o, "value"), *values = json_object_get(o, "values");
        const char *name = json_string_value(json_object_get(o, "name")), *v[3];
        enum metric_id id = name ? find_metric(name) : _METRIC_MAX;

        if (id == _METRIC_MAX || !json_is_number(value))
                return -EBADMSG;
        for (size_t i = 0; i < ELEMENTSOF(v); i++)
                v[i] = json_string_value(json_array_get(values, i));
        if (json_is_integer(value))
                put_int(s, id, json_integer_value(value), v[0], v[1], v[2]);
        else
                put_double(s, id, json_real_value(value), v[0], v[1], v[2]);
        return 0;
}

static int take_line(struct wire_reader *r, const char *line, size_t len, struct sink *s) {
        json_t *o = json_loadb(line, len, 0, NULL), *part;
        int e = -EBADMSG;

        if ((part = json_object_get(o, "finding")))
                e = take_finding(part, s);
        else if ((part = json_object_get(o, "sample")))
                e = take_sample(part, s);
        else if (json_is_integer(part = json_object_get(o, "done"))) {
                r->done = true;
                r->result = (int) json_integer_value(part);
                e = 0;
        }
        json_decref(o);
        return e;
}

static void drop_part(struct wire_reader *r) {
        free(TAKE_PTR(r->line));
        r->n = 0;
}

/* n fits. */
static int keep_part(struct wire_reader *r, const char *data, size_t n) {
        if (!r->line)
                r->line = malloc(WIRE_LINE_MAX);
        if (!r->line)
                return -ENOMEM;
        memcpy(r->line + r->n, data, n);
        r->n += n;
        return 0;
}

int wire_take(struct wire_reader *r, const char *data, size_t len, struct sink *s) {
        while (len > 0) {
                const char *end = memchr(data, '\n', len);
                size_t n = end ? (size_t) (end - data) : len;
                int e;

                if (n > WIRE_LINE_MAX - 1 - r->n)
                        return -E2BIG;
                if (!end)
                        return keep_part(r, data, n);
                if (r->n == 0)
                        e = take_line(r, data, n, s);
                else {
                        e = keep_part(r, data, n);
                        if (e == 0)
                                e = take_line(r, r->line, r->n, s);
                        drop_part(r);
                }
                if (e < 0)
                        return e;
                data += n + 1;
                len -= n + 1;
        }
        return 0;
}

void wire_clear(struct wire_reader *r) {
        drop_part(r);
        *r = (struct wire_reader){ 0 };
}

/* --- The process --------------------------------------------------------------------------------------- */

#define REAP_TIMEOUT (100 * USEC_PER_MSEC) /* between SIGKILL and its end; a stuck one does not end */

static int spawn(const struct worker_program *program, const struct host *h, const struct probe *p, int out,
                 pid_t *ret) {
        char *environment[] = { NULL };
        const char *argv[8];
        const struct spawn_options o = {
                .path = program->path, .argv = argv, .environment = environment, .out = out, .error = -1
        };
        size_t n = 0;

        argv[n++] = program->path;
        if (program->verb)
                argv[n++] = program->verb;
        if (h->root) {
                argv[n++] = "--root";
                argv[n++] = h->root;
        }
        argv[n++] = "--probe";
        argv[n++] = p->name;
        argv[n] = NULL;
        return spawn_program(&o, ret);
}

/* What spawn_program() does, without another program. */
static _Noreturn void serve(const struct worker_program *program, const struct host *h,
                            const struct probe *p, int out) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC), code = EXIT_FAILURE;
        sigset_t none;

        (void) sigemptyset(&none);
        if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
            sigprocmask(SIG_SETMASK, &none, NULL) == 0 && clearenv() == 0)
                code = program->serve(h, p->name);
        _exit(fflush(stdout) == EOF ? EXIT_FAILURE : code); /* not exit(3): its handlers are the caller's */
}

static int fork_one(const struct worker_program *program, const struct host *h, const struct probe *p,
                    int out, pid_t *ret) {
        pid_t pid;

        (void) fflush(stdout); /* else the child would write it once more; who cannot write will say so */
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                serve(program, h, p, out);
        *ret = pid;
        return 0;
}

int worker_start(const struct worker_program *program, const struct host *h, const struct probe *p,
                 struct worker *ret) {
        _cleanup_close_ int in = -1, out = -1;
        int fds[2], r;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        in = fds[0];
        out = fds[1];
        if (fcntl(in, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        r = program->serve ? fork_one(program, h, p, out, &pid) : spawn(program, h, p, out, &pid);
        if (r < 0)
                return r;
        ret->probe = p;
        ret->pid = pid;
        ret->fd = TAKE_FD(in);
        ret->started = host_now(h);
        wire_clear(&ret->reader);
        return 0;
}

int worker_take(struct worker *w, struct sink *s) {
        char buf[4096];

        for (;;) {
                ssize_t n = read(w->fd, buf, sizeof(buf));
                int r;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                if (n == 0)
                        return !w->reader.done ? -EPIPE : w->reader.result < 0 ? w->reader.result : 1;
                r = wire_take(&w->reader, buf, (size_t) n, s);
                if (r < 0)
                        return r;
        }
}

void worker_tell_failure(const struct probe *p, int error, bool stuck, struct sink *s) {
        char seconds[16];
        struct finding f;

        finding_init(&f, p->name, NULL);
        finding_set(f.found, "nothing");
        if (error == -ETIMEDOUT) {
                (void) snprintf(seconds, sizeof(seconds), "%u", (unsigned) (p->timeout / USEC_PER_SEC));
                check_say(&f, WORDS_PROBE_HANGS, seconds,
                          stuck ? "the process that looks cannot be killed and is left alone" : "");
        } else
                finding_set(f.reason, "nothing could be looked at: %s",
                            error == -EPIPE ? "the process that looks ended early" : strerror(-error));
        s->finding(s, &f);
}

/* 0, or -ETIMEDOUT when it does not end, which only a kernel wait can do to a killed process. */
static int reap(pid_t pid) {
        for (usec_t waited = 0; waited <= REAP_TIMEOUT; waited += USEC_PER_MSEC) {
                pid_t r = waitpid(pid, NULL, WNOHANG);

                if (r == pid || (r < 0 && errno != EINTR))
                        return 0;
                (void) usleep(USEC_PER_MSEC);
        }
        return -ETIMEDOUT;
}

int worker_finish(struct worker *w, struct sink *s) {
        usec_t deadline = clock_boot(&clock_system) + w->probe->timeout;
        int r = 0;

        while (r == 0) {
                struct pollfd p = { .fd = w->fd, .events = POLLIN };
                usec_t t = clock_boot(&clock_system);

                if (t >= deadline)
                        r = -ETIMEDOUT;
                else if (poll(&p, 1, (int) ((deadline - t + USEC_PER_MSEC - 1) / USEC_PER_MSEC)) > 0)
                        r = worker_take(w, s);
        }
        w->fd = close_fd(w->fd);
        if (r < 0)
                (void) kill(w->pid,
                            SIGKILL); /* our own child, not yet waited for: the pid is nobody else's */
        if (reap(w->pid) < 0 && r == -ETIMEDOUT)
                worker_tell_failure(w->probe, r, true, s);
        else if (r < 0)
                worker_tell_failure(w->probe, r, false, s);
        w->pid = 0;
        return r < 0 ? r : 0;
}
