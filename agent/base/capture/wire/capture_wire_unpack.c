/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.pb-c.h"

#include "capture_parts.h"
#include "capture_wire.h"
#include "inflate.h"
#include "unpack_memory.h"
#include "utf8.h"

#define REST_MAX (4u * 1024 * 1024) /* that protobuf-c may ask for: processes, cores and findings are few */

struct unpacking {
        const Capture__HostCapture *m; /* without strings and arrays of numbers */
        struct capture_parts parts;
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

/* What is there already was clean when it came first. */
static int unpack_string(struct unpacking *u, const char *s, size_t len, uint32_t *ret) {
        char clean[STACK_TEXT_MAX];
        const char *nul;

        len = MIN(len, sizeof(clean));
        if (stack_table_find(u->t, s, len, ret))
                return 0;
        nul = memchr(s, 0, len);
        len = nul ? (size_t) (nul - s) : len;
        memcpy(clean, s, len);
        (void) utf8_scrub(clean, len);
        return stack_table_string(u->t, clean, len, ret);
}

static int unpack_strings(struct unpacking *u) {
        int r = stack_table_string(u->t, "", 0, &u->strings[0]);

        for (size_t i = 0, n = u->parts.n_strings; i < n && r == 0; i++) {
                size_t len;
                const char *s = capture_parts_string(&u->parts, &len);

                r = unpack_string(u, s, len, &u->strings[i]);
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

static bool next_frame(struct unpacking *u, struct stack_frame *ret) {
        struct wire_numbers *a = u->parts.arrays;

        ret->kind = wire_number(&a[WIRE_FRAME_KIND]);
        ret->line = wire_number(&a[WIRE_FRAME_LINE]);
        return string_of(u, wire_number(&a[WIRE_FRAME_FILE]), &ret->file) &&
               string_of(u, wire_number(&a[WIRE_FRAME_FUNCTION]), &ret->function) &&
               ret->kind < _FRAME_KIND_MAX;
}

static int unpack_frames(struct unpacking *u) {
        const struct wire_numbers *a = u->parts.arrays;

        for (enum wire_array i = WIRE_FRAME_FILE; i <= WIRE_FRAME_LINE; i++)
                if (a[i].n != u->n_frames)
                        return wrong(u, -EPROTO, "frame_*: arrays of different lengths");
        for (size_t i = 0, n; i < u->n_frames; i += n) {
                struct stack_frame f[STACK_BATCH_MAX];
                int r;

                n = MIN(u->n_frames - i, (size_t) STACK_BATCH_MAX);
                for (size_t k = 0; k < n; k++)
                        if (!next_frame(u, &f[k]))
                                return wrong(u, -EPROTO, "frame_*: a number that is none");
                r = stack_table_frame_batch(u->t, f, n, &u->frames[i]);
                if (r < 0)
                        return wrong(u, r, "frames");
        }
        return 0;
}

static int unpack_stacks(struct unpacking *u) {
        struct wire_numbers *lengths = &u->parts.arrays[WIRE_STACK_LENGTH],
                            *frames = &u->parts.arrays[WIRE_STACK_FRAMES];
        uint32_t buffer[STACK_FRAMES_MAX];

        for (size_t i = 0; i < u->n_stacks; i++) {
                size_t n = wire_number(lengths);
                int r;

                if (n > STACK_FRAMES_MAX || n > frames->n)
                        return wrong(u, -EPROTO, "stack_length: more frames than there are");
                for (size_t k = 0; k < n; k++) {
                        uint32_t frame = wire_number(frames);

                        if (frame >= u->n_frames)
                                return wrong(u, -EPROTO, "stack_frames: a number that is none");
                        buffer[k] = u->frames[frame];
                }
                r = stack_table_stack(u->t, buffer, n, &u->stacks[i]);
                if (r < 0)
                        return wrong(u, r, "stacks");
        }
        return frames->n == 0 ? 0 : wrong(u, -EPROTO, "stack_frames: frames of no stack");
}

static char letter(uint32_t state) {
        return state > ' ' && state < 0x7F ? (char) state : 0;
}

static int unpack_thread(struct unpacking *u) {
        struct wire_numbers *a = u->parts.arrays;
        uint32_t stack = wire_number(&a[WIRE_THREAD_STACK]), flags = wire_number(&a[WIRE_THREAD_FLAGS]);
        struct captured_thread *t;
        int r = host_capture_add_thread(u->c, &t);

        if (r < 0)
                return wrong(u, r, "threads");
        if (stack > u->n_stacks || !string_of(u, wire_number(&a[WIRE_THREAD_NAME]), &t->name) ||
            !string_of(u, wire_number(&a[WIRE_THREAD_WAIT]), &t->wait) ||
            !string_of(u, wire_number(&a[WIRE_THREAD_SYSCALL]), &t->syscall))
                return wrong(u, -EPROTO, "thread_*: a number that is none");
        t->stack = stack == 0 ? STACK_NONE : u->stacks[stack - 1];
        t->tid = wire_number(&a[WIRE_THREAD_TID]);
        t->state = letter(flags & 0xFF);
        t->gil = flags & 1u << 8;
        t->changed = flags & 1u << 9;
        return 0;
}

static int unpack_processes(struct unpacking *u) {
        const Capture__HostCapture *m = u->m;
        const struct wire_numbers *a = u->parts.arrays;

        for (enum wire_array i = WIRE_THREAD_NAME; i <= WIRE_THREAD_FLAGS; i++)
                if (a[i].n != a[WIRE_THREAD_STACK].n)
                        return wrong(u, -EPROTO, "thread_*: arrays of different lengths");
        for (size_t i = 0; i < m->n_processes; i++) {
                const Capture__Process *from = m->processes[i];
                struct captured_process *p;
                int r = host_capture_add_process(u->c, &p);

                if (r < 0)
                        return wrong(u, r, "processes");
                if (!string_of(u, from->command, &p->command) || !string_of(u, from->error, &p->error) ||
                    from->threads > a[WIRE_THREAD_STACK].n)
                        return wrong(u, -EPROTO, "processes: a number that is none");
                p->pid = from->pid;
                p->rank = from->rank_plus_1 - 1;
                p->state = letter(from->state);
                for (uint32_t k = 0; k < from->threads && r == 0; k++)
                        r = unpack_thread(u);
                if (r < 0)
                        return r;
        }
        return a[WIRE_THREAD_STACK].n == 0 ? 0 : wrong(u, -EPROTO, "thread_*: threads of no process");
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
        c->reached = m->reached_plus_1 - 1;
        return m->round <= 1 ? 0 : wrong(u, -EPROTO, "round: 0 or 1");
}

static int unpack_own(struct unpacking *u) {
        struct host_capture *c = u->c;

        for (size_t i = 0; i < MIN(u->m->n_own_addresses, (size_t) CAPTURE_OWN_MAX); i++)
                if (!string_of(u, u->m->own_addresses[i], &c->own[c->n_own++]))
                        return wrong(u, -EPROTO, "own_addresses: a number that is none");
        return string_of(u, u->m->ended_how, &c->ended_how)
                       ? 0
                       : wrong(u, -EPROTO, "ended_how: a number that is none");
}

static int unpack(struct unpacking *u) {
        int r = unpack_head(u);

        if (r < 0)
                return r;
        u->n_strings = MAX(u->parts.n_strings, (size_t) 1); /* string 0 is there always */
        u->n_frames = u->parts.arrays[WIRE_FRAME_KIND].n;
        u->n_stacks = u->parts.arrays[WIRE_STACK_LENGTH].n;
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
        if (r == 0)
                r = unpack_own(u);
        if (r == 0)
                r = unpack_processes(u);
        if (r == 0)
                r = unpack_cores(u);
        return r < 0 ? r : unpack_findings(u);
}

int capture_wire_unpack(const uint8_t *data, size_t len, struct host_capture *c, struct stack_table *t,
                        const char **ret_why) {
        _cleanup_free_ uint8_t *inflated = NULL;
        _cleanup_unpack_memory_ struct unpack_memory memory;
        struct unpacking u = { .c = c, .t = t, .why = "not a capture" };
        int r;

        unpack_memory_init(&memory, REST_MAX);
        if (len > 2 && data[0] == 0x1f &&
            data[1] == 0x8b) { /* as a tag it is none: there is no wire type 7 */
                *ret_why = "it cannot be inflated";
                r = inflate_gzip(data, len, CAPTURE_WIRE_MAX, &inflated, &len);
                if (r < 0)
                        return r == -EBADMSG ? -EPROTO : r;
                data = inflated;
        }
        if (len > CAPTURE_WIRE_MAX) {
                *ret_why = "longer than 4 MiB";
                return -E2BIG;
        }
        r = capture_parts_split(data, len, &u.parts, ret_why);
        if (r < 0)
                return r;
        u.m = capture__host_capture__unpack(&memory.allocator, u.parts.rest_len, u.parts.rest);
        if (u.m)
                r = unpack(&u);
        else if (memory.exhausted)
                r = wrong(&u, -E2BIG, "processes, cores, findings: more than there can be");
        else
                r = -EPROTO;
        free(u.map);
        capture_parts_clear(&u.parts);
        if (r < 0)
                *ret_why = u.why;
        return r;
}
