/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A capture that a test has made, as its bytes. */
#include "capture_write.h"
#include "test.h"

/* The processes are written as tpu-stack does, the host as tpu-hostd does. *ret is malloc'ed. */
static inline void capture_bytes(const struct host_capture *c, struct stack_table *t, uint8_t **ret,
                                 size_t *ret_len) {
        Capture__Part part = CAPTURE__PART__INIT, end = CAPTURE__PART__INIT;
        Capture__Host h = CAPTURE__HOST__INIT, *hosts[] = { &h };
        char *own[CAPTURE_OWN_MAX];
        struct capture_writer w;

        ASSERT_OK(capture_writer_init(&w));
        w.table = *t; /* lent */
        for (size_t i = 0; i < c->n_processes; i++) {
                const struct captured_process *from = &c->processes[i];
                struct captured_process *p;

                ASSERT_OK(host_capture_add_process(&w.c, &p));
                *p = *from;
                p->first_thread = p->n_threads = p->first_module = p->n_modules = 0;
                p->first_socket = p->n_sockets = 0;
                for (uint32_t k = 0; k < from->n_sockets; k++)
                        ASSERT_OK(host_capture_add_socket(&w.c, &c->sockets[from->first_socket + k]));
                for (uint32_t k = 0; k < from->n_threads; k++) {
                        const struct captured_thread *given = &c->threads[from->first_thread + k];
                        struct captured_thread *th;

                        ASSERT_OK(host_capture_add_thread(&w.c, &th));
                        *th = *given;
                        th->first_wait = (uint32_t) w.c.n_waits;
                        th->n_waits = 0;
                        for (uint32_t n = 0; n < given->n_waits; n++)
                                ASSERT_OK(host_capture_add_wait(&w.c, &c->waits[given->first_wait + n]));
                        if (c->detailed)
                                w.c.details[w.c.n_threads - 1] = c->details[from->first_thread + k];
                        ASSERT_OK(capture_writer_thread(&w));
                }
                ASSERT_OK(capture_writer_process(&w));
        }
        for (size_t i = 0; i < c->n_ends; i++)
                ASSERT_OK(host_capture_add_end(&w.c, &c->ends[i]));
        if (c->n_ends > 0)
                ASSERT_OK(capture_writer_process(&w));
        h.slice = capture_part_text(c->slice);
        h.host = capture_part_text(c->host);
        h.address = capture_part_text(c->address);
        h.episode = capture_part_text(c->episode);
        h.worker_plus_1 = c->worker + 1;
        h.round_plus_1 = c->round + 1;
        h.wanted_usec = c->wanted;
        h.taken_usec = c->taken;
        h.clock_error_usec = c->clock_error;
        h.step_plus_1 = c->step + 1;
        h.ended_usec = c->ended;
        h.ended_how = capture_part_text(stack_table_text(t, c->ended_how));
        for (size_t i = 0; i < c->n_own; i++)
                own[h.n_own_addresses++] = capture_part_text(stack_table_text(t, c->own[i]));
        h.own_addresses = own;
        h.reached_plus_1 = c->reached + 1;
        h.silent = c->silent;
        part.version = w.raw == 0;
        part.host = hosts;
        part.n_host = 1;
        ASSERT_OK(capture_writer_add(&w, &part, false));
        for (size_t i = 0; i < c->n_cores; i++) {
                Capture__Core core = CAPTURE__CORE__INIT, *list[] = { &core };

                part = end;
                core.core = c->cores[i].core;
                core.chip = c->cores[i].chip;
                core.pc = c->cores[i].pc;
                core.launch = c->cores[i].launch;
                core.run = c->cores[i].run;
                core.queued = c->cores[i].queued;
                core.fingerprint = capture_part_text(stack_table_text(t, c->cores[i].fingerprint));
                core.location = capture_part_text(stack_table_text(t, c->cores[i].location));
                core.error = capture_part_text(stack_table_text(t, c->cores[i].error));
                part.cores = list;
                part.n_cores = 1;
                ASSERT_OK(capture_writer_add(&w, &part, false));
        }
        for (size_t i = 0; i < c->n_findings; i++) {
                Capture__Finding f = CAPTURE__FINDING__INIT, *list[] = { &f };

                part = end;
                f.check = capture_part_text(stack_table_text(t, c->findings[i].check));
                f.subject = capture_part_text(stack_table_text(t, c->findings[i].subject));
                f.found = capture_part_text(stack_table_text(t, c->findings[i].found));
                f.fail = c->findings[i].fail;
                part.findings = list;
                part.n_findings = 1;
                ASSERT_OK(capture_writer_add(&w, &part, false));
        }
        end.cut = c->cut;
        ASSERT_OK(capture_writer_add(&w, &end, true));
        *ret = malloc(w.len);
        ASSERT_TRUE(*ret != NULL);
        memcpy(*ret, w.data, w.len);
        *ret_len = w.len;
        w.table = STACK_TABLE_NULL;
        capture_writer_clear(&w);
}
