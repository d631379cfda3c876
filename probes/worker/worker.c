/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "worker.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>

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

static const char *keep_name(struct wire_names *n, const char *text) {
        for (size_t i = 0; i < n->n; i++)
                if (streq(n->names[i], text))
                        return n->names[i];
        if (n->n == WIRE_NAMES_MAX)
                return NULL;
        n->names[n->n] = strdup(text);
        return n->names[n->n] ? n->names[n->n++] : NULL;
}

static int take_finding(const json_t *o, struct sink *s) {
        struct finding f;
        int r = finding_from_json(o, &f);

        if (r == 0)
                s->finding(s, &f);
        return r;
}

static int take_sample(struct wire_names *n, json_t *o, struct sink *s) {
        const char *name, *unit, *description;
        json_t *value, *attributes, *pair;
        struct sample m = { 0 };
        size_t i;
        int counter;

        if (json_unpack(o, "{s:s, s:s, s:s, s:b, s:o, s:o}", "name", &name, "unit", &unit, "description",
                        &description, "counter", &counter, "value", &value, "attributes", &attributes) < 0 ||
            !json_is_number(value))
                return -EBADMSG;
        m.name = keep_name(n, name);
        m.unit = unit[0] ? keep_name(n, unit) : NULL;
        m.description = keep_name(n, description);
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
                m.keys[i] = keep_name(n, key);
                if (!m.keys[i])
                        return -E2BIG;
        }
        if (!m.name || (unit[0] && !m.unit) || !m.description)
                return -E2BIG;
        s->sample(s, &m);
        return 0;
}

/* One line. 1: it is the last one, and *ret the probe's result. */
static int take_line(struct wire_names *n, const char *line, size_t len, struct sink *s, int *ret) {
        json_t *o = json_loadb(line, len, 0, NULL), *part;
        int r = -EBADMSG;

        if ((part = json_object_get(o, "finding")))
                r = take_finding(part, s);
        else if ((part = json_object_get(o, "sample")))
                r = take_sample(n, part, s);
        else if (json_is_integer(part = json_object_get(o, "done"))) {
                *ret = (int) json_integer_value(part);
                r = 1;
        }
        json_decref(o);
        return r;
}

int wire_take(struct wire_names *n, const char *text, size_t len, struct sink *s) {
        const char *end;
        int result = 0, r = 0;

        for (; r == 0 && (end = memchr(text, '\n', len)); text = end + 1) {
                r = take_line(n, text, (size_t) (end - text), s, &result);
                len -= (size_t) (end + 1 - text);
        }
        return r == 0 ? -EPIPE : r < 0 ? r : MIN(result, 0);
}

void wire_clear(struct wire_names *n) {
        for (size_t i = 0; i < n->n; i++)
                free(n->names[i]);
        *n = (struct wire_names){ .n = 0 };
}

/* --- The process --------------------------------------------------------------------------------------- */

struct served {
        const struct worker_program *program;
        const struct host *host;
        const char *probe;
};

/* In the child, which has no descriptor of its parent: what a program of ours would do. */
static int serve(int fd, const void *data) {
        const struct served *s = data;
        _cleanup_host_ struct host h = HOST_NULL;
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        sigset_t none;

        (void) sigemptyset(&none);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 ||
            sigprocmask(SIG_SETMASK, &none, NULL) < 0 || clearenv() != 0)
                return -errno;
        if (host_open(s->host->root, &h) < 0)
                return -EIO;
        return s->program->serve(&h, s->probe) != EXIT_SUCCESS || fflush(stdout) == EOF ? -EIO : 0;
}

int worker_start(sd_event *e, const struct worker_program *program, const struct host *h,
                 const struct probe *p, worker_done done, void *userdata, struct child **ret) {
        const char *argv[] = { program->path, "--probe", p->name, h->root ? "--root" : NULL, h->root, NULL };
        char *environment[] = { NULL };
        const struct spawn_options o = {
                .path = program->path, .argv = argv, .environment = environment, .error = -1
        };
        const struct served served = { program, h, p->name };
        const struct child_work work = { .name = "probe-worker",
                                         .timeout = p->timeout,
                                         .run = serve,
                                         .data = &served,
                                         .program = program->serve ? NULL : &o,
                                         .max = WORKER_ANSWER_MAX,
                                         .stuck_too = true,
                                         .done = done,
                                         .userdata = userdata };

        (void) fflush(stdout); /* else a fork would write it once more; who cannot write will say so */
        return child_start(e, &work, ret);
}

int worker_take(struct wire_names *n, int result, const char *answer, size_t len, struct sink *s) {
        int r = wire_take(n, answer, len, s); /* what it said before it failed, too */

        return result == 0 || result == -EIO ? r : result; /* -EIO: it ended early */
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
