/* SPDX-License-Identifier: Apache-2.0 */
#include "sentence.h"

#include "ranks.h"
#include "paths.h"
#include "utf8.h"

static FILE *open_text(char *text, size_t size) {
        FILE *f = fmemopen(text, size, "w"); /* ends in NUL, cut at size */

        text[0] = 0;
        return f;
}

static void close_text(FILE *f, char *text, size_t size) {
        (void) fclose(f); /* into memory */
        text[size - 1] = 0;
        (void) utf8_scrub(text, strlen(text)); /* what was cut may end within a character */
}

static const struct stack_table *table_of(const struct diagnosis *d) {
        return &d->evidence.scene->table;
}

/* "slice 1, worker 5 (10.10.0.15)". */
static void sentence_host(FILE *f, const struct seen_host *h) {
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

static const char *what_of(const char *what) {
        return what[0] ? what : "a call";
}

/* "is in `read` under `dataset.py:88 next_batch`". */
static void sentence_place(FILE *f, const struct stack_table *t, const struct rank_class *c) {
        const char *between = " under ";

        switch (c->standing) {
        case STANDING_COLLECTIVE:
                fprintf(f, "waits in %s", c->what);
                break;
        case STANDING_RUNS:
                fputs("runs", f);
                if (c->what[0])
                        fprintf(f, " in `%s`", c->what);
                between = c->what[0] ? " under " : " in ";
                if (c->frame == STACK_NONE)
                        fputs(" (its frames changed while they were read)", f);
                break;
        case STANDING_CALL:
                fprintf(f, "is in `%s`", what_of(c->what));
                break;
        case STANDING_LOCK:
        case STANDING_THREADS:
                fprintf(f, "waits for %s", c->what);
                break;
        case STANDING_SLEEPS:
                fputs("sleeps", f);
                break;
        case STANDING_DISK:
                fputs("waits uninterruptibly", f);
                if (c->what[0])
                        fprintf(f, " in `%s`", c->what);
                break;
        case STANDING_STOPPED:
                fputs("is stopped (state T)", f);
                break;
        case STANDING_ENDED:
                fputs("has exited", f);
                break;
        case STANDING_UNKNOWN:
        case STANDING_SILENT:
        case _STANDING_MAX:
                fputs("could not be read", f);
                break;
        }
        if (c->frame != STACK_NONE) {
                fputs(between, f);
                put_frame(f, t, c->frame);
        }
}

/* --- The others ------------------------------------------------------------------------------------ */

/* How many of the hosts that are not odd wait in a collective with all of their ranks. what: in that one;
 * NULL: in any. */
static size_t count_waiting(const struct diagnosis *d, const char *what) {
        const struct evidence *e = &d->evidence;
        size_t n = 0;

        for (size_t i = 0; i < e->n_hosts; i++) {
                const struct seen_host *h = &e->hosts[i];
                bool waits = h->n_ranks > 0 && !(d->odd && d->odd[i]);

                for (uint32_t k = 0; waits && k < h->n_ranks; k++) {
                        const struct place *p = &e->ranks[h->first_rank + k].place;

                        waits = p->standing == STANDING_COLLECTIVE && (!what || streq(p->what, what));
                }
                n += waits;
        }
        return n;
}

#define COLLECTIVES_SHOWN 3u
#define COLLECTIVES_MAX   32u /* different ones that are looked at; waits.c has about as many */

/* "all-reduce"; where they wait in several, each with how many: "all-reduce (2) and broadcast (1)". */
static void put_collectives(FILE *f, const struct diagnosis *d, size_t waiting) {
        const struct evidence *e = &d->evidence;
        const char *seen[COLLECTIVES_MAX];
        size_t n = 0, n_seen = 0, left = waiting;

        for (size_t i = 0; i < e->n_classes && n < COLLECTIVES_SHOWN && left > 0; i++) {
                const char *what = e->classes[i].what;
                size_t of_it, k = 0;

                while (k < n_seen && !streq(seen[k], what))
                        k++;
                if (e->classes[i].standing != STANDING_COLLECTIVE || k < n_seen || n_seen == COLLECTIVES_MAX)
                        continue; /* k: from another line, counted already */
                seen[n_seen++] = what;
                of_it = count_waiting(d, what);
                if (of_it == 0)
                        continue;
                left -= of_it;
                fprintf(f, "%s%s", n == 0 ? "" : left == 0 ? " and " : ", ", what);
                if (of_it < waiting)
                        fprintf(f, " (%zu)", of_it);
                n++;
        }
        if (left > 0)
                fprintf(f, "%s (%zu)", n > 0 ? " and others" : "collectives", left);
}

/* ", the 63 others wait in all-reduce": what those who are not odd do. */
static void put_others(FILE *f, const struct diagnosis *d) {
        size_t others = d->evidence.n_hosts - MIN(d->n_odd, d->evidence.n_hosts), n = count_waiting(d, NULL);

        if (n == 0)
                return;
        if (n == others && others == 1)
                fputs(", the other one waits in ", f);
        else if (n == others)
                fprintf(f, ", the %zu others wait in ", others);
        else
                fprintf(f, ", %zu of the %zu others wait%s in ", n, others, n == 1 ? "s" : "");
        put_collectives(f, d, n);
}

static void put_count(FILE *f, const struct diagnosis *d) {
        size_t n = MAX(d->n_odd, (size_t) 1);

        fprintf(f, "%zu of %zu %s different", n, d->evidence.n_hosts, n == 1 ? "is" : "are");
}

/* --- Sentences ------------------------------------------------------------------------------------- */

static void put_thread(FILE *f, const struct diagnosis *d, const struct suspect *s) {
        const struct rank *r = &d->evidence.ranks[s->rank];
        struct rank_class place = { .standing = r->place.standing,
                                    .what = r->place.what,
                                    .frame = r->place.frame,
                                    .own = r->place.own };

        if (place.standing == STANDING_STOPPED || place.standing == STANDING_ENDED)
                fprintf(f, "its process %" PRIu32, r->pid);
        else if (d->evidence.thread_name[0])
                fprintf(f, "its thread \"%s\"", d->evidence.thread_name);
        else
                fputs("its main thread", f);
        if (d->evidence.hosts[s->host].n_ranks > 1 && r->number != CAPTURE_RANK_NONE)
                fprintf(f, " (rank %" PRIu32 ")", r->number);
        else if (d->evidence.hosts[s->host].n_ranks > 1)
                fprintf(f, " (process %" PRIu32 ")", r->pid);
        fputc(' ', f);
        sentence_place(f, table_of(d), &place);
}

static void put_device(FILE *f, const struct diagnosis *d, const struct captured_core *c) {
        const struct stack_table *t = table_of(d);

        fprintf(f, "its TPU core %" PRIu32 " ", c->core);
        switch (core_judge(&d->cores, c)) {
        case CORE_ERROR:
                fprintf(f, "reports \"%s\"", stack_table_text(t, c->error));
                break;
        case CORE_OTHER_PROGRAM:
                fprintf(f, "has program %s, most others have %s", stack_table_text(t, c->fingerprint),
                        stack_table_text(t, d->cores.program));
                break;
        case CORE_BEHIND:
                fprintf(f, "is at launch %" PRId64 ", most others are at %" PRId64, c->launch,
                        d->cores.launch);
                break;
        case CORE_ODD_COUNTER:
                fprintf(f,
                        "is at %s (program counter %" PRId64 "), %zu of %zu cores are at %s (%" PRId64 ")",
                        stack_table_text(t, c->location)[0] ? stack_table_text(t, c->location)
                                                            : "an unknown location",
                        c->pc, d->cores.n_same, d->cores.n,
                        stack_table_text(t, d->cores.location)[0] ? stack_table_text(t, d->cores.location)
                                                                  : "another location",
                        d->cores.pc);
                break;
        case CORE_NO_INPUT:
                fputs("waits for input (program counter 0), most others do not", f);
                break;
        case CORE_LIKE_OTHERS:
        case _CORE_STATE_MAX:
                break;
        }
}

static void put_end(FILE *f, const struct diagnosis *d, const struct suspect *s) {
        const struct host_capture *c = d->evidence.hosts[s->host].last;
        const char *how = stack_table_text(table_of(d), c->ended_how);
        usec_t next = USEC_INFINITY;
        bool first = c->ended > 0;

        for (size_t i = 0; i < d->evidence.n_hosts; i++) {
                const struct host_capture *other = d->evidence.hosts[i].last;

                if (i == s->host || !other || !other->ended)
                        continue;
                first &= other->ended >= c->ended;
                next = MIN(next, other->ended);
        }
        fprintf(f, "its process has left the run%s%s%s", how[0] ? " (" : "", how, how[0] ? ")" : "");
        if (first && next != USEC_INFINITY)
                fprintf(f, " first, %.1f s before the next",
                        (double) (next - c->ended) / (double) USEC_PER_SEC);
        else if (!first && next != USEC_INFINITY && c->ended > next)
                fprintf(f, " %.1f s after the first", (double) (c->ended - next) / (double) USEC_PER_SEC);
}

static void put_finding(FILE *f, const struct diagnosis *d, const struct captured_finding *finding) {
        const struct stack_table *t = table_of(d);
        const char *subject = stack_table_text(t, finding->subject),
                   *found = stack_table_text(t, finding->found);

        fprintf(f, "its check %s %s%s%s%s%s", stack_table_text(t, finding->check), subject[0] ? "of " : "",
                subject, subject[0] ? " " : "", finding->fail ? "fails" : "warns", found[0] ? ": " : "");
        fputs(found, f);
}

static void put_end_of(FILE *f, const struct path_end *end) {
        fprintf(f, "%.*s", (int) end->len, end->address);
        if (end->nic)
                fprintf(f, " (%.*s)", (int) strcspn(end->nic, " "), end->nic);
}

static void put_path(FILE *f, const struct diagnosis *d, const struct path_end *end) {
        fputs("packets between its address ", f);
        put_end_of(f, end);
        if (d->paths.verdict == PATHS_PAIR) {
                const struct seen_host *other = &d->evidence.hosts[end->other->host];

                fputs(" and ", f);
                put_end_of(f, end->other);
                if (other->worker != CAPTURE_WORKER_NONE)
                        fprintf(f, " of worker %" PRIu32, other->worker);
                else if (other->who && other->who->host[0])
                        fprintf(f, " of host %s", other->who->host);
                fputs(" alone are lost: one of these two NICs, or what lies between", f);
        } else
                fprintf(f, " and %" PRIu32 " other%s are lost", end->missing, end->missing == 1 ? "" : "s");
}

/* What the agent of that host said of the path, else the agent at its other end. */
static void put_quote(FILE *f, const struct diagnosis *d, const struct suspect *s) {
        const char *words = link_quote_own(&d->evidence, s->host, s->path);
        uint32_t other;

        if (words)
                fprintf(f, "; %s", words);
        else if (s->path && (words = link_quote_of(&d->evidence, s->path, &other))) {
                fputs("; ", f);
                sentence_host(f, &d->evidence.hosts[other]);
                fprintf(f, " says: %s", words);
        }
}

static void put_reason(FILE *f, const struct diagnosis *d, const struct suspect *s, enum reason reason) {
        switch (reason) {
        case REASON_PLACE:
        case REASON_STOPPED:
        case REASON_COLLECTIVE:
        case REASON_DIFFERENT:
                put_thread(f, d, s);
                break;
        case REASON_LEFT:
                put_end(f, d, s);
                break;
        case REASON_SILENT:
                fputs("it did not answer", f);
                break;
        case REASON_DEVICE:
                put_device(f, d, s->core);
                break;
        case REASON_STEP:
                fprintf(f, "its last step is %" PRIu64, d->evidence.hosts[s->host].last->step);
                break;
        case REASON_PATH:
                put_path(f, d, s->path);
                break;
        case REASON_FINDING:
                put_finding(f, d, s->finding);
                break;
        case _REASON_MAX:
                break;
        }
}

/* What the thread that is evidence waits for, when another one of its host shows it. */
static void put_behind(FILE *f, const struct diagnosis *d, const struct rank *r) {
        struct place p;
        const struct captured_thread *t = behind_find(&d->evidence, d->shared, r, &p);
        struct rank_class place;

        if (!t)
                return;
        place = (struct rank_class){
                .standing = p.standing, .what = p.what, .frame = p.frame, .own = p.own
        };
        fprintf(f, "its thread \"%s\" ", stack_table_text(table_of(d), t->name));
        sentence_place(f, table_of(d), &place);
        fputs(", as on no other host\n", f);
}

static char state_of(const struct rank *r) {
        return r->process[1] ? r->process[1]->state : r->process[0] ? r->process[0]->state : 0;
}

static void put_details(FILE *f, const struct diagnosis *d, const struct suspect *s) {
        const struct seen_host *h = &d->evidence.hosts[s->host];
        const struct rank *r = s->rank != STACK_NONE ? &d->evidence.ranks[s->rank] : NULL;

        if (r && r->both && r->moved)
                fputs("it moved between the two captures: slow or looping, not stuck in one place\n", f);
        else if (r && r->both && r->place.standing == STANDING_RUNS)
                fputs("both captures show it running at the same place: a loop, or one long call\n", f);
        else if (r && r->both && r->place.standing != STANDING_STOPPED)
                fputs("both captures show it at the same place: stuck\n", f);
        if (s->saves && s->moved)
                fputs("it writes, and gets on: a save that takes long, or a slow file system\n", f);
        if (r && s->reason == REASON_STOPPED && state_of(r) == 'T')
                fprintf(f, "kill -CONT %" PRIu32 " on that host lets it go on\n", r->pid);
        if (r)
                put_behind(f, d, r);
        for (enum reason i = 0; i < _REASON_MAX; i++)
                if (i != s->reason && s->parts[i] > 0 && i > REASON_DIFFERENT) {
                        fputs("also: ", f);
                        put_reason(f, d, s, i);
                        fputc('\n', f);
                }
        if (s->reason != REASON_PATH && link_quote_own(&d->evidence, s->host, NULL))
                fprintf(f, "its network: %s\n", link_quote_own(&d->evidence, s->host, NULL));
        if (h->last && host_capture_lateness(h->last) > USEC_PER_SEC)
                fprintf(f, "captured %.1f s late\n",
                        (double) host_capture_lateness(h->last) / (double) USEC_PER_SEC);
        if (h->last && h->last->clock_error > USEC_PER_SEC &&
            s->parts[REASON_LEFT] > 0) /* its times count */
                fprintf(f, "its clock may be wrong by %.1f s\n",
                        (double) h->last->clock_error / (double) USEC_PER_SEC);
        if (h->last && h->last->cut)
                fputs("its capture was cut: it is not complete\n", f);
}

void sentence_suspect(const struct diagnosis *d, struct suspect *s) {
        FILE *f = open_text(s->sentence, sizeof(s->sentence));

        if (f) {
                sentence_host(f, &d->evidence.hosts[s->host]);
                fputs(": ", f);
                if (s->reason != REASON_FINDING && s->reason != REASON_LEFT && s->reason != REASON_SILENT) {
                        put_count(f, d);
                        fputs("; ", f);
                }
                put_reason(f, d, s, s->reason);
                if (s->reason != REASON_DEVICE && s->reason != REASON_FINDING)
                        put_others(f, d);
                if (s->reason == REASON_PATH)
                        put_quote(f, d, s);
                close_text(f, s->sentence, sizeof(s->sentence));
        }
        f = open_text(s->details, sizeof(s->details));
        if (f) {
                put_details(f, d, s);
                close_text(f, s->details, sizeof(s->details));
        }
}

static void put_nobody(FILE *f, const struct diagnosis *d) {
        const struct evidence *e = &d->evidence;
        const char *words;
        uint32_t host;

        if (d->n_stopped > 0 && d->n_stopped == e->n_ranks)
                fputs("every process of the run is stopped (state T): somebody stopped the run", f);
        else if (d->n_waiting > 0 && d->n_waiting == e->n_ranks)
                fprintf(f,
                        "all %zu ranks wait for the others (%s): their stacks do not show whose fault it is",
                        e->n_ranks, e->classes[0].what);
        else
                fputs("no host stands out", f);
        words = link_quote_of(e, NULL, &host);
        if (!words)
                return;
        fputs("; ", f);
        sentence_host(f, &e->hosts[host]);
        fprintf(f, " says: %s", words);
}

void sentence_summary(struct diagnosis *d) {
        const struct evidence *e = &d->evidence;
        FILE *f;

        if (d->outcome == OUTCOME_NAMED) {
                memcpy(d->summary, d->suspects[0].sentence, sizeof(d->summary));
                return;
        }
        f = open_text(d->summary, sizeof(d->summary));
        if (!f)
                return;
        switch (d->outcome) {
        case OUTCOME_NOBODY:
                put_nobody(f, d);
                break;
        case OUTCOME_GOES_ON:
                fputs("the run goes on: no stall", f);
                if (d->n_stopped > 0)
                        fprintf(f, ", although %zu of %zu processes %s stopped", d->n_stopped, e->n_ranks,
                                d->n_stopped == 1 ? "is" : "are");
                break;
        case OUTCOME_WORKS:
                fprintf(f,
                        "no step, but nobody waits for another: %zu of %zu ranks do something; the largest "
                        "group ",
                        d->n_active, e->n_ranks);
                sentence_place(f, table_of(d), &e->classes[0]);
                break;
        case OUTCOME_NO_EVIDENCE:
                fputs(e->n_silent > 0 ? "no host answered" : "no capture shows a process of a run", f);
                break;
        case OUTCOME_NAMED:
        case _OUTCOME_MAX:
                break;
        }
        close_text(f, d->summary, sizeof(d->summary));
}
