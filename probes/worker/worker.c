/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "worker.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "report.h"
#include "processes.h"

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

/* Numbers only: no probe makes a histogram. */
static void put_sample(struct sink *s, const struct sample *m) {
        json_t *attributes = json_array(), *value = m->is_int ? json_integer(m->i) : json_real(m->d);

        for (size_t i = 0; i < ELEMENTSOF(m->keys) && m->keys[i]; i++)
                (void) json_array_append_new(
                        attributes, json_pack("[s, s]", m->keys[i], m->values[i] ? m->values[i] : ""));
        put_line((struct writer *) s,
            json_pack("{s:{s:s, s:s, s:s, s:b, s:o, s:o}}", "sample", "name", m->name, "unit",
                      m->unit ? m->unit : "", "description", m->description, "counter",
                      m->kind == SAMPLE_COUNTER, "value", value,
                      "attributes", attributes));
}

int wire_serve(const struct probe *p, const struct host *h, const struct probe_context *c, FILE *out) {
        struct writer w = { .sink = { put_finding, put_sample }, .out = out };
        int r = p->run(h, c, &w.sink);

        put_line(&w, json_pack("{s:i}", "done", r < 0 ? r : 0));
        return fflush(out) == EOF || w.error < 0 ? -EIO : 0;
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static const char *keep(struct wire_reader *r, const char *text) {
        for (size_t i = 0; i < r->n_names; i++)
                if (streq(r->names[i], text))
                        return r->names[i];
        if (r->n_names == WIRE_NAMES_MAX)
                return NULL;
        r->names[r->n_names] = strdup(text);
        return r->names[r->n_names] ? r->names[r->n_names++] : NULL;
}

static int take_finding(const json_t *o, struct sink *s) {
        struct finding f;
        int r = finding_from_json(o, &f);

        if (r == 0)
                s->finding(s, &f);
        return r;
}

static int take_sample(struct wire_reader *r, json_t *o, struct sink *s) {
        const char *name, *unit, *description;
        json_t *value, *attributes, *pair;
        struct sample m = { 0 };
        size_t i;
        int counter;

        if (json_unpack(o, "{s:s, s:s, s:s, s:b, s:o, s:o}", "name", &name, "unit", &unit, "description",
                        &description, "counter", &counter, "value", &value, "attributes", &attributes) < 0 ||
            !json_is_number(value))
                return -EBADMSG;
        m.name = keep(r, name);
        m.unit = unit[0] ? keep(r, unit) : NULL;
        m.description = keep(r, description);
        m.kind = counter ? SAMPLE_COUNTER : SAMPLE_GAUGE;
        m.is_int = json_is_integer(value);
        if (m.is_int)
                m.i = json_integer_value(value);
        else
                m.d = json_real_value(value);
        json_array_foreach (attributes, i, pair) {
                const char *key;

                if (i >= ELEMENTSOF(m.keys) || json_unpack(pair, "[s, s]", &key, &m.values[i]) < 0)
                        return -EBADMSG;
                m.keys[i] = keep(r, key);
                if (!m.keys[i])
                        return -E2BIG;
        }
        if (!m.name || (unit[0] && !m.unit) || !m.description)
                return -E2BIG;
        s->sample(s, &m);
        return 0;
}

static int take_line(struct wire_reader *r, const char *line, size_t len, struct sink *s) {
        json_t *o = json_loadb(line, len, 0, NULL), *part;
        int e = -EBADMSG;

        if ((part = json_object_get(o, "finding")))
                e = take_finding(part, s);
        else if ((part = json_object_get(o, "sample")))
                e = take_sample(r, part, s);
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

void wire_restart(struct wire_reader *r) {
        drop_part(r);
        r->done = false;
        r->result = 0;
}

void wire_clear(struct wire_reader *r) {
        drop_part(r);
        for (size_t i = 0; i < r->n_names; i++)
                free(r->names[i]);
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
        wire_restart(&ret->reader);
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
