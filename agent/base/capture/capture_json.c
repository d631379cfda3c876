/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_read.h"
#include "utf8.h"

struct reading {
        struct host_capture *c;
        struct stack_table *t;
        char *why;
        uint32_t frames[STACK_FRAMES_MAX]; /* of one stack, innermost first; then turned round */
        size_t n_frames;
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

static int read_frame(struct reading *r, const json_t *v, uint32_t *ret) {
        const char *kind = json_string_value(json_object_get(v, "kind"));
        struct stack_frame f = { 0 };
        int k = string(r, v, "function", &f.function);

        if (kind && streq(kind, "native"))
                f.kind = FRAME_NATIVE;
        else if (kind && streq(kind, "kernel"))
                f.kind = FRAME_KERNEL;
        else if (kind && !streq(kind, "python"))
                return wrong(r, -EPROTO, "\"kind\" is none of python, native, kernel");
        if (k == 0 && f.kind != FRAME_KERNEL)
                k = string(r, v, f.kind == FRAME_NATIVE ? "module" : "file", &f.file);
        if (k == 0 && f.kind == FRAME_PYTHON)
                k = number32(r, v, "line", &f.line);
        if (k < 0)
                return k;
        k = stack_table_frame(r->t, &f, ret);
        return k < 0 ? wrong(r, k, "frames: %s", strerror(-k)) : 0;
}

/* Beyond STACK_FRAMES_MAX the outermost are left out. */
static void add_frame(struct reading *r, uint32_t frame) {
        if (r->n_frames < STACK_FRAMES_MAX)
                r->frames[r->n_frames++] = frame;
        else
                r->c->cut = true;
}

/* n frames of the list, from *at on. */
static int read_frames(struct reading *r, const json_t *list, size_t *at, size_t n) {
        size_t end = *at + MIN(n, json_array_size(list) - MIN(*at, json_array_size(list)));
        uint32_t frame;
        int k = 0;

        for (; *at < end && k == 0; (*at)++) {
                k = read_frame(r, json_array_get(list, *at), &frame);
                if (k == 0)
                        add_frame(r, frame);
        }
        return k;
}

static int keep_frame(struct reading *r, enum frame_kind kind, const char *file, const char *function) {
        struct stack_frame f = { .kind = kind };
        char buf[STACK_TEXT_MAX + 1];
        uint32_t frame;
        int k;

        utf8_copy(buf, sizeof(buf), file);
        k = stack_table_string(r->t, buf, strlen(buf), &f.file);
        utf8_copy(buf, sizeof(buf), function);
        if (k == 0)
                k = stack_table_string(r->t, buf, strlen(buf), &f.function);
        if (k == 0)
                k = stack_table_frame(r->t, &f, &frame);
        if (k < 0)
                return wrong(r, k, "frames: %s", strerror(-k));
        add_frame(r, frame);
        return 0;
}

/* The kernel's own stack, a function a line: "pipe_read+0x366/0x410". */
static int read_kernel(struct reading *r, const char *text) {
        int k = 0;

        while (text && *text && k == 0) {
                size_t line = strcspn(text, "\n"), n = strcspn(text, "+\n");
                char function[128];

                (void) snprintf(function, sizeof(function), "%.*s", (int) MIN(n, sizeof(function) - 1), text);
                if (n > 0)
                        k = keep_frame(r, FRAME_KERNEL, "", function);
                text += line + (text[line] == '\n');
        }
        return k;
}

static bool is_interpreter(const char *module) {
        return startswith(module, "python3") || startswith(module, "libpython3");
}

static int read_native_frame(struct reading *r, const json_t *v) {
        const char *module = json_string_value(json_object_get(v, "module")),
                   *symbol = json_string_value(json_object_get(v, "symbol"));
        char place[24];

        if (symbol && *symbol)
                return keep_frame(r, FRAME_NATIVE, module ? module : "", symbol);
        (void) snprintf(place, sizeof(place), "0x%llx", (unsigned long long) json_integer_value(json_object_get(v, "address")));
        return keep_frame(r, FRAME_NATIVE, module ? module : "", place);
}

/*
 * Native frames with the Python frames in their places. Where those are not known (merged is false), the native frames
 * below the interpreter's innermost stand in front of the Python ones. The interpreter's own say nothing beside those.
 */
static int read_mixed(struct reading *r, const json_t *native, const json_t *python) {
        const json_t *list = NULL;
        bool merged = json_is_true(json_object_get(native, "merged")), any = json_array_size(python) > 0;
        size_t at = 0;
        int k = items(r, native, "frames", &list);

        if (k == 0)
                k = read_kernel(r, json_string_value(json_object_get(native, "kernel")));
        for (size_t i = 0; i < json_array_size(list) && k == 0; i++) {
                const json_t *v = json_array_get(list, i);
                const char *module = json_string_value(json_object_get(v, "module"));
                json_int_t n = json_integer_value(json_object_get(v, "python"));

                if (n > 0)
                        k = read_frames(r, python, &at, (size_t) n);
                else if (!any || !is_interpreter(module ? module : ""))
                        k = read_native_frame(r, v);
                else if (!merged)
                        break;
        }
        return k < 0 ? k : read_frames(r, python, &at, SIZE_MAX);
}

/* Innermost first in JSON, outermost first in the table. */
static int read_stack(struct reading *r, const json_t *thread, uint32_t *ret) {
        const json_t *python = NULL, *native = json_object_get(thread, "native");
        size_t at = 0;
        int k = items(r, thread, "frames", &python);

        r->n_frames = 0;
        if (k == 0 && native)
                k = read_mixed(r, native, python);
        else if (k == 0)
                k = read_frames(r, python, &at, SIZE_MAX);
        if (k < 0)
                return k;
        for (size_t i = 0; i < r->n_frames / 2; i++) {
                uint32_t frame = r->frames[i];

                r->frames[i] = r->frames[r->n_frames - 1 - i];
                r->frames[r->n_frames - 1 - i] = frame;
        }
        k = stack_table_stack(r->t, r->frames, r->n_frames, ret);
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
                k = string(r, v, json_object_get(v, "call") ? "call" : "syscall", &t->syscall);
        if (k == 0)
                k = number32(r, v, "tid", &t->tid);
        t->state = letter(v);
        t->gil = json_is_true(json_object_get(v, "gil"));
        t->changed = json_is_true(json_object_get(v, "changed"));
        return k;
}

static int read_process(struct reading *r, const json_t *v) {
        struct captured_process *p;
        const json_t *threads = NULL, *others = NULL;
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
        if (k == 0)
                k = items(r, v, "native_threads", &others);
        if (k < 0)
                return k;
        p->state = letter(v);
        for (size_t i = 0; i < json_array_size(threads) && k == 0; i++)
                k = read_thread(r, json_array_get(threads, i));
        for (size_t i = 0; i < json_array_size(others) && k == 0; i++)
                k = read_thread(r, json_array_get(others, i));
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
