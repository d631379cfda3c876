/* SPDX-License-Identifier: Apache-2.0 */
#include "evidence.h"

#include "grow.h"

void evidence_clear(struct evidence *e) {
        seen_hosts_clear(&e->all);
        peers_clear(&e->peers);
        alike_clear(&e->alike);
        free(e->codes);
        free(e->process_roles);
        free(e->meetings);
        free(e->ranks);
        free(e->classes);
        *e = EVIDENCE_NULL;
}

/* --- Ranks ----------------------------------------------------------------------------------------- */

/* What of its captured processes makes ranks, the surest first. */
enum rank_by {
        BY_CONNECTIONS,
        BY_NUMBER,
        BY_PARENT,
        BY_ANY,
};

/* What is known of each process of a host. */
struct candidate {
        bool connected; /* to other hosts of the run */
        bool launcher;  /* one that it started is, too */
};

#define PARENTS_MAX 8u

static void find_candidates(const struct evidence *e, uint32_t host, struct candidate *of) {
        const struct host_capture *c = e->hosts[host].last;

        for (uint32_t i = e->peers.first[host]; i < e->peers.first[host + 1]; i++) {
                const struct peer_end *end = &e->peers.ends[i];

                if (end->peer_host != PEER_NONE && end->peer_host != host)
                        of[end->process - c->processes].connected = true;
        }
        for (size_t i = 0; i < c->n_processes; i++) {
                const struct captured_process *up = &c->processes[i];

                for (unsigned k = 0; k < PARENTS_MAX && up && of[i].connected; k++) {
                        up = captured_process_of(c, up->parent);
                        if (up && up != &c->processes[i])
                                of[up - c->processes].launcher = true;
                }
        }
}

static bool is_rank(const struct host_capture *c, const struct captured_process *p,
                    const struct candidate *of, enum rank_by by) {
        const struct captured_process *parent = captured_process_of(c, p->parent);

        switch (by) {
        case BY_CONNECTIONS:
                return of->connected && !of->launcher;
        case BY_NUMBER:
                return p->rank != CAPTURE_RANK_NONE &&
                       (!parent || parent == p || parent->rank == CAPTURE_RANK_NONE);
        case BY_PARENT:
                return p->n_threads > 0 && !parent;
        case BY_ANY:
                return true;
        }
        return false;
}

static int add_rank(struct evidence *e, uint32_t host, const struct captured_process *p) {
        const struct seen_host *h = &e->hosts[host];
        int r = grow(&e->ranks, &e->ranks_size, e->n_ranks + 1, sizeof(*e->ranks));
        struct rank *rank;

        if (r < 0)
                return r;
        rank = &e->ranks[e->n_ranks++];
        *rank = (struct rank){ .host = host, .pid = p->pid, .number = p->rank };
        for (size_t i = 0; i < 2; i++)
                rank->process[i] = h->capture[i] == h->last ? p : captured_process_of(h->capture[i], p->pid);
        rank->both = rank->process[0] && rank->process[1];
        return 0;
}

static int gather_ranks(struct evidence *e, uint32_t host) {
        struct seen_host *h = &e->hosts[host];
        const struct host_capture *c = h->last;
        _cleanup_free_ struct candidate *of = c ? calloc(c->n_processes + 1, sizeof(*of)) : NULL;
        int r = !c || of ? 0 : -ENOMEM;

        h->first_rank = (uint32_t) e->n_ranks;
        if (of)
                find_candidates(e, host, of);
        for (enum rank_by by = BY_CONNECTIONS; by <= BY_ANY && h->n_ranks == 0 && r == 0; by++) {
                for (size_t i = 0; c && i < c->n_processes && r == 0; i++)
                        if (is_rank(c, &c->processes[i], &of[i], by))
                                r = add_rank(e, host, &c->processes[i]);
                h->n_ranks = (uint32_t) e->n_ranks - h->first_rank;
        }
        return r;
}

uint32_t evidence_rank(const struct evidence *e, uint32_t host, const struct captured_process *p) {
        const struct seen_host *h = &e->hosts[host];

        for (uint32_t i = h->first_rank; p && i < h->first_rank + h->n_ranks; i++)
                if (e->ranks[i].pid == p->pid)
                        return i;
        return STACK_NONE;
}

/* --- Roles of processes ----------------------------------------------------------------------------- */

struct role_key {
        uint64_t command;
        uint32_t pid, at;
};

static int compare_role_keys(const void *x, const void *y) {
        const struct role_key *a = x, *b = y;

        return COMPARE(a->command, b->command) ?: COMPARE(a->pid, b->pid);
}

/* Of one host: processes with one command are known by the order in which they were started. */
static int find_roles(const struct evidence *e, const struct host_capture *c, uint64_t *ret) {
        _cleanup_free_ struct role_key *keys = calloc(c->n_processes + 1, sizeof(*keys));

        if (!keys)
                return -ENOMEM;
        for (uint32_t i = 0; i < c->n_processes; i++) {
                const struct captured_process *p = &c->processes[i];

                keys[i] = (struct role_key){
                        alike_process(stack_table_text(&e->scene->table, p->command), 0), p->pid, i
                };
        }
        if (c->n_processes > 1)
                qsort(keys, c->n_processes, sizeof(*keys), compare_role_keys);
        for (uint32_t i = 0, before = 0; i < c->n_processes; i++) {
                const char *command = stack_table_text(&e->scene->table, c->processes[keys[i].at].command);

                before = i > 0 && keys[i].command == keys[i - 1].command ? before + 1 : 0;
                ret[keys[i].at] = alike_process(command, before);
        }
        return 0;
}

static int gather_roles(struct evidence *e) {
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; i < e->n_hosts; i++) {
                e->hosts[i].first_process = n;
                n += e->hosts[i].last ? e->hosts[i].last->n_processes : 0;
        }
        e->process_roles = calloc(n + 1, sizeof(*e->process_roles));
        for (size_t i = 0; i < e->n_hosts && e->process_roles && r == 0; i++)
                if (e->hosts[i].last)
                        r = find_roles(e, e->hosts[i].last, e->process_roles + e->hosts[i].first_process);
        return e->process_roles ? r : -ENOMEM;
}

/* --- Where they stand ------------------------------------------------------------------------------- */

/* The thread of that name; else the main thread. */
static const struct captured_thread *thread_named(const struct stack_table *t, const struct host_capture *c,
                                                  const struct captured_process *p, const char *name) {
        for (uint32_t i = 0; p && name[0] && i < p->n_threads; i++)
                if (streq(stack_table_text(t, c->threads[p->first_thread + i].name), name))
                        return &c->threads[p->first_thread + i];
        return captured_main_of(c, p);
}

/* The place in each capture, and what both say together. */
static void judge_rank(struct evidence *e, struct rank *rank, const char *name) {
        static const struct captured_thread none = { .stack = STACK_NONE };
        const struct seen_host *h = &e->hosts[rank->host];
        struct place places[2] = { { .what = "", .word = "", .frame = STACK_NONE },
                                   { .what = "", .word = "", .frame = STACK_NONE } };

        rank->place = places[0];
        for (size_t i = 0; i < 2; i++) {
                if (!rank->process[i])
                        continue;
                rank->thread[i] = thread_named(&e->scene->table, h->capture[i], rank->process[i], name);
                places[i] = place_of(&e->scene->table, e->codes, h->capture[i],
                                     rank->thread[i] ? rank->thread[i] : &none,
                                     captured_state_of(rank->process[i], rank->thread[i]));
                if (places[i].kind != KIND_UNKNOWN || !rank->process[0])
                        rank->place = places[i];
        }
        rank->moved = rank->both && rank->thread[0] && rank->thread[1] &&
                      (rank->thread[0]->stack != rank->thread[1]->stack ||
                       places[0].kind != places[1].kind || rank->thread[1]->changed);
        if (rank->place.frame == STACK_NONE && places[0].frame != STACK_NONE) {
                rank->place.frame = places[0].frame;
                rank->place.own = places[0].own;
        }
}

/* In the capture before; NULL: there is none. */
static const struct captured_thread *thread_before(const struct seen_host *h,
                                                   const struct captured_process *p,
                                                   const struct captured_thread *thread) {
        const struct host_capture *before = h->last == h->capture[1] ? h->capture[0] : NULL;

        return captured_thread_of(before, captured_process_of(before, p->pid), thread->tid);
}

bool thread_moved(const struct seen_host *h, const struct captured_process *p,
                  const struct captured_thread *thread) {
        const struct captured_thread *then = thread_before(h, p, thread);

        return then && (then->stack != thread->stack || then->state != thread->state || thread->changed);
}

bool thread_stuck(const struct seen_host *h, const struct captured_process *p,
                  const struct captured_thread *thread) {
        return thread_before(h, p, thread) && !thread_moved(h, p, thread);
}

bool thread_starved(const struct seen_host *h, const struct captured_process *p,
                    const struct captured_thread *thread) {
        const struct captured_thread *then = thread_before(h, p, thread);
        usec_t from = then ? h->capture[0]->taken : 0, to = h->last->taken;

        return then && then->state == 'R' && thread->state == 'R' && from > 0 && to >= from + USEC_PER_SEC &&
               then->cpu_usec > 0 && thread->cpu_usec >= then->cpu_usec &&
               thread->cpu_usec - then->cpu_usec <= (to - from) / 100;
}

static bool same_function(const struct evidence *e, const struct captured_thread *a,
                          const struct captured_thread *b) {
        const struct stack_frame *frames = e->scene->table.frames;
        uint32_t x, y;

        if (a->stack == STACK_NONE || b->stack == STACK_NONE)
                return false;
        x = e->codes[a->stack].own;
        y = e->codes[b->stack].own;
        return x != STACK_NONE && y != STACK_NONE && frames[x].file == frames[y].file &&
               frames[x].function == frames[y].function;
}

bool thread_stays(const struct evidence *e, uint32_t host, const struct captured_process *p,
                  const struct captured_thread *thread) {
        const struct captured_thread *then = thread_before(&e->hosts[host], p, thread);

        if (!then || (then->state == 'R') != (thread->state == 'R'))
                return false;
        return thread->state == 'R' || same_function(e, then, thread);
}

static struct alike_thread like_what(const struct evidence *e, uint32_t host,
                                     const struct captured_process *p,
                                     const struct captured_thread *thread) {
        const struct seen_host *h = &e->hosts[host];
        uint32_t rank = evidence_rank(e, host, p);
        bool main = thread == captured_main_of(h->last, p);

        return alike_thread(&e->scene->table, e->codes, h->last, p, thread,
                            e->process_roles[h->first_process + (size_t) (p - h->last->processes)], main,
                            main && rank != STACK_NONE && e->ranks[rank].moved);
}

enum alike evidence_alike(const struct evidence *e, uint32_t host, const struct captured_process *p,
                          const struct captured_thread *thread) {
        const struct alike_thread a = like_what(e, host, p, thread);

        return alike_judge(&e->alike, &a);
}

/* What the rank's own code calls of Python's libraries; 0: nothing, or the thread was not read. */
static uint32_t behind_of(const struct evidence *e, const struct rank *r) {
        const struct captured_thread *t = r->thread[1] ? r->thread[1] : r->thread[0];

        return t && t->stack != STACK_NONE && !t->changed ? e->codes[t->stack].behind : 0;
}

/* Kind and library code of a wait; 0: none. */
static uint64_t meeting_of(const struct evidence *e, const struct rank *r) {
        uint32_t behind = kind_waits(r->place.kind) ? behind_of(e, r) : 0;

        return behind == 0 ? 0 : (uint64_t) r->place.kind << 32 | behind;
}

static int compare_meetings(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;

        return COMPARE(*x, *y);
}

static int gather_meetings(struct evidence *e) {
        e->meetings = calloc(e->n_ranks + 1, sizeof(*e->meetings));
        if (!e->meetings)
                return -ENOMEM;
        for (size_t i = 0; i < e->n_ranks; i++)
                if (e->ranks[i].alike == ALIKE_MOST && meeting_of(e, &e->ranks[i]) != 0)
                        e->meetings[e->n_meetings++] = meeting_of(e, &e->ranks[i]);
        if (e->n_meetings > 1)
                qsort(e->meetings, e->n_meetings, sizeof(*e->meetings), compare_meetings);
        return 0;
}

bool evidence_waits_as_most(const struct evidence *e, uint32_t rank) {
        uint64_t meeting = meeting_of(e, &e->ranks[rank]);
        size_t at = SORTED_PLACE(e->n_meetings, k, e->meetings[k] < meeting) + e->n_meetings / 2;

        /* more than half are it */
        return meeting != 0 && at < e->n_meetings && e->meetings[at] == meeting;
}

/* Of every rank and of what its host started besides. */
static int survey_places(struct evidence *e) {
        size_t hosts = 0;
        int r = 0;

        for (uint32_t i = 0; i < e->n_hosts; i++) {
                const struct host_capture *c = e->hosts[i].last;

                for (size_t k = 0; c && k < c->n_processes; k++) {
                        const struct captured_process *p = &c->processes[k];
                        uint32_t rank = evidence_rank(e, i, p);

                        for (uint32_t n = 0; n < p->n_threads && r == 0; n++) {
                                const struct alike_thread a = like_what(e, i, p,
                                                                        &c->threads[p->first_thread + n]);

                                r = alike_add(&e->alike, &a,
                                              rank == STACK_NONE ? e->hosts[i].first_rank : rank);
                        }
                }
        }
        for (size_t i = 0; i < e->n_hosts; i++)
                hosts += e->hosts[i].n_ranks > 0;
        alike_settle(&e->alike, hosts);
        return r;
}

static void judge_ranks(struct evidence *e, const char *name) {
        for (size_t i = 0; i < e->n_ranks; i++) {
                struct rank *r = &e->ranks[i];
                const struct captured_thread *thread;

                judge_rank(e, r, name);
                thread = thread_named(&e->scene->table, e->hosts[r->host].last,
                                      r->process[1] ? r->process[1] : r->process[0], name);
                r->alike = ALIKE_UNSURE;
                if (thread && e->alike.hosts > 0)
                        r->alike = evidence_alike(e, r->host, r->process[1] ? r->process[1] : r->process[0],
                                                  thread);
        }
}

/* --- Which thread ----------------------------------------------------------------------------------- */

#define ROLES_MAX 32u

struct role {
        uint32_t name; /* string */
        size_t odd, most;
        size_t last; /* of the ranks counted as odd */
};

/* A role counts that stands alike on most ranks, and elsewhere on some. */
static void count_role(struct role *roles, size_t *n, uint32_t name, size_t rank, enum alike alike) {
        size_t i = 0;

        while (i < *n && roles[i].name != name)
                i++;
        if (alike == ALIKE_UNSURE || (i == *n && (alike != ALIKE_ODD || *n == ROLES_MAX)))
                return;
        if (i == *n)
                roles[(*n)++] = (struct role){ .name = name, .last = SIZE_MAX };
        roles[i].odd += alike == ALIKE_ODD && roles[i].last != rank;
        roles[i].most += alike == ALIKE_MOST;
        if (alike == ALIKE_ODD)
                roles[i].last = rank;
}

static void count_roles(const struct evidence *e, struct role *roles, size_t *n) {
        for (size_t i = 0; i < e->n_ranks; i++) {
                const struct rank *r = &e->ranks[i];
                const struct seen_host *h = &e->hosts[r->host];
                const struct captured_process *p = r->process[1] ? r->process[1] : r->process[0];

                for (uint32_t k = 0; k < p->n_threads; k++) {
                        const struct captured_thread *t = &h->last->threads[p->first_thread + k];

                        if (t->name != h->last->threads[p->first_thread].name && t->name != 0)
                                count_role(roles, n, t->name, i, evidence_alike(e, r->host, p, t));
                }
        }
}

/* A wait of which nobody says who has to end it. */
static bool is_passive(const struct host_capture *c, const struct captured_thread *t, uint8_t kind) {
        for (uint32_t i = 0; t && i < t->n_waits; i++)
                if (c->waits[t->first_wait + i].holder_tid > 0)
                        return false;
        return kind_waits(kind) && kind != WAIT_SOCKET;
}

/* Main threads that all stand alike and wait for no other host: a thread of another name makes the steps. */
static bool mains_are_passive(const struct evidence *e) {
        for (size_t i = 0; i < e->n_ranks; i++) {
                const struct rank *r = &e->ranks[i];

                if (r->alike != ALIKE_MOST ||
                    !is_passive(e->hosts[r->host].last, r->process[1] ? r->thread[1] : r->thread[0],
                                r->place.kind))
                        return false;
        }
        return true;
}

static void choose_thread(struct evidence *e) {
        const struct stack_table *t = &e->scene->table;
        const struct role *best = NULL;
        struct role roles[ROLES_MAX];
        size_t n = 0;

        if (!mains_are_passive(e))
                return;
        count_roles(e, roles, &n);
        for (size_t i = 0; i < n; i++) {
                const struct role *r = &roles[i];

                if (r->odd * 2 >= e->n_ranks)
                        continue;
                if (!best || r->odd < best->odd || (r->odd == best->odd && r->most > best->most) ||
                    (r->odd == best->odd && r->most == best->most &&
                     strcmp(stack_table_text(t, r->name), stack_table_text(t, best->name)) < 0))
                        best = r;
        }
        if (!best)
                return;
        (void) snprintf(e->thread_name, sizeof(e->thread_name), "%s", stack_table_text(t, best->name));
        judge_ranks(e, e->thread_name);
}

int evidence_gather(struct evidence *e, const struct scene *s, const char *slice, uint32_t hosts) {
        int r = seen_hosts_gather(&e->all, s, slice, hosts);

        e->scene = s;
        e->hosts = e->all.items;
        e->n_hosts = e->all.n;
        e->n_silent = e->all.n_silent;
        if (r == 0)
                r = stack_codes(&s->table, &e->codes);
        if (r == 0)
                r = peers_gather(&e->peers, &e->all);
        for (size_t i = 0; i < e->n_hosts && r == 0; i++)
                r = gather_ranks(e, (uint32_t) i);
        if (r < 0)
                return r;
        judge_ranks(e, "");
        r = gather_roles(e);
        if (r == 0)
                r = survey_places(e);
        if (r < 0)
                return r;
        judge_ranks(e, "");
        choose_thread(e);
        return gather_meetings(e);
}
