/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_part.h"

#include "utf8.h"

static char state_letter(uint32_t state) {
        return state > ' ' && state < 0x7F ? (char) state : 0;
}

static int wrong_number(struct capture_reader *r, const char *field) {
        return capture_wrong(r, -EPROTO, field, "a number that is none");
}

/* A failed addition: there are too many of them, or no memory. */
static int not_added(struct capture_reader *r, int error, const char *field) {
        return capture_wrong(r, error, field, error == -E2BIG ? "more than there can be" : strerror(-error));
}

/* --- Processes and threads ---------------------------------------------------------------------------- */

static int add_module(struct capture_reader *r, const Capture__Module *m) {
        struct captured_module module = { .start = m->start };
        int k;

        if (!capture_string_of(r, m->path, &module.path) ||
            !capture_string_of(r, m->build_id, &module.build_id))
                return wrong_number(r, "process, modules");
        k = r->detail == CAPTURE_DIAGNOSED ? 0 : host_capture_add_module(r->c, &module);
        return k < 0 ? not_added(r, k, "process, modules") : 0;
}

static int add_socket(struct capture_reader *r, const Capture__Socket *m) {
        struct captured_socket s = { .inode = m->inode,
                                     .net = m->net,
                                     .peer = m->peer,
                                     .fd = m->fd,
                                     .family = (uint8_t) MIN(m->family, (uint32_t) UINT8_MAX),
                                     .protocol = (uint8_t) MIN(m->protocol, (uint32_t) UINT8_MAX),
                                     .state = (uint8_t) MIN(m->state, (uint32_t) UINT8_MAX),
                                     .retransmits = (uint8_t) MIN(m->retransmits, (uint32_t) UINT8_MAX),
                                     .unread = m->unread,
                                     .unsent = m->unsent,
                                     .unacknowledged = m->unacknowledged,
                                     .sent_ms = m->sent_ms_plus_1 - 1, /* 0 becomes SOCKET_MS_NONE */
                                     .received_ms = m->received_ms_plus_1 - 1,
                                     .bytes_acked = m->bytes_acked,
                                     .bytes_received = m->bytes_received };
        int k;

        if (!capture_string_of(r, m->local, &s.local) || !capture_string_of(r, m->remote, &s.remote))
                return wrong_number(r, "process, sockets");
        k = host_capture_add_socket(r->c, &s);
        return k < 0 ? not_added(r, k, "process, sockets") : 0;
}

static int add_process(struct capture_reader *r, const Capture__Process *m) {
        struct captured_process *p;
        int k = host_capture_add_process(r->c, &p);

        if (k < 0)
                return not_added(r, k, "process");
        if (!capture_string_of(r, m->command, &p->command) || !capture_string_of(r, m->error, &p->error) ||
            !capture_string_of(r, m->python, &p->python) ||
            !capture_string_of(r, m->no_python, &p->no_python) ||
            !capture_string_of(r, m->kernel_by, &p->kernel_by) ||
            !capture_string_of(r, m->kernel_unknown, &p->kernel_unknown))
                return wrong_number(r, "process");
        p->pid = m->pid;
        p->rank = m->rank_plus_1 - 1;
        p->state = state_letter(m->state);
        p->other_threads = m->other_threads;
        p->parent = m->parent;
        p->children_gone = m->children_gone;
        p->cpu_usec = m->cpu_usec;
        p->start_ticks = m->start_ticks;
        for (size_t i = 0; i < m->n_modules && k == 0; i++)
                k = add_module(r, m->modules[i]);
        for (size_t i = 0; i < m->n_sockets && k == 0; i++)
                k = add_socket(r, m->sockets[i]);
        return k;
}

/* A kind of a later version is one that this program does not know. */
static uint8_t wait_kind_of(uint32_t kind) {
        return (uint8_t) (kind < _WAIT_KIND_MAX ? kind : WAIT_UNKNOWN);
}

static int add_wait(struct capture_reader *r, const Capture__Wait *m) {
        struct captured_wait w = { .kind = wait_kind_of(m->kind),
                                   .any = m->any,
                                   .writes = m->writes,
                                   .limited = m->limited,
                                   .spins = m->spins,
                                   .fd = m->fd_plus_1 - 1, /* 0 becomes WAIT_FD_NONE */
                                   .space = m->space,
                                   .number = m->number,
                                   .holder_pid = m->holder_pid,
                                   .holder_tid = m->holder_tid,
                                   .since_usec = m->since_usec };
        int k;

        if (!capture_string_of(r, m->text, &w.text))
                return wrong_number(r, "threads, waits");
        k = host_capture_add_wait(r->c, &w);
        return k < 0 ? not_added(r, k, "threads, waits") : 0;
}

static int add_end(struct capture_reader *r, const Capture__End *m) {
        struct captured_end e = { .kind = wait_kind_of(m->kind),
                                  .reads = m->reads,
                                  .writes = m->writes,
                                  .pid = m->pid,
                                  .space = m->space,
                                  .number = m->number };
        int k;

        if (!capture_string_of(r, m->command, &e.command))
                return wrong_number(r, "ends");
        k = host_capture_add_end(r->c, &e);
        return k < 0 ? not_added(r, k, "ends") : 0;
}

static int add_detail(struct capture_reader *r, const Capture__Thread *m, struct thread_detail *d) {
        d->python = m->python;
        d->interpreter = m->interpreter;
        d->python_cut = m->python_cut;
        d->native = m->n_native > 0;
        if (d->native) {
                d->merged = m->native[0]->merged;
                d->native_cut = m->native[0]->cut;
                d->pause_ns = m->native[0]->pause_ns;
        }
        return capture_string_of(r, m->python_error, &d->python_error) &&
                               (!d->native || capture_string_of(r, m->native[0]->error, &d->native_error))
                       ? 0
                       : wrong_number(r, "threads");
}

static int add_thread(struct capture_reader *r, const Capture__Thread *m) {
        struct captured_thread *t;
        int k = host_capture_add_thread(r->c, &t);

        if (k == -EINVAL)
                return capture_wrong(r, -EPROTO, "threads", "of no process");
        if (k < 0)
                return not_added(r, k, "threads");
        if (m->stack_plus_1 > r->stacks.n || !capture_string_of(r, m->name, &t->name) ||
            !capture_string_of(r, m->wait, &t->wait) || !capture_string_of(r, m->syscall, &t->syscall))
                return wrong_number(r, "threads");
        t->stack = m->stack_plus_1 > 0 ? r->stacks.items[m->stack_plus_1 - 1] : STACK_NONE;
        t->tid = m->tid;
        t->state = state_letter(m->state);
        t->gil = m->gil;
        t->changed = m->changed;
        t->cpu_usec = m->cpu_usec;
        for (size_t i = 0; i < m->n_waits && k == 0; i++)
                k = add_wait(r, m->waits[i]);
        if (k < 0)
                return k;
        return r->c->detailed ? add_detail(r, m, &r->c->details[r->c->n_threads - 1]) : 0;
}

/* --- The host ------------------------------------------------------------------------------------------ */

static int add_problem(struct capture_reader *r, const char *problem) {
        struct captured_process *p;
        int k = *problem ? host_capture_add_process(r->c, &p) : 0;

        return k < 0 || !*problem ? k : capture_text_of(r, problem, &p->error);
}

static int add_host(struct capture_reader *r, const Capture__Host *m) {
        struct host_capture *c = r->c;
        int k;

        utf8_copy(c->slice, sizeof(c->slice), m->slice);
        utf8_copy(c->host, sizeof(c->host), m->host);
        utf8_copy(c->address, sizeof(c->address), m->address);
        utf8_copy(c->episode, sizeof(c->episode), m->episode);
        c->worker = m->worker_plus_1 - 1;
        c->round = m->round_plus_1 > 0 ? m->round_plus_1 - 1 : 0;
        c->wanted = m->wanted_usec;
        c->taken = m->taken_usec;
        c->clock_error = m->clock_error_usec;
        c->step = m->step_plus_1 - 1;
        c->ended = m->ended_usec;
        c->reached = m->reached_plus_1 - 1;
        c->silent = m->silent;
        if (c->round > 1)
                return wrong_number(r, "host, round");
        k = capture_text_of(r, m->ended_how, &c->ended_how);
        if (k == 0)
                k = capture_text_of(r, m->ended_peer, &c->ended_peer);
        c->n_own = 0;
        for (size_t i = 0; i < MIN(m->n_own_addresses, (size_t) CAPTURE_OWN_MAX) && k == 0; i++)
                k = capture_text_of(r, m->own_addresses[i], &c->own[c->n_own++]);
        if (k == 0)
                k = add_problem(r, m->problem);
        return k < 0 ? not_added(r, k, "host") : 0;
}

static int add_core(struct capture_reader *r, const Capture__Core *m) {
        struct captured_core *core;
        int k = host_capture_add_core(r->c, &core);

        if (k < 0)
                return not_added(r, k, "cores");
        core->core = m->core;
        core->chip = m->chip;
        core->pc = m->pc;
        core->launch = m->launch;
        core->run = m->run;
        core->queued = m->queued;
        k = capture_text_of(r, m->fingerprint, &core->fingerprint);
        if (k == 0)
                k = capture_text_of(r, m->location, &core->location);
        if (k == 0)
                k = capture_text_of(r, m->error, &core->error);
        return k < 0 ? not_added(r, k, "cores") : 0;
}

static int add_finding(struct capture_reader *r, const Capture__Finding *m) {
        struct captured_finding *f;
        int k = host_capture_add_finding(r->c, &f);

        if (k < 0)
                return not_added(r, k, "findings");
        f->fail = m->fail;
        k = capture_text_of(r, m->check, &f->check);
        if (k == 0)
                k = capture_text_of(r, m->subject, &f->subject);
        if (k == 0)
                k = capture_text_of(r, m->found, &f->found);
        return k < 0 ? not_added(r, k, "findings") : 0;
}

int capture_part_host(struct capture_reader *r, const Capture__Part *m) {
        int k = 0;

        for (size_t i = 0; i < m->n_process && k == 0; i++)
                k = add_process(r, m->process[i]);
        for (size_t i = 0; i < m->n_threads && k == 0; i++)
                k = add_thread(r, m->threads[i]);
        for (size_t i = 0; i < m->n_host && k == 0; i++)
                k = add_host(r, m->host[i]);
        for (size_t i = 0; i < m->n_cores && k == 0; i++)
                k = add_core(r, m->cores[i]);
        for (size_t i = 0; i < m->n_findings && k == 0; i++)
                k = add_finding(r, m->findings[i]);
        for (size_t i = 0; i < m->n_ends && k == 0; i++)
                k = add_end(r, m->ends[i]);
        r->c->cut |= m->cut;
        return k;
}
