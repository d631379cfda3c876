/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.pb-c.h"

#include "capture_wire.h"
#include "utf8.h"

struct unpacking {
        const Capture__HostCapture *m;
        struct host_capture *c;
        struct stack_table *t;
        const char *why;
        uint32_t *map; /* wire's number → the table's: strings, then frames, then stacks, one block */
        uint32_t *strings, *frames, *stacks;
        size_t n_strings, n_frames, n_stacks;
};

static int wrong(struct unpacking *u, int error, const char *why) {
        u->why = why;
        return error;
}

static int unpack_strings(struct unpacking *u) {
        int r = stack_table_string(u->t, "", 0, &u->strings[0]);

        for (size_t i = 0; i < u->m->n_strings && r == 0; i++) {
                char *s = u->m->strings[i];
                size_t len = strnlen(s, STACK_TEXT_MAX);

                if (stack_table_find(u->t, s, len, &u->strings[i]))
                        continue; /* it was clean when it came first */
                (void) utf8_scrub(s, len);
                r = stack_table_string(u->t, s, len, &u->strings[i]);
        }
        return r < 0 ? wrong(u, r, "strings") : 0;
}

/* A number of the wire in the table's terms. */
static bool string_of(const struct unpacking *u, uint32_t wire, uint32_t *ret) {
        if (wire >= u->n_strings)
                return false;
        *ret = u->strings[wire];
        return true;
}

static int unpack_frames(struct unpacking *u) {
        const Capture__HostCapture *m = u->m;

        if (m->n_frame_file != m->n_frame_kind || m->n_frame_function != m->n_frame_kind ||
            m->n_frame_line != m->n_frame_kind)
                return wrong(u, -EPROTO, "frame_*: arrays of different lengths");
        for (size_t i = 0, n; i < u->n_frames; i += n) {
                struct stack_frame f[STACK_BATCH_MAX];
                int r;

                n = MIN(u->n_frames - i, (size_t) STACK_BATCH_MAX);
                for (size_t k = 0; k < n; k++) {
                        f[k] = (struct stack_frame){ .line = m->frame_line[i + k],
                                                     .kind = m->frame_kind[i + k] };
                        if (!string_of(u, m->frame_file[i + k], &f[k].file) ||
                            !string_of(u, m->frame_function[i + k], &f[k].function) ||
                            f[k].kind >= _FRAME_KIND_MAX)
                                return wrong(u, -EPROTO, "frame_*: a number that is none");
                }
                r = stack_table_frame_batch(u->t, f, n, &u->frames[i]);
                if (r < 0)
                        return wrong(u, r, "frames");
        }
        return 0;
}

static int unpack_stacks(struct unpacking *u) {
        uint32_t buffer[STACK_FRAMES_MAX];
        size_t at = 0;

        for (size_t i = 0; i < u->n_stacks; i++) {
                size_t n = u->m->stack_length[i];
                int r;

                if (n > STACK_FRAMES_MAX || n > u->m->n_stack_frames - at)
                        return wrong(u, -EPROTO, "stack_length: more frames than there are");
                for (size_t k = 0; k < n; k++, at++) {
                        if (u->m->stack_frames[at] >= u->n_frames)
                                return wrong(u, -EPROTO, "stack_frames: a number that is none");
                        buffer[k] = u->frames[u->m->stack_frames[at]];
                }
                r = stack_table_stack(u->t, buffer, n, &u->stacks[i]);
                if (r < 0)
                        return wrong(u, r, "stacks");
        }
        return at == u->m->n_stack_frames ? 0 : wrong(u, -EPROTO, "stack_frames: frames of no stack");
}

static char letter(uint32_t state) {
        return state > ' ' && state < 0x7F ? (char) state : 0;
}

static int unpack_thread(struct unpacking *u, size_t i) {
        const Capture__HostCapture *m = u->m;
        uint32_t stack = m->thread_stack_plus_1[i];
        struct captured_thread *t;
        int r = host_capture_add_thread(u->c, &t);

        if (r < 0)
                return wrong(u, r, "threads");
        if (stack > u->n_stacks || !string_of(u, m->thread_name[i], &t->name) ||
            !string_of(u, m->thread_wait[i], &t->wait) || !string_of(u, m->thread_syscall[i], &t->syscall))
                return wrong(u, -EPROTO, "thread_*: a number that is none");
        t->stack = stack == 0 ? STACK_NONE : u->stacks[stack - 1];
        t->tid = m->thread_tid[i];
        t->state = letter(m->thread_flags[i] & 0xFF);
        t->gil = m->thread_flags[i] & 1u << 8;
        t->changed = m->thread_flags[i] & 1u << 9;
        return 0;
}

static int unpack_processes(struct unpacking *u) {
        const Capture__HostCapture *m = u->m;
        size_t n = m->n_thread_stack_plus_1, at = 0;

        if (m->n_thread_name != n || m->n_thread_wait != n || m->n_thread_syscall != n ||
            m->n_thread_tid != n || m->n_thread_flags != n)
                return wrong(u, -EPROTO, "thread_*: arrays of different lengths");
        for (size_t i = 0; i < m->n_processes; i++) {
                const Capture__Process *from = m->processes[i];
                struct captured_process *p;
                int r = host_capture_add_process(u->c, &p);

                if (r < 0)
                        return wrong(u, r, "processes");
                if (!string_of(u, from->command, &p->command) || !string_of(u, from->error, &p->error) ||
                    from->threads > n - at)
                        return wrong(u, -EPROTO, "processes: a number that is none");
                p->pid = from->pid;
                p->rank = from->rank_plus_1 - 1;
                p->state = letter(from->state);
                for (uint32_t k = 0; k < from->threads && r == 0; k++)
                        r = unpack_thread(u, at++);
                if (r < 0)
                        return r;
        }
        return at == n ? 0 : wrong(u, -EPROTO, "thread_*: threads of no process");
}

static int unpack_cores(struct unpacking *u) {
        for (size_t i = 0; i < u->m->n_cores; i++) {
                const Capture__Core *from = u->m->cores[i];
                struct captured_core *core;
                int r = host_capture_add_core(u->c, &core);

                if (r < 0)
                        return wrong(u, r, "cores");
                if (!string_of(u, from->fingerprint, &core->fingerprint) ||
                    !string_of(u, from->location, &core->location) ||
                    !string_of(u, from->error, &core->error))
                        return wrong(u, -EPROTO, "cores: a number that is none");
                core->core = from->core;
                core->chip = from->chip;
                core->pc = from->pc;
                core->launch = from->launch;
                core->run = from->run;
                core->queued = from->queued;
        }
        return 0;
}

static int unpack_findings(struct unpacking *u) {
        for (size_t i = 0; i < u->m->n_findings; i++) {
                const Capture__Finding *from = u->m->findings[i];
                struct captured_finding *f;
                int r = host_capture_add_finding(u->c, &f);

                if (r < 0)
                        return wrong(u, r, "findings");
                if (!string_of(u, from->check, &f->check) || !string_of(u, from->subject, &f->subject) ||
                    !string_of(u, from->found, &f->found))
                        return wrong(u, -EPROTO, "findings: a number that is none");
                f->fail = from->fail;
        }
        return 0;
}

static int unpack_head(struct unpacking *u) {
        const Capture__HostCapture *m = u->m;
        struct host_capture *c = u->c;

        if (m->version > CAPTURE_WIRE_VERSION)
                return wrong(u, -EPROTONOSUPPORT, "version: later than what this program knows");
        if (m->version == 0)
                return wrong(u, -EPROTO, "version: missing");
        utf8_copy(c->slice, sizeof(c->slice), m->slice);
        utf8_copy(c->host, sizeof(c->host), m->host);
        utf8_copy(c->address, sizeof(c->address), m->address);
        utf8_copy(c->episode, sizeof(c->episode), m->episode);
        c->worker = m->worker_plus_1 - 1;
        c->round = m->round;
        c->wanted = m->wanted_usec;
        c->taken = m->taken_usec;
        c->clock_error = m->clock_error_usec;
        c->step = m->step_plus_1 - 1;
        c->ended = m->ended_usec;
        c->cut = m->cut;
        return m->round <= 1 ? 0 : wrong(u, -EPROTO, "round: 0 or 1");
}

static int unpack(struct unpacking *u) {
        int r = unpack_head(u);

        if (r < 0)
                return r;
        u->n_strings = MAX(u->m->n_strings, (size_t) 1); /* string 0 is there always */
        u->n_frames = u->m->n_frame_kind;
        u->n_stacks = u->m->n_stack_length;
        u->map = calloc(u->n_strings + u->n_frames + u->n_stacks, sizeof(*u->map));
        if (!u->map)
                return wrong(u, -ENOMEM, "out of memory");
        u->strings = u->map;
        u->frames = u->strings + u->n_strings;
        u->stacks = u->frames + u->n_frames;
        r = unpack_strings(u);
        if (r == 0)
                r = unpack_frames(u);
        if (r == 0)
                r = unpack_stacks(u);
        if (r == 0 && !string_of(u, u->m->ended_how, &u->c->ended_how))
                r = wrong(u, -EPROTO, "ended_how: a number that is none");
        if (r == 0)
                r = unpack_processes(u);
        if (r == 0)
                r = unpack_cores(u);
        return r < 0 ? r : unpack_findings(u);
}

/* --- Memory of one message: taken from blocks, given back as a whole ------------------------------------
 */

#define BLOCK_BYTES (256u * 1024)

struct block {
        struct block *next;
        size_t used, size;
        max_align_t data[];
};

static void *arena_alloc(void *userdata, size_t size) {
        struct block **first = userdata, *b = *first;
        size_t wanted = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);

        if (!b || b->size - b->used < wanted) {
                size_t room = MAX((size_t) BLOCK_BYTES, wanted);

                b = malloc(sizeof(*b) + room);
                if (!b)
                        return NULL;
                *b = (struct block){ .next = *first, .size = room };
                *first = b;
        }
        b->used += wanted;
        return (char *) b->data + b->used - wanted;
}

static void arena_free(void *userdata, void *p) {
        (void) userdata; /* arena_clear() does it */
        (void) p;
}

static void arena_clear(struct block **first) {
        for (struct block *b = *first, *next; b; b = next) {
                next = b->next;
                free(b);
        }
}

int capture_wire_unpack(const uint8_t *data, size_t len, struct host_capture *c, struct stack_table *t,
                        const char **ret_why) {
        _cleanup_(arena_clear) struct block *blocks = NULL;
        ProtobufCAllocator arena = { arena_alloc, arena_free, &blocks };
        struct unpacking u = { .c = c, .t = t, .why = "not a capture" };
        int r;

        if (len > CAPTURE_WIRE_MAX) {
                *ret_why = "longer than 4 MiB";
                return -E2BIG;
        }
        u.m = capture__host_capture__unpack(&arena, len, data);
        r = u.m ? unpack(&u) : -EPROTO;
        free(u.map);
        if (r < 0)
                *ret_why = u.why;
        return r;
}
