/* SPDX-License-Identifier: Apache-2.0 */
#include "host_capture.h"

#include <assert.h>

#include "grow.h"

/* Room for one more item of an array of the capture: 0, -E2BIG or -ENOMEM. */
#define ROOM_FOR(c, items, max)                                                                             \
        ((c)->n_##items >= (max)                                                                            \
                 ? -E2BIG                                                                                   \
                 : grow(&(c)->items, &(c)->items##_size, (c)->n_##items + 1, sizeof(*(c)->items)))

void host_capture_init(struct host_capture *c) {
        *c = (struct host_capture){ .worker = CAPTURE_WORKER_NONE,
                                    .step = CAPTURE_STEP_NONE,
                                    .reached = CAPTURE_REACHED_NONE };
}

void host_capture_clear(struct host_capture *c) {
        free(c->processes);
        free(c->threads);
        free(c->cores);
        free(c->findings);
        free(c->details);
        free(c->modules);
        free(c->waits);
        free(c->sockets);
        free(c->ends);
        host_capture_init(c);
}

int host_capture_add_process(struct host_capture *c, struct captured_process **ret) {
        int r = ROOM_FOR(c, processes, CAPTURE_PROCESSES_MAX);

        if (r < 0)
                return r;
        *ret = &c->processes[c->n_processes++];
        **ret = (struct captured_process){ .rank = CAPTURE_RANK_NONE,
                                           .first_thread = (uint32_t) c->n_threads,
                                           .first_module = (uint32_t) c->n_modules,
                                           .first_socket = (uint32_t) c->n_sockets };
        return 0;
}

int host_capture_add_thread(struct host_capture *c, struct captured_thread **ret) {
        int r = ROOM_FOR(c, threads, CAPTURE_THREADS_MAX);

        if (c->n_processes == 0)
                return -EINVAL;
        if (r == 0 && c->detailed)
                r = grow(&c->details, &c->details_size, c->n_threads + 1, sizeof(*c->details));
        if (r < 0)
                return r;
        if (c->detailed)
                c->details[c->n_threads] = (struct thread_detail){ 0 };
        *ret = &c->threads[c->n_threads++];
        **ret = (struct captured_thread){ .stack = STACK_NONE, .first_wait = (uint32_t) c->n_waits };
        c->processes[c->n_processes - 1].n_threads++;
        return 0;
}

int host_capture_add_core(struct host_capture *c, struct captured_core **ret) {
        int r = ROOM_FOR(c, cores, CAPTURE_CORES_MAX);

        if (r < 0)
                return r;
        *ret = &c->cores[c->n_cores++];
        **ret = (struct captured_core){ 0 };
        return 0;
}

int host_capture_add_finding(struct host_capture *c, struct captured_finding **ret) {
        int r = ROOM_FOR(c, findings, CAPTURE_FINDINGS_MAX);

        if (r < 0)
                return r;
        *ret = &c->findings[c->n_findings++];
        **ret = (struct captured_finding){ 0 };
        return 0;
}

usec_t host_capture_lateness(const struct host_capture *c) {
        return c->wanted > 0 && c->taken > c->wanted ? c->taken - c->wanted : 0;
}

int host_capture_add_module(struct host_capture *c, const struct captured_module *m) {
        int r = ROOM_FOR(c, modules, CAPTURE_MODULES_MAX);

        assert(c->n_processes > 0);
        if (r < 0)
                return r;
        c->modules[c->n_modules++] = *m;
        c->processes[c->n_processes - 1].n_modules++;
        return 0;
}

int host_capture_add_wait(struct host_capture *c, const struct captured_wait *w) {
        int r = ROOM_FOR(c, waits, CAPTURE_WAITS_MAX);

        assert(c->n_threads > 0 && w->kind < _WAIT_KIND_MAX);
        if (r < 0)
                return r;
        c->waits[c->n_waits++] = *w;
        c->threads[c->n_threads - 1].n_waits++;
        return 0;
}

int host_capture_add_socket(struct host_capture *c, const struct captured_socket *s) {
        int r = ROOM_FOR(c, sockets, CAPTURE_SOCKETS_MAX);

        assert(c->n_processes > 0);
        if (r < 0)
                return r;
        c->sockets[c->n_sockets++] = *s;
        c->processes[c->n_processes - 1].n_sockets++;
        return 0;
}

int host_capture_add_end(struct host_capture *c, const struct captured_end *e) {
        int r = ROOM_FOR(c, ends, CAPTURE_ENDS_MAX);

        if (r < 0)
                return r;
        c->ends[c->n_ends++] = *e;
        return 0;
}

void host_capture_empty(struct host_capture *c) {
        c->n_processes = c->n_threads = c->n_modules = 0;
        c->n_waits = c->n_sockets = c->n_ends = 0;
}

void host_capture_drop_others(struct host_capture *c) {
        size_t with = 0, threads = 0, kept = 0;

        for (size_t i = 0; i < c->n_processes; i++)
                with += c->processes[i].no_python == 0;
        if (with == 0)
                return;
        for (size_t i = 0; i < c->n_processes; i++) {
                struct captured_process *p = &c->processes[i];

                if (p->no_python)
                        continue;
                if (p->n_threads > 0)
                        memmove(&c->threads[threads], &c->threads[p->first_thread],
                                p->n_threads * sizeof(*c->threads));
                p->first_thread = (uint32_t) threads;
                threads += p->n_threads;
                c->processes[kept++] = *p;
        }
        c->n_processes = kept;
        c->n_threads = threads;
}

/* --- Looking into one --------------------------------------------------------------------------------- */

const struct captured_process *captured_process_of(const struct host_capture *c, uint32_t pid) {
        for (size_t i = 0; c && pid > 0 && i < c->n_processes; i++)
                if (c->processes[i].pid == pid)
                        return &c->processes[i];
        return NULL;
}

const struct captured_thread *captured_thread_of(const struct host_capture *c,
                                                 const struct captured_process *p, uint32_t tid) {
        for (uint32_t i = 0; p && tid > 0 && i < p->n_threads; i++)
                if (c->threads[p->first_thread + i].tid == tid)
                        return &c->threads[p->first_thread + i];
        return NULL;
}

const struct captured_socket *captured_socket_of(const struct host_capture *c,
                                                 const struct captured_process *p, uint64_t inode) {
        for (uint32_t i = 0; p && inode > 0 && i < p->n_sockets; i++)
                if (c->sockets[p->first_socket + i].inode == inode)
                        return &c->sockets[p->first_socket + i];
        return NULL;
}

const struct captured_thread *captured_main_of(const struct host_capture *c,
                                               const struct captured_process *p) {
        const struct captured_thread *first = p && p->n_threads > 0 ? &c->threads[p->first_thread] : NULL,
                                     *t;

        if (!first || first->tid == p->pid)
                return first;
        t = captured_thread_of(c, p, p->pid);
        return t ? t : first;
}

char captured_state_of(const struct captured_process *p, const struct captured_thread *t) {
        return p->state == 'T' || p->state == 't' || p->state == 'Z' || p->state == 'X' || !t || !t->state
                       ? p->state
                       : t->state;
}
