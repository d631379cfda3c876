/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Synthetic slices. A stack is written as one text, outermost frame first: "train.py:120 main | train.py:80
 * step | /usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py:2050 all_reduce"; "!libc.so.6
 * read" is a native frame.
 */
#include "blame.h"
#include "test.h"

#define C10D_FILE "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"
#define MAIN_STEP "train.py:120 main | train.py:80 step"
#define ALL_REDUCE MAIN_STEP " | " C10D_FILE ":2050 all_reduce"
#define BARRIER MAIN_STEP " | train.py:99 save | " C10D_FILE ":3600 barrier"
#define NEXT_BATCH MAIN_STEP " | dataset.py:88 next_batch"

struct scripted {          /* one rank in one capture */
        const char *stack; /* NULL: none */
        char state;
        const char *wait;
};
#define WAITING ((struct scripted){ ALL_REDUCE, 'S', "futex_wait_queue" })

static inline uint32_t scene_string(struct stack_table *t, const char *s) {
        uint32_t n;

        ASSERT_OK(stack_table_string(t, s, strlen(s), &n));
        return n;
}

static inline uint32_t scene_frame(struct stack_table *t, const char *text) {
        const char *space = strchr(text, ' '), *colon = strrchr(text, ':');
        struct stack_frame f = { .kind = text[0] == '!' ? FRAME_NATIVE : FRAME_PYTHON };
        char file[256];
        uint32_t n;

        colon = f.kind == FRAME_NATIVE ? space : colon;
        text += f.kind == FRAME_NATIVE;
        (void) snprintf(file, sizeof(file), "%.*s", (int) (colon - text), text);
        f.file = scene_string(t, file);
        f.function = scene_string(t, space + 1);
        f.line = f.kind == FRAME_PYTHON ? (uint32_t) strtoul(colon + 1, NULL, 10) : 0;
        ASSERT_OK(stack_table_frame(t, &f, &n));
        return n;
}

static inline uint32_t scene_stack(struct stack_table *t, const char *text) {
        char copy[4096], *save = NULL;
        uint32_t frames[64], n = 0, stack;

        (void) snprintf(copy, sizeof(copy), "%s", text);
        for (char *p = strtok_r(copy, "|", &save); p; p = strtok_r(NULL, "|", &save)) {
                char *end = p + strlen(p);

                p += strspn(p, " ");
                while (end > p && end[-1] == ' ')
                        *--end = 0;
                frames[n++] = scene_frame(t, p);
        }
        ASSERT_OK(stack_table_stack(t, frames, n, &stack));
        return stack;
}

static inline void scene_thread(struct host_capture *c, struct stack_table *t, uint32_t tid,
                                const char *name, struct scripted s) {
        struct captured_thread *thread;

        ASSERT_OK(host_capture_add_thread(c, &thread));
        thread->tid = tid;
        thread->name = scene_string(t, name);
        thread->wait = scene_string(t, s.wait ? s.wait : "");
        thread->state = s.state;
        thread->stack = s.stack ? scene_stack(t, s.stack) : STACK_NONE;
}

/* A host of slice "1" without a process. */
static inline void scene_host(struct host_capture *c, uint32_t worker, uint32_t round) {
        host_capture_init(c);
        (void) snprintf(c->slice, sizeof(c->slice), "1");
        (void) snprintf(c->host, sizeof(c->host), "h%u", worker);
        (void) snprintf(c->address, sizeof(c->address), "10.10.0.%u", 10 + worker);
        c->worker = worker;
        c->round = round;
        c->wanted = c->taken = 1000 * USEC_PER_SEC + round * 5 * USEC_PER_SEC;
        c->clock_error = 1000;
}

static inline void scene_process(struct host_capture *c, struct stack_table *t, struct scripted s) {
        struct captured_process *p;

        ASSERT_OK(host_capture_add_process(c, &p));
        p->pid = 4700 + c->worker;
        p->state = s.state;
        p->command = scene_string(t, "python3 train.py");
        scene_thread(c, t, p->pid, "python3", s);
}

/* Adds one rank on one host, in one capture. */
static inline void scene_rank(struct scene *scene, uint32_t worker, uint32_t round, struct scripted s) {
        struct host_capture c;

        scene_host(&c, worker, round);
        scene_process(&c, &scene->table, s);
        ASSERT_OK(scene_add(scene, &c));
}

/* n hosts that wait in all-reduce in both captures, but `odd` (UINT32_MAX: none), who is at a, then at b. */
static inline void scene_slice(struct scene *scene, uint32_t n, uint32_t odd, struct scripted a,
                               struct scripted b) {
        for (uint32_t round = 0; round < 2; round++)
                for (uint32_t i = 0; i < n; i++)
                        scene_rank(scene, i, round, i != odd ? WAITING : round == 0 ? a : b);
}

static inline struct diagnosis *scene_diagnose(const struct scene *scene, uint32_t hosts,
                                               enum stall_state run) {
        struct diagnose_options o = { .slice = "1", .hosts = hosts, .run = run };
        struct diagnosis *d;

        ASSERT_OK(diagnose(scene, &o, &d));
        return d;
}
