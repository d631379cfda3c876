/* SPDX-License-Identifier: Apache-2.0 */
#include "sentence.h"

#include "phrases.h"
#include "ranks.h"
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

/* --- Sentences ------------------------------------------------------------------------------------- */

/* The others' waits lead there, and its own threads do not say why. */
static void put_owes(FILE *f, const struct diagnosis *d, const struct suspect *s) {
        const struct graph_node *n = &d->graph.nodes[s->rank];
        const struct rank_debts *debts = &d->graph.debts.ranks[s->rank];

        if (n->in_circle)
                fputs("it is in a circle of hosts of which each waits for the next one's data; ", f);
        else if (n->behind == CIRCLE_LATE)
                fputs("it sent less than the others who wait for the same host, and stopped before them; ",
                      f);
        else if (debts->owes_ms > d->graph.debts.margin_ms)
                fprintf(f,
                        "it received data %.2f s after it last sent, and has sent nothing for %" PRIu32
                        " s; ",
                        (double) debts->owes_ms / 1000, debts->silent_ms / 1000);
        else if (n->behind == CIRCLE_PLACE)
                fputs("it stands elsewhere than the others, and all wait for each other; ", f);
        else if (n->behind == CIRCLE_STEP)
                fprintf(f,
                        "it is a step behind the others that wait for each other (its last is %" PRIu64
                        "); ",
                        d->evidence.hosts[s->host].last->step);
        else
                fputs("the waits of the others lead there; ", f);
        phrase_chain(f, d, s->rank);
}

static void put_device(FILE *f, const struct diagnosis *d, const struct captured_core *c) {
        const struct stack_table *t = diagnosis_table(d);

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
        const char *how = stack_table_text(diagnosis_table(d), c->ended_how);
        usec_t next = USEC_INFINITY;
        bool first = c->ended > 0;

        for (size_t i = 0; i < d->evidence.n_hosts; i++) {
                const struct host_capture *other = d->evidence.hosts[i].last;

                if (i == s->host || !other || !other->ended)
                        continue;
                first &= other->ended >= c->ended;
                next = MIN(next, other->ended);
        }
        if (c->ended > 0 && c->ended == d->left.first) { /* of those that are no effect of another's */
                first = true;
                next = d->left.next;
        }
        fprintf(f, "its process has left the run%s%s%s", how[0] ? " (" : "", how, how[0] ? ")" : "");
        if (s->host == d->left.named && d->left.by_lost)
                fputs(", and the others lost their connections to it", f);
        else if (s->host == d->left.named && !first)
                fputs(", as no other did", f);
        else if (first && next != USEC_INFINITY)
                fprintf(f, " first, %.1f s before the next",
                        (double) (next - c->ended) / (double) USEC_PER_SEC);
        else if (!first && next != USEC_INFINITY && c->ended > next)
                fprintf(f, " %.1f s after the first", (double) (c->ended - next) / (double) USEC_PER_SEC);
}

static void put_finding(FILE *f, const struct diagnosis *d, const struct captured_finding *finding) {
        const struct stack_table *t = diagnosis_table(d);
        const char *subject = stack_table_text(t, finding->subject),
                   *found = stack_table_text(t, finding->found);

        fprintf(f, "its check %s %s%s%s%s%s", stack_table_text(t, finding->check), subject[0] ? "of " : "",
                subject, subject[0] ? " " : "", finding->fail ? "fails" : "warns", found[0] ? ": " : "");
        fputs(found, f);
}

static void put_end_of(FILE *f, const struct path_end *end) {
        fprintf(f, "%.*s", (int) end->address.len, end->address.s);
        if (end->nic)
                fprintf(f, " (%.*s)", (int) strcspn(end->nic, " "), end->nic);
}

static void put_path(FILE *f, const struct diagnosis *d, const struct path_end *end) {
        if (end->whole) {
                fprintf(f, "packets between its addresses, on several NICs, and %" PRIu32, end->missing);
                fputs(" of other hosts are lost", f);
                return;
        }
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
                phrase_host(f, &d->evidence.hosts[other]);
                fprintf(f, " says: %s", words);
        }
}

static void put_reason(FILE *f, const struct diagnosis *d, const struct suspect *s, enum stall_kind kind) {
        if (s->rank != STACK_NONE && kind == s->kind &&
            (d->graph.nodes[s->rank].behind || d->graph.chains[s->rank].end == END_RANKS)) {
                put_owes(f, d, s);
                return;
        }
        switch (kind) {
        case KIND_OWES:
                put_owes(f, d, s);
                return;
        case KIND_ENDED:
                if (s->rank == STACK_NONE) {
                        put_end(f, d, s);
                        return;
                }
                break;
        case KIND_SILENT:
                fputs("it did not answer", f);
                return;
        case KIND_CORE:
                put_device(f, d, s->core);
                return;
        case KIND_STEP:
                fprintf(f, "its last step is %" PRIu64, d->evidence.hosts[s->host].last->step);
                return;
        case KIND_PATH:
                put_path(f, d, s->path);
                if (kind == s->kind && s->parts[KIND_SILENT] > 0)
                        fputs(", and it did not answer: it is down, or cut off", f);
                return;
        case KIND_CHECK:
                put_finding(f, d, s->finding);
                return;
        case KIND_UNKNOWN:
        case KIND_CPU:
        case KIND_CALL:
        case _KIND_MAX:
                break;
        }
        phrase_chain(f, d, s->rank); /* what it waits for */
}

static char state_of(const struct rank *r) {
        return r->process[1] ? r->process[1]->state : r->process[0] ? r->process[0]->state : 0;
}

static void put_moves(FILE *f, const struct rank *r) {
        if (r->moved)
                fputs("it moved between the two captures: slow or looping, not stuck in one place\n", f);
        else if (r->place.kind == KIND_CPU)
                fputs("both captures show it running at the same place: a loop, or one long call\n", f);
        else if (r->place.kind != WAIT_STOPPED)
                fputs("both captures show it at the same place: stuck\n", f);
}

static void put_details(FILE *f, const struct diagnosis *d, const struct suspect *s) {
        const struct seen_host *h = &d->evidence.hosts[s->host];
        const struct rank *r = s->rank != STACK_NONE ? &d->evidence.ranks[s->rank] : NULL;

        if (r && r->both && d->graph.chains[s->rank].kind != WAIT_THROTTLED)
                put_moves(f, r);
        if (s->saves && s->moved)
                fputs("it writes, and gets on: a save that takes long, or a slow file system\n", f);
        if (r && r->place.kind == WAIT_STOPPED && state_of(r) == 'T')
                fprintf(f, "kill -CONT %" PRIu32 " on that host lets it go on\n", r->pid);
        for (enum stall_kind i = KIND_ENDED; i < _KIND_MAX; i++)
                if (i != s->kind && s->parts[i] > 0 && i != KIND_OWES && (i != KIND_ENDED || !r) &&
                    (i != KIND_SILENT || s->kind != KIND_PATH)) {
                        fputs("also: ", f);
                        put_reason(f, d, s, i);
                        fputc('\n', f);
                }
        if (r && s->kind != KIND_OWES && d->graph.debts.ranks[s->rank].owes)
                fprintf(f, "also: it received data %.2f s after it last sent, as no other host\n",
                        (double) d->graph.debts.ranks[s->rank].owes_ms / 1000);
        if (s->kind != KIND_PATH && link_quote_own(&d->evidence, s->host, NULL))
                fprintf(f, "its network: %s\n", link_quote_own(&d->evidence, s->host, NULL));
        if (h->last && host_capture_lateness(h->last) > USEC_PER_SEC)
                fprintf(f, "captured %.1f s late\n",
                        (double) host_capture_lateness(h->last) / (double) USEC_PER_SEC);
        if (h->last && h->last->clock_error > USEC_PER_SEC && s->parts[KIND_ENDED] > 0) /* its times count */
                fprintf(f, "its clock may be wrong by %.1f s\n",
                        (double) h->last->clock_error / (double) USEC_PER_SEC);
        if (h->last && h->last->cut)
                fputs("its capture was cut: it is not complete\n", f);
}

/* Of the host itself, not of its threads. */
static bool is_plain(const struct suspect *s) {
        return s->rank == STACK_NONE &&
               (s->kind == KIND_CHECK || s->kind == KIND_ENDED || s->kind == KIND_SILENT);
}

static size_t count_named(const struct diagnosis *d) {
        size_t n = 0;

        while (n < d->n_suspects && d->suspects[n].score >= BLAME_NAMED)
                n++;
        return n;
}

void sentence_suspect(const struct diagnosis *d, struct suspect *s) {
        FILE *f = open_text(s->sentence, sizeof(s->sentence));

        if (f) {
                phrase_host(f, &d->evidence.hosts[s->host]);
                if (is_plain(s) || s->score < BLAME_NAMED)
                        fputs(": ", f);
                else if (count_named(d) > 1)
                        fprintf(f, " holds the run up, 1 of %zu that do: ", count_named(d));
                else
                        fputs(" holds the run up: ", f);
                put_reason(f, d, s, s->kind);
                if (s->kind != KIND_CORE && s->kind != KIND_CHECK)
                        phrase_others(f, d, s->host);
                if (s->kind == KIND_PATH)
                        put_quote(f, d, s);
                close_text(f, s->sentence, sizeof(s->sentence));
        }
        f = open_text(s->details, sizeof(s->details));
        if (f) {
                put_details(f, d, s);
                close_text(f, s->details, sizeof(s->details));
        }
}

static void put_circle(FILE *f, const struct diagnosis *d) {
        const struct evidence *e = &d->evidence;
        bool *in = calloc(e->n_hosts + 1, sizeof(*in));
        size_t n = 0;

        for (size_t i = 0; in && i < e->n_ranks; i++)
                if (d->graph.nodes[i].in_circle) {
                        in[e->ranks[i].host] = true;
                        n++;
                }
        if (n > 0) {
                fprintf(f, "; %zu wait for each other's data in a circle, ", n);
                rank_set_print(f, e, in, 12);
                fputs(", and neither sockets nor steps show who of them is behind", f);
        }
        free(in);
}

/* The two that come nearest, and what to do. */
static void put_nearest(FILE *f, const struct diagnosis *d) {
        if (d->n_suspects == 0 || d->suspects[0].score < 0.2)
                return;
        fputs("; nearest to it ", f);
        for (size_t i = 0; i < MIN(d->n_suspects, (size_t) 2); i++) {
                if (d->suspects[i].score < 0.2)
                        break;
                fputs(i > 0 ? " and " : "", f);
                phrase_host(f, &d->evidence.hosts[d->suspects[i].host]);
                fprintf(f, " (%.2f of %.2f)", d->suspects[i].score, BLAME_NAMED);
        }
        fputs(": new captures may tell (--capture)", f);
}

static void put_nobody(FILE *f, const struct diagnosis *d) {
        const struct evidence *e = &d->evidence;
        const char *words;
        uint32_t host;

        if (d->n_stopped > 0 && d->n_stopped == e->n_ranks)
                fputs("every process of the run is stopped (state T): somebody stopped the run", f);
        else if (d->n_waiting > 0 && d->n_waiting == e->n_ranks) {
                fprintf(f, "all %zu ranks wait for the others", e->n_ranks);
                if (e->classes[0].place.meets)
                        fprintf(f, " (%s)", e->classes[0].place.word);
                fputs(": their stacks do not show whose fault it is", f);
        } else
                fputs("no host stands out", f);
        put_circle(f, d);
        put_nearest(f, d);
        words = link_quote_of(e, NULL, &host);
        if (!words)
                return;
        fputs("; ", f);
        phrase_host(f, &e->hosts[host]);
        fprintf(f, " says: %s", words);
}

static void put_outside(FILE *f, const struct diagnosis *d) {
        const struct evidence *e = &d->evidence;
        bool *in = calloc(e->n_hosts + 1, sizeof(*in));

        fprintf(f, "%zu of %zu hosts wait for %s, which is none of theirs", d->n_outside, e->n_hosts,
                stack_table_text(diagnosis_table(d), d->outside));
        for (size_t i = 0; in && i < e->n_ranks; i++)
                in[e->ranks[i].host] |= d->graph.chains[i].outside == d->outside;
        if (in) {
                fputs(": ", f);
                rank_set_print(f, e, in, 12);
        }
        free(in);
        if (d->n_suspects > 0)
                fprintf(f, "; the first of them: %s", d->suspects[0].sentence);
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
        case OUTCOME_OUTSIDE:
                put_outside(f, d);
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
                phrase_place(f, diagnosis_table(d), &e->classes[0].place);
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
