/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_read.h"
#include "interpreter_frames.h"
#include "utf8.h"

#define LINE_BYTES (2 * STACK_TEXT_MAX + 64)

struct reading {
        struct host_capture *c;
        struct stack_table *t;
        char *why;
        size_t line;
        char text[LINE_BYTES];
        uint32_t frames[STACK_FRAMES_MAX]; /* of the thread that is read, innermost first */
        size_t n_frames;
        bool in_thread;
};

static int wrong(struct reading *r, int error, const char *what) {
        (void) snprintf(r->why, CAPTURE_WHY_MAX, "line %zu: %s", r->line, what);
        return error;
}

static struct captured_thread *last_thread(struct reading *r) {
        return &r->c->threads[r->c->n_threads - 1];
}

/* The frames of the thread are complete. */
static int end_thread(struct reading *r) {
        int k = 0;

        if (!r->in_thread)
                return 0;
        r->in_thread = false;
        r->n_frames = interpreter_frames_drop(r->t, r->frames, r->n_frames);
        for (size_t i = 0; i < r->n_frames / 2; i++) {
                uint32_t other = r->frames[r->n_frames - 1 - i];

                r->frames[r->n_frames - 1 - i] = r->frames[i];
                r->frames[i] = other;
        }
        k = stack_table_stack(r->t, r->frames, r->n_frames, &last_thread(r)->stack);
        r->n_frames = 0;
        return k < 0 ? wrong(r, k, "the stack cannot be kept") : 0;
}

/* "process PID COMMAND (CPython VERSION)", "… (native stacks only: WHY)" */
static int process_line(struct reading *r) {
        char *end, *command, *version = strstr(r->text, " (CPython ");
        unsigned long pid = strtoul(r->text + strlen("process "), &end, 10);
        struct captured_process *p;
        int k;

        version = version ? version : strstr(r->text, " (native stacks only: ");
        if (!version || pid == 0 || pid > INT32_MAX || *end != ' ' || end > version)
                return 0; /* some other line that begins alike */
        k = end_thread(r);
        if (k == 0)
                k = host_capture_add_process(r->c, &p);
        if (k < 0)
                return wrong(r, k, "one process too many");
        p->pid = (uint32_t) pid;
        command = end + 1;
        return stack_table_string(r->t, command, version > command ? (size_t) (version - command) : 0,
                                  &p->command);
}

static char state_of(const char *words) {
        static const struct {
                const char *words;
                char state;
        } states[] = { { "running", 'R' }, { "waits uninterruptibly", 'D' },
                       { "waits", 'S' },   { "stopped by a tracer", 't' },
                       { "stopped", 'T' }, { "has exited", 'Z' } };

        for (size_t i = 0; i < ELEMENTSOF(states); i++)
                if (startswith(words, states[i].words))
                        return states[i].state;
        return 0;
}

/* "read (pipe_read)": the system call, and the kernel function; a word alone is taken for the latter. */
static int wait_words(struct reading *r, const char *words, struct captured_thread *t) {
        const char *in = strstr(words, " ("), *end = words + strlen(words);
        int k = 0;

        if (in && end[-1] == ')') {
                k = stack_table_string(r->t, words, MIN((size_t) (in - words), (size_t) STACK_TEXT_MAX),
                                       &t->syscall);
                words = in + 2;
                end--;
        }
        return k < 0 ? k
                     : stack_table_string(r->t, words, MIN((size_t) (end - words), (size_t) STACK_TEXT_MAX),
                                          &t->wait);
}

/* thread TID "NAME" [gil] [changed while read] STATE in CALL (WAIT). The name may hold anything: it ends at the
 * last quote. */
static int thread_line(struct reading *r) {
        char *name = strchr(r->text, '"'), *end = strrchr(r->text, '"'), *rest, *in;
        struct captured_thread *t;
        int k = end_thread(r);

        if (k < 0 || r->c->n_processes == 0)
                return k;
        k = host_capture_add_thread(r->c, &t);
        if (k < 0)
                return wrong(r, k, "one thread too many");
        r->in_thread = true;
        t->tid = (uint32_t) strtoul(r->text + strlen("thread "), NULL, 10);
        rest = end ? end + 1 : r->text + strlen("thread ?");
        if (name && end > name)
                k = stack_table_string(r->t, name + 1,
                                       MIN((size_t) (end - name - 1), (size_t) STACK_TEXT_MAX), &t->name);
        t->gil = strstr(rest, " [gil]");
        t->changed = strstr(rest, " [changed while read]");
        for (char *bracket; (bracket = strchr(rest, ']'));)
                rest = bracket + 1;
        rest += strspn(rest, " ");
        t->state = state_of(rest);
        in = strstr(rest, " in ");
        if (k == 0 && in && (t->state == 'S' || t->state == 'D' || t->state == 'R'))
                k = wait_words(r, in + 4, t);
        if (t == r->c->threads + r->c->processes[r->c->n_processes - 1].first_thread)
                r->c->processes[r->c->n_processes - 1].state = t->state;
        return k;
}

static int keep_frame(struct reading *r, const struct stack_frame *f) {
        int k = stack_table_frame(r->t, f, &r->frames[r->n_frames]);

        r->n_frames += k == 0;
        return k;
}

/* How long the name is, without its "+0x12". */
static size_t name_length(const char *name, size_t len) {
        for (size_t n = len; n > 0; n--)
                if (name[n - 1] == '+')
                        return n - 1;
        return len;
}

/*   [kernel] FUNCTION+0x1/0x2; FUNCTION+0x1 (MODULE); 0xPC (MODULE+0xADDRESS): then the address tells it */
static int native_line(struct reading *r) {
        const char *text = r->text + 2, *kernel = startswith(text, "[kernel] ") ? text + 9 : NULL;
        char *module = kernel ? NULL : strrchr(r->text, '(');
        size_t len = strlen(kernel ? kernel : text);
        struct stack_frame f = { .kind = kernel ? FRAME_KERNEL : FRAME_NATIVE };
        int k = 0;

        if (!r->in_thread || (!kernel && (!module || text[len - 1] != ')')))
                return 0;
        if (r->n_frames >= STACK_FRAMES_MAX) {
                r->c->cut = true;
                return 0;
        }
        if (module) {
                size_t n = strlen(module + 1) - 1, name = name_length(module + 1, n);
                bool unnamed = name < n && startswith(text, "0x");

                k = stack_table_string(r->t, module + 1, MIN(unnamed ? name : n, (size_t) STACK_TEXT_MAX),
                                       &f.file);
                len = (size_t) (module - text) - 1;
                if (unnamed) { /* its address in memory differs from host to host */
                        text = module + 2 + name;
                        len = n - name - 1;
                }
        }
        text = kernel ? kernel : text;
        if (k == 0)
                k = stack_table_string(r->t, text, MIN(name_length(text, len), (size_t) STACK_TEXT_MAX),
                                       &f.function);
        return k < 0 ? k : keep_frame(r, &f);
}

/*   File "NAME", line N, in FUNCTION */
static int frame_line(struct reading *r) {
        struct stack_frame f = { 0 };
        char *file = r->text + strlen("  File \""), *end = NULL, *function;
        int k;

        for (char *p = file; (p = strstr(p, "\", line ")); p++)
                end = p; /* the last: a name may hold anything */
        function = end ? strstr(end, ", in ") : NULL;
        if (!r->in_thread || !function || r->n_frames >= STACK_FRAMES_MAX) {
                r->c->cut |= r->in_thread;
                return 0;
        }
        f.line = (uint32_t) strtoul(end + strlen("\", line "), NULL, 10);
        k = stack_table_string(r->t, file, MIN((size_t) (end - file), (size_t) STACK_TEXT_MAX), &f.file);
        if (k == 0)
                k = stack_table_string(r->t, function + 5, strnlen(function + 5, STACK_TEXT_MAX),
                                       &f.function);
        return k < 0 ? k : keep_frame(r, &f);
}

static int one_line(struct reading *r) {
        if (startswith(r->text, "process "))
                return process_line(r);
        if (startswith(r->text, "thread "))
                return thread_line(r);
        if (startswith(r->text, "  File \""))
                return frame_line(r);
        if (startswith(r->text, "  (not readable") && r->in_thread) {
                r->in_thread = false; /* the stack stays STACK_NONE */
                r->n_frames = 0;
        } else if (startswith(r->text, "  ") && r->text[2] != ' ' && r->text[2] != '(' && r->text[2])
                return native_line(r);
        return 0;
}

int capture_text_read(const char *text, size_t len, struct host_capture *c, struct stack_table *t,
                      char why[static CAPTURE_WHY_MAX]) {
        struct reading r = { .c = c, .t = t, .why = why };
        uint32_t empty;
        int k = stack_table_string(t, "", 0, &empty);

        for (const char *end = text + len, *next; text < end && k == 0; text = next) {
                size_t n;

                next = memchr(text, '\n', (size_t) (end - text));
                n = (size_t) ((next ? next : end) - text);
                next = next ? next + 1 : end;
                n = MIN(n, sizeof(r.text) - 1);
                memcpy(r.text, text, n);
                (void) utf8_scrub(r.text, n);
                r.text[n] = 0;
                r.line++;
                k = one_line(&r);
        }
        if (k == 0)
                k = end_thread(&r);
        if (k < 0 && k != -E2BIG && k != -ENOMEM)
                return wrong(&r, -EPROTO, "not as tpu-stack prints it");
        if (k < 0)
                return k;
        return c->n_processes > 0 ? 0 : wrong(&r, -EPROTO, "no process as tpu-stack prints it");
}
