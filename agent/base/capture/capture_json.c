/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_read.h"
#include "interpreter_frames.h"
#include "utf8.h"

struct reading {
        struct host_capture *c;
        struct stack_table *t;
        char *why;
        uint32_t frames[STACK_FRAMES_MAX]; /* of one stack, innermost first; then turned round */
};

_printf_(3, 4) static int wrong(struct reading *r, int error, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(r->why, CAPTURE_WHY_MAX, fmt, ap);
        va_end(ap);
        return error;
}

/* A text that may be missing (then ""); one that is no text is an error. */
static int string(struct reading *r, const json_t *o, const char *key, uint32_t *ret) {
        const json_t *v = json_object_get(o, key);
        char buf[STACK_TEXT_MAX + 1];
        int k;

        if (v && !json_is_string(v) && !json_is_null(v))
                return wrong(r, -EPROTO, "\"%s\" is no text", key);
        utf8_copy(buf, sizeof(buf), json_string_value(v));
        k = stack_table_string(r->t, buf, strlen(buf), ret);
        return k < 0 ? wrong(r, k, "\"%s\": %s", key, strerror(-k)) : 0;
}

/* A number of 0 to max that may be missing: *ret stays as it is then. */
static int number(struct reading *r, const json_t *o, const char *key, uint64_t max, uint64_t *ret) {
        const json_t *v = json_object_get(o, key);

        if (!v || json_is_null(v))
                return 0;
        if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t) json_integer_value(v) > max)
                return wrong(r, -EPROTO, "\"%s\" is no number of 0 to %" PRIu64, key, max);
        *ret = (uint64_t) json_integer_value(v);
        return 0;
}

static int number32(struct reading *r, const json_t *o, const char *key, uint32_t *ret) {
        uint64_t v = *ret;
        int k = number(r, o, key, UINT32_MAX - 1, &v);

        if (k == 0 && v != *ret)
                *ret = (uint32_t) v;
        return k;
}

static int items(struct reading *r, const json_t *o, const char *key, const json_t **ret) {
        const json_t *v = json_object_get(o, key);

        if (v && !json_is_array(v))
                return wrong(r, -EPROTO, "\"%s\" is no list", key);
        *ret = v; /* NULL has no items for jansson */
        return 0;
}

static char letter(const json_t *o) {
        const char *s = json_string_value(json_object_get(o, "state"));

        return s && s[0] > ' ' && s[0] < 0x7F ? s[0] : 0;
}

/* --- Frames -------------------------------------------------------------------------------------------- */

/* The function; one without a name is told by its address in the file. */
static int read_function(struct reading *r, const json_t *v, uint32_t *ret) {
        const char *name = json_string_value(json_object_get(v, "function"));
        const json_t *address = json_object_get(v, "address");
        char text[32];
        int k;

        if ((name && name[0]) || !json_is_integer(address))
                return string(r, v, "function", ret);
        k = snprintf(text, sizeof(text), "0x%llx", (unsigned long long) json_integer_value(address));
        k = stack_table_string(r->t, text, (size_t) k, ret);
        return k < 0 ? wrong(r, k, "\"address\": %s", strerror(-k)) : 0;
}

/* The file's name without its directories: those may differ from host to host. */
static int read_module(struct reading *r, const json_t *v, uint32_t *ret) {
        const char *path = json_string_value(json_object_get(v, "module")), *slash;
        char buf[STACK_TEXT_MAX + 1];
        int k;

        if (!path)
                return string(r, v, "module", ret);
        slash = strrchr(path, '/');
        utf8_copy(buf, sizeof(buf), slash ? slash + 1 : path);
        k = stack_table_string(r->t, buf, strlen(buf), ret);
        return k < 0 ? wrong(r, k, "\"module\": %s", strerror(-k)) : 0;
}

static int read_frame(struct reading *r, const json_t *v, uint32_t *ret) {
        const char *kind = json_string_value(json_object_get(v, "kind"));
        struct stack_frame f = { 0 };
        int k = read_function(r, v, &f.function);

        if (kind && streq(kind, "native"))
                f.kind = FRAME_NATIVE;
        else if (kind && streq(kind, "kernel"))
                f.kind = FRAME_KERNEL;
        else if (kind && !streq(kind, "python"))
                return wrong(r, -EPROTO, "\"kind\" is none of python, native, kernel");
        if (k == 0 && f.kind == FRAME_NATIVE)
                k = read_module(r, v, &f.file);
        if (k == 0 && f.kind == FRAME_PYTHON)
                k = string(r, v, "file", &f.file);
        if (k == 0 && f.kind == FRAME_PYTHON)
                k = number32(r, v, "line", &f.line);
        if (k < 0)
                return k;
        k = stack_table_frame(r->t, &f, ret);
        return k < 0 ? wrong(r, k, "frames: %s", strerror(-k)) : 0;
}

/* Innermost first in JSON, outermost first in the table; the outermost are left out where there are too
 * many. */
static int read_stack(struct reading *r, const json_t *thread, uint32_t *ret) {
        const json_t *list = NULL;
        size_t n;
        int k = items(r, thread, "frames", &list);

        n = MIN(json_array_size(list), (size_t) STACK_FRAMES_MAX);
        r->c->cut |= json_array_size(list) > n;
        for (size_t i = 0; i < n && k == 0; i++)
                k = read_frame(r, json_array_get(list, i), &r->frames[i]);
        if (k < 0)
                return k;
        n = interpreter_frames_drop(r->t, r->frames, n);
        for (size_t i = 0; i < n / 2; i++) {
                uint32_t frame = r->frames[i];

                r->frames[i] = r->frames[n - 1 - i];
                r->frames[n - 1 - i] = frame;
        }
        k = stack_table_stack(r->t, r->frames, n, ret);
        return k < 0 ? wrong(r, k, "stacks: %s", strerror(-k)) : 0;
}

static int read_thread(struct reading *r, const json_t *v) {
        struct captured_thread *t;
        int k = host_capture_add_thread(r->c, &t);

        if (k < 0)
                return wrong(r, k, "more than %u threads", CAPTURE_THREADS_MAX);
        if (!json_object_get(v, "error") || json_object_get(v, "native"))
                k = read_stack(r, v, &t->stack);
        if (k == 0)
                k = string(r, v, "name", &t->name);
        if (k == 0)
                k = string(r, v, "wait", &t->wait);
        if (k == 0)
                k = string(r, v, "syscall", &t->syscall);
        if (k == 0)
                k = number32(r, v, "tid", &t->tid);
        t->state = letter(v);
        t->gil = json_is_true(json_object_get(v, "gil"));
        t->changed = json_is_true(json_object_get(v, "changed"));
        return k;
}

static int read_process(struct reading *r, const json_t *v) {
        struct captured_process *p;
        const json_t *threads = NULL;
        size_t at;
        int k = host_capture_add_process(r->c, &p);

        if (k < 0)
                return wrong(r, k, "more than %u processes", CAPTURE_PROCESSES_MAX);
        k = string(r, v, "command", &p->command);
        if (k == 0)
                k = string(r, v, "error", &p->error);
        if (k == 0)
                k = number32(r, v, "pid", &p->pid);
        if (k == 0)
                k = number32(r, v, "rank", &p->rank);
        if (k == 0)
                k = items(r, v, "threads", &threads);
        if (k < 0)
                return k;
        p->state = letter(v);
        for (size_t i = 0; i < json_array_size(threads) && k == 0; i++)
                k = read_thread(r, json_array_get(threads, i));
        at = r->c->processes[r->c->n_processes - 1].first_thread;
        if (k == 0 && !p->state && at < r->c->n_threads)
                p->state = r->c->threads[at].state;
        return k;
}

/* --- The host ------------------------------------------------------------------------------------------ */

static int read_core(struct reading *r, const json_t *v) {
        struct captured_core *core;
        int k = host_capture_add_core(r->c, &core);

        if (k < 0)
                return wrong(r, k, "more than %u cores", CAPTURE_CORES_MAX);
        k = number32(r, v, "core", &core->core);
        if (k == 0)
                k = number32(r, v, "chip", &core->chip);
        if (k == 0)
                k = number32(r, v, "queued", &core->queued);
        if (k == 0)
                k = string(r, v, "fingerprint", &core->fingerprint);
        if (k == 0)
                k = string(r, v, "location", &core->location);
        if (k == 0)
                k = string(r, v, "error", &core->error);
        core->pc = json_integer_value(json_object_get(v, "pc"));
        core->launch = json_integer_value(json_object_get(v, "launch"));
        core->run = json_integer_value(json_object_get(v, "run"));
        return k;
}

static int read_finding(struct reading *r, const json_t *v) {
        const char *verdict = json_string_value(json_object_get(v, "verdict"));
        struct captured_finding *f;
        int k;

        if (verdict && (streq(verdict, "OK") || streq(verdict, "UNKNOWN")))
                return 0;
        k = host_capture_add_finding(r->c, &f);
        if (k < 0)
                return wrong(r, k, "more than %u findings", CAPTURE_FINDINGS_MAX);
        f->fail = verdict && streq(verdict, "FAIL");
        k = string(r, v, "check", &f->check);
        if (k == 0)
                k = string(r, v, "subject", &f->subject);
        return k < 0 ? k : string(r, v, "found", &f->found);
}

static int each(struct reading *r, const json_t *o, const char *key,
                int (*read)(struct reading *, const json_t *)) {
        const json_t *list = NULL;
        int k = items(r, o, key, &list);

        for (size_t i = 0; i < json_array_size(list) && k == 0; i++) {
                const json_t *v = json_array_get(list, i);

                k = json_is_object(v) ? read(r, v)
                                      : wrong(r, -EPROTO, "\"%s\" holds what is no object", key);
        }
        return k;
}

static int read_own(struct reading *r, const json_t *o) {
        const json_t *list = NULL;
        int k = items(r, o, "addresses", &list);

        for (size_t i = 0; i < MIN(json_array_size(list), (size_t) CAPTURE_OWN_MAX) && k == 0; i++) {
                const char *text = json_string_value(json_array_get(list, i));
                char buf[CAPTURE_NAME_MAX];

                utf8_copy(buf, sizeof(buf), text);
                k = stack_table_string(r->t, buf, strlen(buf), &r->c->own[r->c->n_own]);
                r->c->n_own += k == 0;
        }
        return k;
}

static int read_head(struct reading *r, const json_t *o) {
        struct host_capture *c = r->c;
        uint64_t round = c->round;
        int k = number(r, o, "round", 1, &round);

        utf8_copy(c->slice, sizeof(c->slice), json_string_value(json_object_get(o, "slice")));
        utf8_copy(c->host, sizeof(c->host), json_string_value(json_object_get(o, "host")));
        utf8_copy(c->address, sizeof(c->address), json_string_value(json_object_get(o, "address")));
        utf8_copy(c->episode, sizeof(c->episode), json_string_value(json_object_get(o, "episode")));
        c->round = (uint32_t) round;
        c->cut |= json_is_true(json_object_get(o, "cut"));
        if (k == 0)
                k = number32(r, o, "worker", &c->worker);
        if (k == 0)
                k = number(r, o, "wanted", INT64_MAX, &c->wanted);
        if (k == 0)
                k = number(r, o, "taken", INT64_MAX, &c->taken);
        if (k == 0)
                k = number(r, o, "clock_error", INT64_MAX, &c->clock_error);
        if (k == 0)
                k = number(r, o, "step", INT64_MAX, &c->step);
        if (k == 0)
                k = number(r, o, "ended", INT64_MAX, &c->ended);
        if (k == 0)
                k = number32(r, o, "reached", &c->reached);
        if (k == 0)
                k = read_own(r, o);
        return k < 0 ? k : string(r, o, "ended_how", &c->ended_how);
}

int capture_json_read(const json_t *object, struct host_capture *c, struct stack_table *t,
                      char why[static CAPTURE_WHY_MAX]) {
        struct reading r = { .c = c, .t = t, .why = why };
        uint64_t version = 1;
        int k;

        if (!json_is_object(object))
                return wrong(&r, -EPROTO, "no capture: no object");
        if (!json_object_get(object, "processes") && !json_object_get(object, "ended"))
                return wrong(&r, -EPROTO, "no capture: neither \"processes\" nor \"ended\"");
        k = number(&r, object, "version", 1, &version);
        if (k == 0)
                k = read_head(&r, object);
        if (k == 0)
                k = each(&r, object, "processes", read_process);
        if (k == 0)
                k = each(&r, object, "cores", read_core);
        return k < 0 ? k : each(&r, object, "findings", read_finding);
}
