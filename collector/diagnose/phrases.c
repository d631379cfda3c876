/* SPDX-License-Identifier: Apache-2.0 */
#include "phrases.h"

#include "wait_words.h"

const struct stack_table *diagnosis_table(const struct diagnosis *d) {
        return &d->evidence.scene->table;
}

void phrase_host(FILE *f, const struct seen_host *h) {
        const char *name = h->who ? h->who->host : "", *address = h->who ? h->who->address : "";

        if (h->slice[0])
                fprintf(f, "slice %s, ", h->slice);
        if (h->worker != CAPTURE_WORKER_NONE)
                fprintf(f, "worker %" PRIu32, h->worker);
        else
                fprintf(f, "host %s", name[0] ? name : "unknown");
        if (address[0])
                fprintf(f, " (%s)", address);
        else if (h->worker != CAPTURE_WORKER_NONE && name[0])
                fprintf(f, " (%s)", name);
}

static void put_frame(FILE *f, const struct stack_table *t, uint32_t number) {
        const struct stack_frame *frame = &t->frames[number];

        fprintf(f, "`%s", base_name(stack_table_text(t, frame->file)));
        if (frame->line > 0)
                fprintf(f, ":%" PRIu32, frame->line);
        fprintf(f, " %s`", stack_table_text(t, frame->function));
}

void phrase_place(FILE *f, const struct stack_table *t, const struct place *p) {
        const char *between = " under ";

        if (p->meets)
                fprintf(f, "waits in %s", p->word);
        else if (p->kind == KIND_CPU) {
                fputs("runs", f);
                if (p->what[0])
                        fprintf(f, " in `%s`", p->what);
                between = p->what[0] ? " under " : " in ";
                if (p->frame == STACK_NONE)
                        fputs(" (its frames changed while they were read)", f);
        } else if (p->kind == WAIT_STOPPED)
                fputs("is stopped (state T)", f);
        else if (p->kind == WAIT_FROZEN)
                fputs("is frozen with its control group", f);
        else if (p->kind == KIND_ENDED)
                fputs("has exited", f);
        else if (p->deep) {
                fputs("waits uninterruptibly", f);
                if (p->what[0])
                        fprintf(f, " in `%s`", p->what);
        } else if (p->kind == WAIT_TIMER)
                fputs("sleeps", f);
        else if (p->word[0])
                fprintf(f, "waits for %s", p->word);
        else if (startswith(p->what, "a ") || startswith(p->what, "an "))
                fprintf(f, "waits for %s", p->what);
        else if (p->kind == KIND_UNKNOWN)
                fputs("could not be read", f);
        else
                fprintf(f, "is in `%s`", p->what[0] ? p->what : "a call");
        if (p->frame != STACK_NONE) {
                fputs(between, f);
                put_frame(f, t, p->frame);
        }
}

/* --- The chain --------------------------------------------------------------------------------------- */

/* What a thread of the chain waits for: what the kernel and the memory say, else where it stands. */
static void put_step(FILE *f, const struct diagnosis *d, const struct host_capture *c,
                     const struct chain_step *step, const struct place *p) {
        char words[WAIT_WORDS_MAX];

        if (!step->wait || step->wait->kind == WAIT_UNKNOWN || p->kind == WAIT_STOPPED || p->meets) {
                phrase_place(f, diagnosis_table(d), p);
                return;
        }
        wait_words(c, diagnosis_table(d), step->process, step->wait, words);
        fputs(words, f);
        if (p->frame != STACK_NONE) {
                fputs(" under ", f);
                put_frame(f, diagnosis_table(d), p->frame);
        }
}

/* The wait before says who it is. */
static bool is_said(const struct chain_step *before, const struct chain_step *step) {
        return before->wait && before->wait->holder_tid > 0 && step->thread &&
               step->thread->tid == before->wait->holder_tid;
}

static void put_subject(FILE *f, const struct diagnosis *d, const struct chain_step *before,
                        const struct chain_step *step) {
        const struct stack_table *t = diagnosis_table(d);
        const char *command = stack_table_text(t, step->process->command);

        if (is_said(before, step))
                fputs("that one ", f);
        else if (step->process == before->process && step->thread && before->thread &&
                 step->thread->name == before->thread->name) /* a name that tells them not apart */
                fprintf(f, "its thread %" PRIu32 " ", step->thread->tid);
        else if (step->process == before->process && step->thread)
                fprintf(f, "its thread \"%s\" ", stack_table_text(t, step->thread->name));
        else
                fprintf(f, "process %" PRIu32 "%s%.60s%s ", step->process->pid, command[0] ? " (`" : "",
                        command, command[0] ? "`)" : "");
}

static bool holds_it_itself(const struct chain_step *step) {
        return step->wait && step->thread && step->wait->holder_tid == step->thread->tid;
}

static void put_end_of_chain(FILE *f, const struct diagnosis *d, const struct wait_chain *c) {
        if (c->deserted)
                fputs(c->kind == WAIT_CHILD ? ", whose other end nobody has: a child of it has ended"
                                            : ", whose other end nobody has",
                      f);
        else if (c->end == END_CIRCLE)
                fputs(holds_it_itself(&c->steps[c->n - 1]) ? ": it waits for itself, a deadlock"
                                                           : ": they wait for each other, a deadlock",
                      f);
        else if (c->end == END_OUTSIDE && c->kind == WAIT_SOCKET)
                fputs(", which is no host of the run", f);
        else if (c->end == END_OUTSIDE)
                fprintf(f, ", which `%s` outside of the run has",
                        stack_table_text(diagnosis_table(d), c->outside));
        else if (c->kind == WAIT_THROTTLED && !c->steps[c->n - 1].wait)
                fputs(", and gets next to no CPU", f);
        else if (!c->solid && c->n > 1)
                fputs(", as on no other host", f);
}

/* The threads behind the first, up to where the chain ends. */
static void put_chain(FILE *f, const struct diagnosis *d, uint32_t rank) {
        const struct wait_chain *c = &d->graph.chains[rank];
        const struct host_capture *capture = d->evidence.hosts[d->evidence.ranks[rank].host].last;

        for (uint32_t i = 1; i < c->n; i++) {
                const struct chain_step *step = &c->steps[i];
                struct place p = { .kind = c->kind, .what = "", .word = "", .frame = STACK_NONE };

                if (step->thread)
                        p = place_of(&d->evidence.scene->table, d->evidence.codes, capture, step->thread,
                                     captured_state_of(step->process, step->thread));
                fputs("; ", f);
                put_subject(f, d, &c->steps[i - 1], step);
                put_step(f, d, capture, step, &p);
        }
        put_end_of_chain(f, d, c);
}

void phrase_chain(FILE *f, const struct diagnosis *d, uint32_t rank) {
        const struct rank *r = &d->evidence.ranks[rank];
        const struct wait_chain *c = &d->graph.chains[rank];

        if (r->place.kind == WAIT_STOPPED || r->place.kind == KIND_ENDED)
                fprintf(f, "its process %" PRIu32, r->pid);
        else if (d->evidence.thread_name[0])
                fprintf(f, "its thread \"%s\"", d->evidence.thread_name);
        else
                fputs("its main thread", f);
        if (d->evidence.hosts[r->host].n_ranks > 1 && r->number != CAPTURE_RANK_NONE)
                fprintf(f, " (rank %" PRIu32 ")", r->number);
        else if (d->evidence.hosts[r->host].n_ranks > 1)
                fprintf(f, " (process %" PRIu32 ")", r->pid);
        fputc(' ', f);
        if (c->joins || c->exchanges) {
                const struct stack_table *t = diagnosis_table(d);
                uint32_t library = c->joins ? STACK_NONE : waiting_library(t, c->steps[0].thread->stack);

                if (c->joins)
                        fputs("seems to wait for other ranks, in the library code in which most of them "
                              "wait",
                              f);
                else
                        fprintf(f, "seems to wait for other ranks, in %s, which watches connections to them",
                                stack_table_text(t, library));
                if (r->place.frame != STACK_NONE) {
                        fputs(c->joins ? ", but under " : ", under ", f);
                        put_frame(f, t, r->place.frame);
                }
                return;
        }
        put_step(f, d, d->evidence.hosts[r->host].last, &c->steps[0], &r->place);
        put_chain(f, d, rank);
}

/* --- The others ------------------------------------------------------------------------------------ */

/* How many of the hosts that are not odd wait with all of their ranks. word: in that; NULL: wherever. */
static size_t count_waiting(const struct diagnosis *d, const char *word) {
        const struct evidence *e = &d->evidence;
        size_t n = 0;

        for (size_t i = 0; i < e->n_hosts; i++) {
                const struct seen_host *h = &e->hosts[i];
                bool waits = h->n_ranks > 0 && !(d->odd && d->odd[i]);

                for (uint32_t k = h->first_rank; waits && k < h->first_rank + h->n_ranks; k++) {
                        const struct place *p = &e->ranks[k].place;

                        waits = d->graph.nodes[k].waits && (!word || (p->meets && streq(p->word, word)));
                }
                n += waits;
        }
        return n;
}

#define WORDS_SHOWN 3u
#define WORDS_MAX 32u /* different ones that are looked at; place.c has about as many */

/* " in all-reduce"; where they wait in several, each with how many: " in all-reduce (2) and broadcast (1)";
 * where no word says in what: " for it". */
static void put_words(FILE *f, const struct diagnosis *d, size_t waiting) {
        const struct evidence *e = &d->evidence;
        const char *seen[WORDS_MAX];
        size_t n = 0, n_seen = 0, left = waiting;

        for (size_t i = 0; i < e->n_classes && n < WORDS_SHOWN && left > 0; i++) {
                const struct place *p = &e->classes[i].place;
                size_t of_it, k = 0;

                while (k < n_seen && !streq(seen[k], p->word))
                        k++;
                if (!p->meets || k < n_seen || n_seen == WORDS_MAX)
                        continue; /* k: from another line, counted already */
                seen[n_seen++] = p->word;
                of_it = count_waiting(d, p->word);
                if (of_it == 0)
                        continue;
                left -= of_it;
                fprintf(f, "%s%s", n == 0 ? " in " : left == 0 ? " and " : ", ", p->word);
                if (of_it < waiting)
                        fprintf(f, " (%zu)", of_it);
                n++;
        }
        if (left > 0 && n > 0)
                fprintf(f, " and elsewhere (%zu)", left);
        else if (n == 0)
                fputs(" for it", f);
}

/* What lies unread at the host, in kB. */
static void put_unread(FILE *f, const struct diagnosis *d, uint32_t host) {
        const struct seen_host *h = &d->evidence.hosts[host];
        uint64_t unread = 0;

        for (uint32_t i = h->first_rank; i < h->first_rank + h->n_ranks; i++)
                unread += d->graph.debts.ranks[i].unread;
        if (unread >= 1000)
                fprintf(f, " (%" PRIu64 " kB from them lie unread there)", unread / 1000);
        else if (unread > 0)
                fprintf(f, " (%" PRIu64 " bytes from them lie unread there)", unread);
}

void phrase_others(FILE *f, const struct diagnosis *d, uint32_t host) {
        size_t others = d->evidence.n_hosts - MIN(d->n_odd, d->evidence.n_hosts), n = count_waiting(d, NULL);

        if (n == 0)
                return;
        if (n == others && others == 1)
                fputs(", the other one waits", f);
        else if (n == others)
                fprintf(f, ", the %zu others wait", others);
        else
                fprintf(f, ", %zu of the %zu others wait%s", n, others, n == 1 ? "s" : "");
        put_words(f, d, n);
        put_unread(f, d, host);
}
