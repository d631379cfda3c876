/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.pb-c.h"

#include "capture_wire.h"

/* What the message points to. One block for all arrays of numbers. */
struct packing {
        Capture__HostCapture m;
        uint32_t *numbers;
        char **strings;
        Capture__Process *processes, **process_list;
        Capture__Core *cores, **core_list;
        Capture__Finding *findings, **finding_list;
};

static void packing_clear(struct packing *p) {
        free(p->numbers);
        free(p->strings);
        free(p->processes);
        free(p->process_list);
        free(p->cores);
        free(p->core_list);
        free(p->findings);
        free(p->finding_list);
}

static int allocate(struct packing *p, const struct host_capture *c, const struct stack_table *t) {
        size_t numbers = 4 * t->n_frames + t->n_stacks + t->n_frames_of + 6 * c->n_threads;

        p->numbers = calloc(numbers + 1, sizeof(*p->numbers));
        p->strings = calloc(t->n_strings + 1, sizeof(*p->strings));
        p->processes = calloc(c->n_processes + 1, sizeof(*p->processes));
        p->process_list = calloc(c->n_processes + 1, sizeof(*p->process_list));
        p->cores = calloc(c->n_cores + 1, sizeof(*p->cores));
        p->core_list = calloc(c->n_cores + 1, sizeof(*p->core_list));
        p->findings = calloc(c->n_findings + 1, sizeof(*p->findings));
        p->finding_list = calloc(c->n_findings + 1, sizeof(*p->finding_list));
        return p->numbers && p->strings && p->processes && p->process_list && p->cores && p->core_list &&
                               p->findings && p->finding_list
                       ? 0
                       : -ENOMEM;
}

static uint32_t *take(uint32_t **next, size_t n, size_t *ret_n) {
        uint32_t *taken = *next;

        *next += n;
        *ret_n = n;
        return taken;
}

static uint32_t *pack_table(struct packing *p, const struct stack_table *t) {
        uint32_t *next = p->numbers;
        Capture__HostCapture *m = &p->m;

        for (size_t i = 0; i < t->n_strings; i++)
                p->strings[i] = t->text + t->string_at[i];
        m->strings = p->strings;
        m->n_strings = t->n_strings;
        m->frame_kind = take(&next, t->n_frames, &m->n_frame_kind);
        m->frame_file = take(&next, t->n_frames, &m->n_frame_file);
        m->frame_function = take(&next, t->n_frames, &m->n_frame_function);
        m->frame_line = take(&next, t->n_frames, &m->n_frame_line);
        for (size_t i = 0; i < t->n_frames; i++) {
                m->frame_kind[i] = t->frames[i].kind;
                m->frame_file[i] = t->frames[i].file;
                m->frame_function[i] = t->frames[i].function;
                m->frame_line[i] = t->frames[i].line;
        }
        m->stack_length = take(&next, t->n_stacks, &m->n_stack_length);
        for (size_t i = 0; i < t->n_stacks; i++)
                m->stack_length[i] = t->stacks[i].n; /* their frames lie one behind the other */
        m->stack_frames = take(&next, t->n_frames_of, &m->n_stack_frames);
        if (t->n_frames_of > 0)
                memcpy(m->stack_frames, t->frames_of, t->n_frames_of * sizeof(*t->frames_of));
        return next;
}

static void pack_threads(struct packing *p, const struct host_capture *c, uint32_t *next) {
        Capture__HostCapture *m = &p->m;

        m->thread_stack_plus_1 = take(&next, c->n_threads, &m->n_thread_stack_plus_1);
        m->thread_name = take(&next, c->n_threads, &m->n_thread_name);
        m->thread_wait = take(&next, c->n_threads, &m->n_thread_wait);
        m->thread_syscall = take(&next, c->n_threads, &m->n_thread_syscall);
        m->thread_tid = take(&next, c->n_threads, &m->n_thread_tid);
        m->thread_flags = take(&next, c->n_threads, &m->n_thread_flags);
        for (size_t i = 0; i < c->n_threads; i++) {
                const struct captured_thread *t = &c->threads[i];

                m->thread_stack_plus_1[i] = t->stack + 1; /* STACK_NONE becomes 0 */
                m->thread_name[i] = t->name;
                m->thread_wait[i] = t->wait;
                m->thread_syscall[i] = t->syscall;
                m->thread_tid[i] = t->tid;
                m->thread_flags[i] =
                        (uint8_t) t->state | (uint32_t) t->gil << 8 | (uint32_t) t->changed << 9;
        }
}

static void pack_lists(struct packing *p, const struct host_capture *c) {
        for (size_t i = 0; i < c->n_processes; i++) {
                const struct captured_process *from = &c->processes[i];

                p->process_list[i] = &p->processes[i];
                capture__process__init(p->process_list[i]);
                p->processes[i].pid = from->pid;
                p->processes[i].rank_plus_1 = from->rank + 1;
                p->processes[i].command = from->command;
                p->processes[i].error = from->error;
                p->processes[i].threads = from->n_threads;
                p->processes[i].state = (uint8_t) from->state;
        }
        for (size_t i = 0; i < c->n_cores; i++) {
                const struct captured_core *from = &c->cores[i];

                p->core_list[i] = &p->cores[i];
                capture__core__init(p->core_list[i]);
                p->cores[i].core = from->core;
                p->cores[i].chip = from->chip;
                p->cores[i].pc = from->pc;
                p->cores[i].launch = from->launch;
                p->cores[i].run = from->run;
                p->cores[i].fingerprint = from->fingerprint;
                p->cores[i].location = from->location;
                p->cores[i].error = from->error;
                p->cores[i].queued = from->queued;
        }
        for (size_t i = 0; i < c->n_findings; i++) {
                p->finding_list[i] = &p->findings[i];
                capture__finding__init(p->finding_list[i]);
                p->findings[i].check = c->findings[i].check;
                p->findings[i].subject = c->findings[i].subject;
                p->findings[i].found = c->findings[i].found;
                p->findings[i].fail = c->findings[i].fail;
        }
        p->m.processes = p->process_list;
        p->m.n_processes = c->n_processes;
        p->m.cores = p->core_list;
        p->m.n_cores = c->n_cores;
        p->m.findings = p->finding_list;
        p->m.n_findings = c->n_findings;
}

static void pack_head(Capture__HostCapture *m, const struct host_capture *c) {
        m->version = CAPTURE_WIRE_VERSION;
        m->slice = (char *) (uintptr_t) c->slice; /* protobuf-c knows no const; packing only reads */
        m->host = (char *) (uintptr_t) c->host;
        m->address = (char *) (uintptr_t) c->address;
        m->episode = (char *) (uintptr_t) c->episode;
        m->worker_plus_1 = c->worker + 1;
        m->round = c->round;
        m->wanted_usec = c->wanted;
        m->taken_usec = c->taken;
        m->clock_error_usec = c->clock_error;
        m->step_plus_1 = c->step + 1;
        m->ended_usec = c->ended;
        m->ended_how = c->ended_how;
        m->cut = c->cut;
        m->own_addresses = (uint32_t *) (uintptr_t) c->own;
        m->n_own_addresses = c->n_own;
        m->reached_plus_1 = c->reached + 1;
}

int capture_wire_pack(const struct host_capture *c, const struct stack_table *t, uint8_t **ret,
                      size_t *ret_len) {
        _cleanup_(packing_clear) struct packing p = { .m = CAPTURE__HOST_CAPTURE__INIT };
        uint8_t *data;
        size_t len;

        if (allocate(&p, c, t) < 0)
                return -ENOMEM;
        pack_head(&p.m, c);
        pack_threads(&p, c, pack_table(&p, t));
        pack_lists(&p, c);
        len = capture__host_capture__get_packed_size(&p.m);
        if (len > CAPTURE_WIRE_MAX)
                return -E2BIG;
        data = malloc(len + 1);
        if (!data)
                return -ENOMEM;
        *ret_len = capture__host_capture__pack(&p.m, data);
        *ret = data;
        return 0;
}
