/* SPDX-License-Identifier: Apache-2.0 */
/* Captures as bytes: whole, read in both ways, shown; damaged, in an odd order, too large. */
#include "capture-bytes.h"
#include "capture_read.h"
#include "gzip.h"
#include "render.h"

struct loaded {
        struct host_capture c;
        struct stack_table t;
        char why[CAPTURE_WHY_MAX];
};

static void loaded_clear(struct loaded *l) {
        host_capture_clear(&l->c);
        stack_table_clear(&l->t);
}

static int load(const void *data, size_t len, enum capture_detail detail, struct loaded *l) {
        l->t = STACK_TABLE_NULL;
        return capture_read(data, len, detail, &l->c, &l->t, l->why);
}

static uint32_t text(struct stack_table *t, const char *s) {
        uint32_t n;

        ASSERT_OK(stack_table_string(t, s, strlen(s), &n));
        return n;
}

/* --- One that was made -------------------------------------------------------------------------------- */

struct frame_text {
        enum frame_kind kind;
        const char *file, *function;
        uint32_t line;
        uint64_t address;
};
#define PYTHON(file, function) { FRAME_PYTHON, file, function, 88, 0 }
#define NATIVE(module, function) { FRAME_NATIVE, module, function, 76, 4096 }
#define KERNEL(function) { FRAME_KERNEL, "", function, 870, 0 }

/* Innermost first. */
static uint32_t stack(struct stack_table *t, const struct frame_text *frames, size_t n) {
        uint32_t numbers[64], ret;

        for (size_t i = 0; i < n; i++) {
                struct stack_frame f = { .kind = frames[i].kind,
                                         .line = frames[i].line,
                                         .address = frames[i].address };

                f.file = text(t, frames[i].file);
                f.function = text(t, frames[i].function);
                ASSERT_OK(stack_table_frame(t, &f, &numbers[n - 1 - i]));
        }
        ASSERT_OK(stack_table_stack(t, numbers, n, &ret));
        return ret;
}

static void add_process(struct loaded *l, const char *command, const char *no_python) {
        struct captured_process *p;

        ASSERT_OK(host_capture_add_process(&l->c, &p));
        p->pid = 4711;
        p->state = 'S';
        p->rank = no_python ? CAPTURE_RANK_NONE : 3;
        p->command = text(&l->t, command);
        p->python = no_python ? 0 : text(&l->t, "3.11.2");
        p->no_python = no_python ? text(&l->t, no_python) : 0;
        p->kernel_by = text(&l->t, "iter/task");
}

static void add_thread(struct loaded *l, const struct frame_text *frames, size_t n) {
        struct captured_thread *th;
        struct thread_detail *d;

        ASSERT_OK(host_capture_add_thread(&l->c, &th));
        d = &l->c.details[l->c.n_threads - 1];
        th->tid = 4711 + (uint32_t) l->c.n_threads - 1;
        th->state = 'S';
        th->name = text(&l->t, "python3");
        if (frames) {
                th->stack = stack(&l->t, frames, n);
                th->wait = text(&l->t, "pipe_read");
                th->syscall = text(&l->t, "read");
                th->gil = true;
                d->merged = d->native = true;
        } else
                d->python_error = text(&l->t, "loop");
        d->python = true;
}

static const struct frame_text frames[] = { KERNEL("pipe_read"),
                                            NATIVE("/usr/lib/libc.so.6", "read"),
                                            NATIVE("/usr/lib/libc.so.6", ""),
                                            NATIVE("/usr/bin/python3.11", "_Py_read"),
                                            PYTHON("/w/dataset.py", "next_batch"),
                                            PYTHON("/w/train.py", "main") };

static void make(struct loaded *l) {
        struct captured_core *core;
        struct captured_finding *f;

        *l = (struct loaded){ .t = STACK_TABLE_NULL };
        host_capture_init(&l->c);
        l->c.detailed = true;
        (void) snprintf(l->c.slice, sizeof(l->c.slice), "1");
        (void) snprintf(l->c.host, sizeof(l->c.host), "h5");
        (void) snprintf(l->c.address, sizeof(l->c.address), "10.10.0.15");
        (void) snprintf(l->c.episode, sizeof(l->c.episode), "e");
        l->c.worker = 5;
        l->c.round = 1;
        l->c.wanted = 5000000;
        l->c.taken = 7500000;
        l->c.clock_error = 1000;
        l->c.step = 12;
        l->c.reached = 3;
        l->c.ended = 77;
        l->c.ended_how = text(&l->t, "signal 9");
        l->c.own[l->c.n_own++] = text(&l->t, "eth0 10.10.0.15");
        l->c.own[l->c.n_own++] = text(&l->t, "eth1 10.10.1.15");
        add_process(l, "bash run.sh", "it has no interpreter");
        add_thread(l, frames, 2);
        add_process(l, "python3 train.py", NULL);
        add_thread(l, frames, ELEMENTSOF(frames));
        add_thread(l, NULL, 0);
        ASSERT_OK(host_capture_add_core(&l->c, &core));
        *core = (struct captured_core){
                .core = 1, .pc = 7, .launch = -12, .run = 3, .fingerprint = text(&l->t, "aa")
        };
        ASSERT_OK(host_capture_add_finding(&l->c, &f));
        *f = (struct captured_finding){ text(&l->t, "nic.mtu"), text(&l->t, "eth0"), text(&l->t, "1460"),
                                        true };
}

static const struct stack_frame *frame(const struct loaded *l, size_t thread, uint32_t i) {
        return &l->t.frames[stack_table_frames(&l->t, l->c.threads[thread].stack)[i]];
}

static void check_host(const struct loaded *l) {
        ASSERT_STREQ(l->c.slice, "1");
        ASSERT_STREQ(l->c.host, "h5");
        ASSERT_STREQ(l->c.address, "10.10.0.15");
        ASSERT_STREQ(l->c.episode, "e");
        ASSERT_EQ(l->c.worker, 5);
        ASSERT_EQ(l->c.round, 1);
        ASSERT_EQ(host_capture_lateness(&l->c), 2500000);
        ASSERT_EQ(l->c.clock_error, 1000);
        ASSERT_EQ(l->c.step, 12);
        ASSERT_EQ(l->c.ended, 77);
        ASSERT_STREQ(stack_table_text(&l->t, l->c.ended_how), "signal 9");
        ASSERT_EQ(l->c.reached, 3);
        ASSERT_EQ(l->c.n_own, 2);
        ASSERT_STREQ(stack_table_text(&l->t, l->c.own[1]), "eth1 10.10.1.15");
        ASSERT_EQ(l->c.n_cores, 1);
        ASSERT_EQ(l->c.cores[0].launch, -12);
        ASSERT_STREQ(stack_table_text(&l->t, l->c.cores[0].fingerprint), "aa");
        ASSERT_EQ(l->c.n_findings, 1);
        ASSERT_TRUE(l->c.findings[0].fail);
        ASSERT_STREQ(stack_table_text(&l->t, l->c.findings[0].found), "1460");
        ASSERT_FALSE(l->c.cut || l->c.silent);
}

/* What makes hosts alike, and nothing else. */
static void test_diagnosed(void) {
        _cleanup_(loaded_clear) struct loaded made, l;
        _cleanup_free_ uint8_t *data = NULL;
        size_t len;

        make(&made);
        capture_bytes(&made.c, &made.t, &data, &len);
        ASSERT_OK(load(data, len, CAPTURE_DIAGNOSED, &l));
        check_host(&l);
        ASSERT_EQ(l.c.n_processes, 1); /* the shell says nothing beside the program */
        ASSERT_EQ(l.c.processes[0].rank, 3);
        ASSERT_EQ(l.c.processes[0].state, 'S');
        ASSERT_EQ(l.c.processes[0].n_threads, 2);
        ASSERT_EQ(l.c.n_threads, 2);
        ASSERT_TRUE(l.c.threads[0].gil && !l.c.threads[0].changed);
        ASSERT_STREQ(stack_table_text(&l.t, l.c.threads[0].wait), "pipe_read");
        ASSERT_STREQ(stack_table_text(&l.t, l.c.threads[0].syscall), "read");
        ASSERT_EQ(l.t.stacks[l.c.threads[0].stack].n, 5); /* without the interpreter's own */
        ASSERT_STREQ(stack_table_text(&l.t, frame(&l, 0, 0)->function), "main"); /* outermost first */
        ASSERT_STREQ(stack_table_text(&l.t, frame(&l, 0, 1)->file), "/w/dataset.py");
        ASSERT_EQ(frame(&l, 0, 1)->line, 88);
        ASSERT_STREQ(stack_table_text(&l.t, frame(&l, 0, 2)->file), "libc.so.6");
        ASSERT_STREQ(stack_table_text(&l.t, frame(&l, 0, 2)->function), "0x1000"); /* it has no name */
        ASSERT_TRUE(frame(&l, 0, 3)->kind == FRAME_NATIVE && frame(&l, 0, 3)->line == 0 &&
                    frame(&l, 0, 3)->address == 0);
        ASSERT_TRUE(frame(&l, 0, 4)->kind == FRAME_KERNEL && frame(&l, 0, 4)->line == 0);
        ASSERT_EQ(l.c.threads[1].stack, STACK_NONE);
        ASSERT_TRUE(l.c.details == NULL);
}

static void expect_stack(const struct frame_text *given, size_t n, const char *wanted) {
        _cleanup_(loaded_clear) struct loaded made = { .t = STACK_TABLE_NULL }, l;
        _cleanup_free_ uint8_t *data = NULL;
        const struct stack_span *s;
        char joined[512] = "";
        size_t len;

        host_capture_init(&made.c);
        made.c.detailed = true;
        add_process(&made, "python3", NULL);
        add_thread(&made, given, n);
        capture_bytes(&made.c, &made.t, &data, &len);
        ASSERT_OK(load(data, len, CAPTURE_DIAGNOSED, &l));
        s = &l.t.stacks[l.c.threads[0].stack];
        for (uint32_t i = 0; i < s->n; i++) {
                size_t at = strlen(joined);

                (void) snprintf(joined + at, sizeof(joined) - at, "%s%s", at > 0 ? ";" : "",
                                stack_table_text(&l.t, frame(&l, 0, i)->function));
        }
        ASSERT_STREQ(joined, wanted);
}

/* As tpu-stack --native has it: the stacks as one, without the interpreter's own frames. */
static void test_interpreter(void) {
        static const struct frame_text placed[] = { NATIVE("/lib/libc.so.6", "read"),
                                                    NATIVE("/lib/_io.so", ""),
                                                    NATIVE("/usr/bin/python3.11", "_Py_read"),
                                                    PYTHON("dataset.py", "next_batch"),
                                                    NATIVE("libtorch.so", "call_back"),
                                                    NATIVE("libpython3.11.so.1.0", "x"),
                                                    PYTHON("train.py", "<module>"),
                                                    NATIVE("libc.so.6", "__libc_start_main") },
                                       behind[] = { NATIVE("libc.so.6", "read"),
                                                    NATIVE("_io.so", "f"),
                                                    NATIVE("python3.11", "_Py_read"),
                                                    NATIVE("libtorch.so", "call_back"),
                                                    NATIVE("libc.so.6", "__libc_start_main"),
                                                    PYTHON("dataset.py", "next_batch"),
                                                    PYTHON("train.py", "<module>") },
                                       none[] = { NATIVE("libx.so", "spin"), NATIVE("python3.11", "main") };

        expect_stack(placed, ELEMENTSOF(placed),
                     "__libc_start_main;<module>;call_back;next_batch;0x1000;read");
        expect_stack(behind, ELEMENTSOF(behind), "<module>;next_batch;f;read"); /* not in their places */
        expect_stack(none, ELEMENTSOF(none), "main;spin");                      /* no Python */
}

/* --- Shown --------------------------------------------------------------------------------------------- */

static const char shown[] = "process 4711 bash run.sh (native stacks only: it has no interpreter)\n"
                            "thread 4711 \"python3\" [gil] waits in read (pipe_read)\n"
                            "  [kernel] pipe_read+0x366\n"
                            "  read+0x4c (libc.so.6)\n"
                            "process 4711 python3 train.py (CPython 3.11.2)\n"
                            "thread 4712 \"python3\" [gil] waits in read (pipe_read)\n"
                            "  [kernel] pipe_read+0x366\n"
                            "  read+0x4c (libc.so.6)\n"
                            "  0x1000 (libc.so.6)\n"
                            "  _Py_read+0x4c (python3.11)\n"
                            "  File \"/w/dataset.py\", line 88, in next_batch\n"
                            "  File \"/w/train.py\", line 88, in main\n"
                            "thread 4713 \"python3\" waits\n"
                            "  (not readable: the frames form a loop)\n";

static void test_shown(void) {
        _cleanup_(loaded_clear) struct loaded made, l;
        _cleanup_free_ uint8_t *data = NULL;
        _cleanup_free_ char *before = NULL, *after = NULL, *cut = NULL;
        struct capture_text t;
        char why[CAPTURE_WHY_MAX];
        size_t len;

        make(&made);
        ASSERT_OK(render_text(&made.c, &made.t, RENDER_MAX, &before));
        ASSERT_STREQ(before, shown);
        capture_bytes(&made.c, &made.t, &data, &len);
        ASSERT_OK(load(data, len, CAPTURE_SHOWN, &l));
        check_host(&l);
        ASSERT_OK(render_text(&l.c, &l.t, RENDER_MAX, &after));
        ASSERT_STREQ(after, shown);
        ASSERT_OK(render_text(&l.c, &l.t, 500, &cut));
        ASSERT_TRUE(strlen(cut) < 500 + 64);
        ASSERT_TRUE(strstr(cut, "(output ends here: more than 500 bytes)\n") != NULL);
        ASSERT_OK(capture_text_make(data, len, RENDER_MAX, &t, why));
        ASSERT_TRUE(t.processes == 2 && t.threads == 3 && !t.cut && !t.unread[0]);
        ASSERT_STREQ(t.text, shown);
        free(t.text);
        ASSERT_EQ(capture_text_make(data, len - 1, RENDER_MAX, &t, why), -EPROTO);
        ASSERT_STREQ(why, "gzip: damaged, or cut off");
}

/* --- Bounds -------------------------------------------------------------------------------------------- */

/* Thousands of threads that nothing can pack, and processes behind them: each has its main thread, and it
 * says that it was cut. */
static void test_too_large(void) {
        uint64_t x = UINT64_C(88172645463325252);
        _cleanup_(loaded_clear) struct loaded l;
        _cleanup_capture_writer_ struct capture_writer w;
        const uint32_t most[] = { 8000, 8000, 3, 1 };

        ASSERT_OK(capture_writer_init(&w));
        for (size_t p = 0; p < ELEMENTSOF(most); p++) {
                struct captured_process *process;

                capture_writer_share(&w, ELEMENTSOF(most) - 1 - p);
                ASSERT_OK(host_capture_add_process(&w.c, &process));
                process->pid = (uint32_t) p;
                for (uint32_t i = 0; i < most[p] && capture_writer_has_room(&w); i++) {
                        struct frame_text f = { FRAME_PYTHON, "f.py", (char[400]){ 0 }, i, 0 };
                        struct captured_thread *t;

                        for (unsigned k = 0; k < 40; k++) {
                                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                                (void) snprintf((char *) (uintptr_t) f.function + 8 * k, 9, "%08x",
                                                (unsigned) x);
                        }
                        ASSERT_OK(host_capture_add_thread(&w.c, &t));
                        t->tid = 1000 * (uint32_t) p + i;
                        t->stack = stack(&w.table, &f, 1);
                        ASSERT_OK(capture_writer_thread(&w));
                }
                ASSERT_OK(capture_writer_process(&w));
        }
        ASSERT_OK(capture_writer_end(&w));
        ASSERT_TRUE(w.len <= CAPTURE_PACKED_MAX && w.len > CAPTURE_PACKED_MAX / 2);
        ASSERT_OK(load(w.data, w.len, CAPTURE_SHOWN, &l));
        ASSERT_TRUE(l.c.cut);
        ASSERT_EQ(l.c.n_processes, ELEMENTSOF(most));
        for (size_t p = 0; p < ELEMENTSOF(most); p++) {
                ASSERT_TRUE(l.c.processes[p].n_threads >= 1);
                ASSERT_EQ(l.c.threads[l.c.processes[p].first_thread].tid, 1000 * p);
        }
        ASSERT_TRUE(l.c.processes[0].n_threads < 8000 && l.c.processes[3].n_threads == 1);
}

/* More processes, threads and modules than a capture has: what is written can be read, and says that it was
 * cut. Each process that is there has its main thread. */
static void test_too_many(void) {
        _cleanup_(loaded_clear) struct loaded l;
        _cleanup_capture_writer_ struct capture_writer w;
        const struct captured_module module = { .start = 4096 };
        const size_t most = CAPTURE_PROCESSES_MAX + 20;
        size_t p;

        ASSERT_OK(capture_writer_init(&w));
        for (p = 0; p < most && capture_writer_takes_process(&w); p++) {
                struct captured_process *process;
                struct captured_thread *t;

                capture_writer_share(&w, most - 1 - p);
                ASSERT_OK(host_capture_add_process(&w.c, &process));
                for (unsigned i = 0; i < 20 && capture_writer_takes_module(&w); i++)
                        ASSERT_OK(host_capture_add_module(&w.c, &module));
                for (unsigned i = 0; i < 100 && capture_writer_takes_thread(&w); i++) {
                        ASSERT_TRUE(capture_writer_has_room(&w));
                        ASSERT_OK(host_capture_add_thread(&w.c, &t));
                        ASSERT_OK(capture_writer_thread(&w));
                }
                ASSERT_OK(capture_writer_process(&w));
        }
        ASSERT_EQ(p, CAPTURE_PROCESSES_MAX);
        ASSERT_OK(capture_writer_end(&w));
        ASSERT_OK(load(w.data, w.len, CAPTURE_SHOWN, &l));
        ASSERT_TRUE(l.c.cut);
        ASSERT_EQ(l.c.n_processes, CAPTURE_PROCESSES_MAX);
        ASSERT_EQ(l.c.n_threads, CAPTURE_THREADS_MAX);
        ASSERT_EQ(l.c.n_modules, CAPTURE_MODULES_MAX);
        for (p = 0; p < CAPTURE_PROCESSES_MAX; p++)
                ASSERT_TRUE(l.c.processes[p].n_threads >= 1);
}

/* What was cut off or damaged never reads beyond its end, packed or not. */
static void test_damaged(void) {
        _cleanup_(loaded_clear) struct loaded made, l;
        _cleanup_free_ uint8_t *data = NULL, *plain = NULL;
        size_t len, n;

        make(&made);
        capture_bytes(&made.c, &made.t, &data, &len);
        ASSERT_OK(inflate_gzip(data, len, CAPTURE_STREAM_MAX, &plain, &n));
        ASSERT_OK(load(plain, n, CAPTURE_DIAGNOSED, &l));
        check_host(&l);
        for (size_t cut = 0; cut < n; cut++) {
                uint8_t *short_one = malloc(cut + 1); /* which a sanitizer watches */

                loaded_clear(&l);
                memcpy(short_one, plain, cut);
                (void) load(short_one, cut, CAPTURE_DIAGNOSED, &l);
                free(short_one);
                loaded_clear(&l);
                plain[cut] ^= 0x15;
                (void) load(plain, n, CAPTURE_SHOWN, &l);
                plain[cut] ^= 0x15;
        }
        for (size_t cut = 0; cut < len; cut++) {
                loaded_clear(&l);
                ASSERT_TRUE(load(data, cut, CAPTURE_DIAGNOSED, &l) < 0);
                ASSERT_TRUE(l.why[0]);
        }
}

/* --- Bytes that our own writer never makes ------------------------------------------------------------- */

struct bytes {
        uint8_t data[1024];
        size_t len;
};

static void put(struct bytes *b, unsigned field, const void *data, size_t len) {
        b->data[b->len++] = (uint8_t) (field << 3 | 2);
        b->data[b->len++] = (uint8_t) ((len & 0x7f) | (len > 127 ? 0x80 : 0));
        if (len > 127)
                b->data[b->len++] = (uint8_t) (len >> 7);
        memcpy(b->data + b->len, data, len);
        b->len += len;
}
#define PUT(b, field, bytes) put(b, field, bytes, sizeof(bytes) - 1)

/* Version 1 and two strings, "" and function; frame 0 is that function. */
static void begin(struct bytes *part, const void *function, size_t len) {
        *part = (struct bytes){ .data = { 8, 1 }, .len = 2 };
        PUT(part, 2, "");
        put(part, 2, function, len);
        PUT(part, 3, "\x18\x01");
}

static int load_part(const struct bytes *part, struct loaded *l) {
        struct bytes b = { .len = 0 };

        put(&b, 1, part->data, part->len);
        return load(b.data, b.len, CAPTURE_DIAGNOSED, l);
}

static void test_odd(void) {
        static char length[300];
        static const struct {
                const char *sent, *read;
                size_t len;
        } strings[] = { { "step", "step", 4 },
                        { "a\x01\xff", "a??", 3 },
                        { "ab\0cd", "ab", 5 },
                        { length, length, 299 } };

        memset(length, 'x', sizeof(length) - 1);
        for (size_t i = 0; i < ELEMENTSOF(strings); i++) {
                _cleanup_(loaded_clear) struct loaded l;
                struct bytes b;

                begin(&b, strings[i].sent, strings[i].len);
                PUT(&b, 4, "\x0a\x03\x80\x80\x00"); /* a number longer than it needs be */
                PUT(&b, 5, "\x08\x81\x00");
                PUT(&b, 15, "what later versions say");
                PUT(&b, 6, "\x7a\x05later\x28\x01");
                ASSERT_OK(load_part(&b, &l));
                ASSERT_EQ(l.c.n_threads, 1);
                ASSERT_STREQ(stack_table_text(&l.t, frame(&l, 0, 0)->function), strings[i].read);
        }
}

static void test_refused(void) {
        static const struct {
                unsigned field;
                const char *bytes, *why;
                size_t len;
        } bad[] = {
                { 3, "\x08\x03", "part 1, frames: a number that is none", 2 },
                { 3, "\x18\x02", "part 1, frames: a number that is none", 2 },
                { 4, "\x0a\x01\x01", "part 1, stacks: a number that is none", 3 },
                { 4, "\x0a\x02\x00\x80", "part 1: cut off, or no protobuf", 4 },
                { 4, "\x0a\x09\x00", "part 1: cut off, or no protobuf", 3 },
                { 5, "\x10\x07", "part 1, process: a number that is none", 2 },
                { 6, "\x08\x07", "part 1, threads: of no process", 2 },
                { 8, "\x30\x03", "part 1, host, round: a number that is none", 2 },
                { 8, "\x78\x03", "part 1: cut off, or no protobuf", 2 },
                { 10, "\x08\x03", "part 1: cut off, or no protobuf", 2 },
        };
        _cleanup_(loaded_clear) struct loaded l;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_(loaded_clear) struct loaded one;
                struct bytes b;

                begin(&b, "f", 1);
                put(&b, bad[i].field, bad[i].bytes, bad[i].len);
                ASSERT_EQ(load_part(&b, &one), -EPROTO);
                ASSERT_STREQ(one.why, bad[i].why);
        }
        ASSERT_EQ(load("\x0a\x02\x08\x02", 4, CAPTURE_DIAGNOSED, &l), -EPROTONOSUPPORT);
        ASSERT_EQ(load("", 0, CAPTURE_DIAGNOSED, &l), -EPROTO);
        ASSERT_STREQ(l.why, "there is nothing in it");
        ASSERT_EQ(load("{}", 2, CAPTURE_DIAGNOSED, &l), -EPROTO);
        ASSERT_EQ(load("\x0a\x02\x38\x01", 4, CAPTURE_DIAGNOSED, &l), -EPROTO);
        ASSERT_STREQ(l.why, "part 1, version: missing: this is no capture");
        ASSERT_EQ(load("\x0a\x02\x08\x01\x0a\x02\x08\x01", 8, CAPTURE_DIAGNOSED, &l), -EPROTO);
        ASSERT_STREQ(l.why, "part 1, version: a second capture begins here");
}

/* More than a capture may be: of bytes, of threads; a file of several is read one by one. */
static void test_bounds(void) {
        const size_t n = 2u << 20;
        _cleanup_free_ uint8_t *big = calloc(1, 3 * (n + 16));
        _cleanup_(loaded_clear) struct loaded l;
        uint8_t *at = big;

        for (unsigned i = 0; i < 3; i++) { /* parts of one large unknown field each */
                const uint8_t head[] = { 0x0a, 0x87, 0x80, 0x80, 0x01, 0x08,
                                         0x01, 0x7a, 0x80, 0x80, 0x80, 0x01 };

                memcpy(at, head, sizeof(head));
                if (i > 0)
                        at[6] = 0;
                at += 5 + 7 + (2u << 20);
        }
        ASSERT_EQ(load(big, (size_t) (at - big), CAPTURE_DIAGNOSED, &l), -E2BIG);
        ASSERT_TRUE(strstr(l.why, "longer than 4 MiB") != NULL);
        loaded_clear(&l);
        memcpy(big, "\x0a\x02\x08\x01", 4);
        for (size_t i = 0; i < n; i++) /* parts of which nothing but the heads is there */
                memcpy(big + 4 + 2 * i, "\x0a\x00", 2);
        ASSERT_EQ(load(big, 4 + 2 * n, CAPTURE_DIAGNOSED, &l), -E2BIG);
        loaded_clear(&l);
        memcpy(big, "\x0a\x82\x9d\x02\x08\x01", 6);
        memset(big + 6, 0, 2 * n);
        big[6] = 0x2a; /* a process */
        for (size_t i = 0; i < 18304; i++) /* threads */
                big[8 + 2 * i] = 0x32;
        ASSERT_EQ(load(big, 4 + 36610, CAPTURE_DIAGNOSED, &l), -E2BIG);
        ASSERT_STREQ(l.why, "part 1, threads: more than there can be");
        loaded_clear(&l);
        memcpy(big, "\x0a\x02\x08\x01", 4);
        for (size_t i = 4; i < 2 * n + 8; i += 2) /* parts of nothing */
                memcpy(big + i, "\x0a", 2);
        ASSERT_EQ(load(big, 2 * n + 8, CAPTURE_DIAGNOSED, &l), -E2BIG);
        ASSERT_STREQ(l.why, "part 2097152: the capture is longer than 4 MiB");
}

static void test_several(void) {
        _cleanup_capture_reader_ struct capture_reader r;
        _cleanup_(loaded_clear) struct loaded made, l = { .t = STACK_TABLE_NULL };
        _cleanup_free_ uint8_t *data = NULL, *twice = NULL;
        size_t len;

        make(&made);
        capture_bytes(&made.c, &made.t, &data, &len);
        twice = malloc(2 * len);
        memcpy(twice, data, len);
        memcpy(twice + len, data, len);
        capture_reader_init(&r, twice, 2 * len, CAPTURE_DIAGNOSED);
        for (unsigned i = 0; i < 2; i++) {
                ASSERT_EQ(capture_reader_next(&r, &l.c, &l.t, l.why), 1);
                check_host(&l);
                host_capture_clear(&l.c);
        }
        ASSERT_EQ(capture_reader_next(&r, &l.c, &l.t, l.why), 0);
}

TEST_MAIN(test_diagnosed, test_interpreter, test_shown, test_too_large, test_too_many, test_damaged,
          test_odd,
          test_refused, test_bounds, test_several)
