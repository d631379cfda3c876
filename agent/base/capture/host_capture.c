/* SPDX-License-Identifier: Apache-2.0 */
#include "host_capture.h"

#include "grow.h"

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
        host_capture_init(c);
}

int host_capture_add_process(struct host_capture *c, struct captured_process **ret) {
        int r = c->n_processes >= CAPTURE_PROCESSES_MAX
                        ? -E2BIG
                        : grow(&c->processes, &c->processes_size, c->n_processes + 1, sizeof(*c->processes));

        if (r < 0)
                return r;
        *ret = &c->processes[c->n_processes++];
        **ret = (struct captured_process){ .rank = CAPTURE_RANK_NONE,
                                           .first_thread = (uint32_t) c->n_threads };
        return 0;
}

int host_capture_add_thread(struct host_capture *c, struct captured_thread **ret) {
        int r = c->n_threads >= CAPTURE_THREADS_MAX
                        ? -E2BIG
                        : grow(&c->threads, &c->threads_size, c->n_threads + 1, sizeof(*c->threads));

        if (c->n_processes == 0)
                return -EINVAL;
        if (r < 0)
                return r;
        *ret = &c->threads[c->n_threads++];
        **ret = (struct captured_thread){ .stack = STACK_NONE };
        c->processes[c->n_processes - 1].n_threads++;
        return 0;
}

int host_capture_add_core(struct host_capture *c, struct captured_core **ret) {
        int r = c->n_cores >= CAPTURE_CORES_MAX
                        ? -E2BIG
                        : grow(&c->cores, &c->cores_size, c->n_cores + 1, sizeof(*c->cores));

        if (r < 0)
                return r;
        *ret = &c->cores[c->n_cores++];
        **ret = (struct captured_core){ 0 };
        return 0;
}

int host_capture_add_finding(struct host_capture *c, struct captured_finding **ret) {
        int r = c->n_findings >= CAPTURE_FINDINGS_MAX
                        ? -E2BIG
                        : grow(&c->findings, &c->findings_size, c->n_findings + 1, sizeof(*c->findings));

        if (r < 0)
                return r;
        *ret = &c->findings[c->n_findings++];
        **ret = (struct captured_finding){ 0 };
        return 0;
}

usec_t host_capture_lateness(const struct host_capture *c) {
        return c->wanted > 0 && c->taken > c->wanted ? c->taken - c->wanted : 0;
}

void host_capture_renumber(struct host_capture *c, const struct stack_map *m) {
        c->ended_how = m->strings[c->ended_how];
        for (size_t i = 0; i < c->n_own; i++)
                c->own[i] = m->strings[c->own[i]];
        for (size_t i = 0; i < c->n_processes; i++) {
                c->processes[i].command = m->strings[c->processes[i].command];
                c->processes[i].error = m->strings[c->processes[i].error];
        }
        for (size_t i = 0; i < c->n_threads; i++) {
                struct captured_thread *t = &c->threads[i];

                t->stack = t->stack == STACK_NONE ? STACK_NONE : m->stacks[t->stack];
                t->name = m->strings[t->name];
                t->wait = m->strings[t->wait];
                t->syscall = m->strings[t->syscall];
        }
        for (size_t i = 0; i < c->n_cores; i++) {
                c->cores[i].fingerprint = m->strings[c->cores[i].fingerprint];
                c->cores[i].location = m->strings[c->cores[i].location];
                c->cores[i].error = m->strings[c->cores[i].error];
        }
        for (size_t i = 0; i < c->n_findings; i++) {
                c->findings[i].check = m->strings[c->findings[i].check];
                c->findings[i].subject = m->strings[c->findings[i].subject];
                c->findings[i].found = m->strings[c->findings[i].found];
        }
}
