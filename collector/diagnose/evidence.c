/* SPDX-License-Identifier: Apache-2.0 */
#include "evidence.h"

#include <ctype.h>

#include "grow.h"

void scene_clear(struct scene *s) {
        for (size_t i = 0; i < s->n_captures; i++)
                host_capture_clear(&s->captures[i]);
        free(s->captures);
        stack_table_clear(&s->table);
        *s = SCENE_NULL;
}

int scene_add(struct scene *s, struct host_capture *c) {
        int r = s->n_captures >= SCENE_CAPTURES_MAX
                        ? -E2BIG
                        : grow(&s->captures, &s->captures_size, s->n_captures + 1, sizeof(*s->captures));

        if (r < 0) {
                host_capture_clear(c);
                return r;
        }
        s->captures[s->n_captures++] = *c;
        host_capture_init(c); /* its arrays are the scene's now */
        return 0;
}

#define HOSTS_MAX 65536u

void evidence_clear(struct evidence *e) {
        free(e->hosts);
        free(e->ranks);
        free(e->classes);
        *e = EVIDENCE_NULL;
}

/* Like strcmp(), with numbers in order: "host9" before "host10". */
static int natural_compare(const char *a, const char *b) {
        while (*a && *b) {
                if (isdigit((unsigned char) *a) && isdigit((unsigned char) *b)) {
                        size_t n, k;

                        a += strspn(a, "0");
                        b += strspn(b, "0");
                        n = strspn(a, "0123456789");
                        k = strspn(b, "0123456789");
                        if (n != k)
                                return n < k ? -1 : 1;
                        if (strncmp(a, b, n) != 0)
                                return strncmp(a, b, n);
                        a += n;
                        b += k;
                } else if (*a != *b)
                        return (unsigned char) *a < (unsigned char) *b ? -1 : 1;
                else {
                        a++;
                        b++;
                }
        }
        return (*a != 0) - (*b != 0);
}

/* --- Hosts ----------------------------------------------------------------------------------------- */

static int compare_numbers(uint64_t a, uint64_t b) {
        return a < b ? -1 : a > b;
}

/* Who it is; equal names differ by their bytes at least ("h1", "h01"). A worker's number says who it is,
 * whatever its name. */
static int compare_identity(const struct host_capture *a, const struct host_capture *b) {
        int r = natural_compare(a->slice, b->slice);

        if (r == 0)
                r = strcmp(a->slice, b->slice);
        if (r == 0)
                r = compare_numbers(a->worker, b->worker);
        if (r == 0 && a->worker == CAPTURE_WORKER_NONE)
                r = natural_compare(a->host, b->host);
        return r == 0 && a->worker == CAPTURE_WORKER_NONE ? strcmp(a->host, b->host) : r;
}

/* Of two captures of one host and one round, the later one counts; what decides between equals is any order
 * that does not depend on who came first. */
static int compare_captures(const void *x, const void *y) {
        const struct host_capture *a = *(const struct host_capture *const *) x,
                                  *b = *(const struct host_capture *const *) y;
        int r = compare_identity(a, b);

        if (r == 0)
                r = compare_numbers(a->round, b->round);
        if (r == 0)
                r = compare_numbers(a->taken, b->taken);
        if (r == 0)
                r = strcmp(a->host, b->host);
        if (r == 0)
                r = compare_numbers(a->n_processes, b->n_processes);
        return r == 0 ? compare_numbers(a->n_threads, b->n_threads) : r;
}

static int add_host(struct evidence *e, const char *slice, uint32_t worker) {
        int r = e->n_hosts >= HOSTS_MAX ? -E2BIG
                                        : grow(&e->hosts, &e->hosts_size, e->n_hosts + 1, sizeof(*e->hosts));

        if (r < 0)
                return r;
        e->hosts[e->n_hosts] = (struct seen_host){ .worker = worker };
        (void) snprintf(e->hosts[e->n_hosts++].slice, CAPTURE_NAME_MAX, "%s", slice);
        return 0;
}

/* The workers below `until` who have no capture, from the one behind the last host on. */
static int add_silent(struct evidence *e, const char *slice, uint32_t until) {
        const struct seen_host *last = e->n_hosts > 0 ? &e->hosts[e->n_hosts - 1] : NULL;
        uint32_t from = last && last->worker != CAPTURE_WORKER_NONE ? last->worker + 1 : 0;
        int r = 0;

        for (uint32_t w = from; w < until && r == 0; w++) {
                r = add_host(e, slice, w);
                e->n_silent += r == 0;
        }
        return r;
}

static void take_capture(struct seen_host *h, const struct host_capture *c) {
        if (!h->who || !c->silent)
                h->who = c;
        if (!c->silent)
                h->capture[c->round] = h->last = c;
}

static int gather_hosts(struct evidence *e, const struct host_capture **sorted, size_t n, const char *slice,
                        uint32_t hosts) {
        bool numbered = n > 0 && hosts > 0 && sorted[n - 1]->worker != CAPTURE_WORKER_NONE &&
                        streq(sorted[0]->slice, sorted[n - 1]->slice);
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++) {
                const struct host_capture *c = sorted[i];
                bool known = i > 0 && compare_identity(sorted[i - 1], c) == 0;

                if (!known && numbered)
                        r = add_silent(e, c->slice, MIN(c->worker, hosts));
                if (r == 0 && !known)
                        r = add_host(e, c->slice, c->worker);
                if (r == 0)
                        take_capture(&e->hosts[e->n_hosts - 1], c);
        }
        for (size_t i = 0; i < e->n_hosts; i++)
                e->n_silent += e->hosts[i].who && !e->hosts[i].last;
        if (r == 0 && numbered)
                r = add_silent(e, sorted[n - 1]->slice, hosts);
        else if (r == 0 && n == 0)
                r = add_silent(e, slice ? slice : "", hosts);
        for (size_t i = 0; r == 0 && !numbered && n > 0 && e->n_hosts < hosts && i < hosts; i++) {
                r = add_host(e, sorted[0]->slice, CAPTURE_WORKER_NONE); /* it is not known which ones */
                e->n_silent += r == 0;
        }
        return r;
}

/* --- Ranks ----------------------------------------------------------------------------------------- */

static bool is_rank(const struct stack_table *t, const struct host_capture *c,
                    const struct captured_process *p) {
        if (p->rank != CAPTURE_RANK_NONE)
                return true;
        return p->n_threads > 0 && !stack_is_helper(t, c->threads[p->first_thread].stack);
}

static const struct captured_process *process_of(const struct host_capture *c, uint32_t pid) {
        for (size_t i = 0; c && i < c->n_processes; i++)
                if (c->processes[i].pid == pid)
                        return &c->processes[i];
        return NULL;
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
                rank->process[i] = process_of(h->capture[i], p->pid);
        rank->both = rank->process[0] && rank->process[1];
        return 0;
}

static int gather_ranks(struct evidence *e, uint32_t host) {
        struct seen_host *h = &e->hosts[host];
        const struct host_capture *c = h->last;
        size_t found = 0;
        int r = 0;

        h->row = host;
        h->first_rank = (uint32_t) e->n_ranks;
        for (size_t i = 0; c && i < c->n_processes; i++)
                found += is_rank(&e->scene->table, c, &c->processes[i]);
        for (size_t i = 0; c && i < c->n_processes && r == 0; i++)
                if (found == 0 || is_rank(&e->scene->table, c, &c->processes[i]))
                        r = add_rank(e, host, &c->processes[i]);
        h->n_ranks = (uint32_t) e->n_ranks - h->first_rank;
        return r;
}

/* The thread of that name; else the main thread, which is the one whose number is the process's. */
static const struct captured_thread *thread_named(const struct stack_table *t, const struct host_capture *c,
                                                  const struct captured_process *p, const char *name) {
        if (!p || p->n_threads == 0)
                return NULL;
        for (uint32_t i = 0; name[0] && i < p->n_threads; i++)
                if (streq(stack_table_text(t, c->threads[p->first_thread + i].name), name))
                        return &c->threads[p->first_thread + i];
        for (uint32_t i = 0; i < p->n_threads; i++)
                if (c->threads[p->first_thread + i].tid == p->pid)
                        return &c->threads[p->first_thread + i];
        return &c->threads[p->first_thread];
}

static char state_of(const struct captured_process *p, const struct captured_thread *t) {
        return p->state == 'T' || p->state == 't' || p->state == 'Z' || p->state == 'X' || !t || !t->state
                       ? p->state
                       : t->state;
}

/* The place in each capture, and what both say together. */
static void judge_rank(struct evidence *e, struct rank *rank, const char *name) {
        const struct seen_host *h = &e->hosts[rank->host];
        const struct stack_table *t = &e->scene->table;
        struct place places[2] = { { .what = "", .frame = STACK_NONE },
                                   { .what = "", .frame = STACK_NONE } };

        rank->place = places[0];
        for (size_t i = 0; i < 2; i++) {
                static const struct captured_thread none = { .stack = STACK_NONE };

                rank->thread[i] = thread_named(t, h->capture[i], rank->process[i], name);
                if (!rank->process[i])
                        continue;
                places[i] = place_of(t, rank->thread[i] ? rank->thread[i] : &none,
                                     state_of(rank->process[i], rank->thread[i]));
                if (places[i].standing != STANDING_UNKNOWN || !rank->process[0])
                        rank->place = places[i];
        }
        rank->moved = rank->both && rank->thread[0] && rank->thread[1] &&
                      (rank->thread[0]->stack != rank->thread[1]->stack ||
                       places[0].standing != places[1].standing || rank->thread[1]->changed);
        if (rank->place.frame == STACK_NONE && places[0].frame != STACK_NONE) {
                rank->place.frame = places[0].frame;
                rank->place.own = places[0].own;
        }
}

static void judge_ranks(struct evidence *e, const char *name) {
        for (size_t i = 0; i < e->n_ranks; i++)
                judge_rank(e, &e->ranks[i], name);
}

/* --- Which thread ---------------------------------------------------------------------------------- */

#define ROLES_MAX 32u

struct role {
        uint32_t name; /* string */
        size_t ranks, collectives;
        size_t last_rank;
};

static void count_role(struct role *roles, size_t *n, const struct captured_thread *t, size_t rank,
                       bool collective) {
        size_t i = 0;

        while (i < *n && roles[i].name != t->name)
                i++;
        if (i == *n) {
                if (!collective || *n == ROLES_MAX)
                        return; /* only who waits in a collective somewhere can be the one */
                roles[(*n)++] = (struct role){ .name = t->name, .last_rank = SIZE_MAX };
        }
        roles[i].collectives += collective;
        if (roles[i].last_rank != rank)
                roles[i].ranks++;
        roles[i].last_rank = rank;
}

static void count_roles(const struct evidence *e, struct role *roles, size_t *n) {
        const struct stack_table *t = &e->scene->table;

        for (int pass = 0; pass < 2; pass++) { /* the first finds the names, the second counts them all */
                for (size_t i = 0; i < *n; i++)
                        roles[i] = (struct role){ .name = roles[i].name, .last_rank = SIZE_MAX };
                for (size_t i = 0; i < e->n_ranks; i++) {
                        const struct host_capture *c = e->hosts[e->ranks[i].host].last;
                        const struct captured_process *p = process_of(c, e->ranks[i].pid);

                        for (uint32_t k = 1; p && k < p->n_threads; k++) {
                                const struct captured_thread *thread = &c->threads[p->first_thread + k];
                                bool collective =
                                        place_of(t, thread, thread->state).standing == STANDING_COLLECTIVE;

                                count_role(roles, n, thread, i, collective);
                        }
                }
        }
}

static void choose_thread(struct evidence *e) {
        const struct role *best = NULL;
        struct role roles[ROLES_MAX];
        size_t passive = 0, n = 0;

        for (size_t i = 0; i < e->n_ranks; i++)
                passive += e->ranks[i].place.standing == STANDING_THREADS;
        if (passive * 2 <= e->n_ranks)
                return;
        count_roles(e, roles, &n);
        for (size_t i = 0; i < n; i++) {
                const char *name = stack_table_text(&e->scene->table, roles[i].name);

                if (!name[0] || roles[i].ranks * 2 <= e->n_ranks)
                        continue;
                if (!best || roles[i].collectives > best->collectives ||
                    (roles[i].collectives == best->collectives &&
                     strcmp(name, stack_table_text(&e->scene->table, best->name)) < 0))
                        best = &roles[i];
        }
        if (!best)
                return;
        (void) snprintf(e->thread_name, sizeof(e->thread_name), "%s",
                        stack_table_text(&e->scene->table, best->name));
        judge_ranks(e, e->thread_name);
}

/* --- Classes --------------------------------------------------------------------------------------- */

struct key {
        const struct evidence *e;
        uint32_t rank;
};

static const struct stack_frame *frame_of(const struct stack_table *t, uint32_t frame) {
        static const struct stack_frame none = { 0 };

        return frame == STACK_NONE ? &none : &t->frames[frame];
}

/* A line counts only of what stands still. */
static uint32_t line_of(const struct stack_table *t, enum standing standing, uint32_t frame, bool moved) {
        return standing == STANDING_RUNS || moved ? 0 : frame_of(t, frame)->line;
}

static int compare_places(const struct stack_table *t, const struct rank *a, const struct rank *b) {
        const struct stack_frame *f = frame_of(t, a->place.frame), *g = frame_of(t, b->place.frame);
        int r = compare_numbers(a->place.standing, b->place.standing);

        if (r == 0)
                r = strcmp(a->place.what, b->place.what);
        if (r == 0 && f->file != g->file)
                r = strcmp(stack_table_text(t, f->file), stack_table_text(t, g->file));
        if (r == 0 && f->function != g->function)
                r = strcmp(stack_table_text(t, f->function), stack_table_text(t, g->function));
        if (r == 0)
                r = compare_numbers(line_of(t, a->place.standing, a->place.frame, a->moved),
                            line_of(t, b->place.standing, b->place.frame, b->moved));
        return r;
}

static int compare_keys(const void *x, const void *y) {
        const struct key *a = x, *b = y;
        int r = compare_places(&a->e->scene->table, &a->e->ranks[a->rank], &b->e->ranks[b->rank]);

        return r == 0 ? compare_numbers(a->rank, b->rank) : r;
}

/* Greatest first; between equals the order of the places, which the first rank of each has. */
static int compare_classes(const void *x, const void *y) {
        const struct rank_class *a = x, *b = y;

        return a->n != b->n ? compare_numbers(b->n, a->n) : compare_numbers(a->example, b->example);
}

static int add_class(struct evidence *e, uint32_t rank) {
        const struct rank *from = &e->ranks[rank];
        int r = grow(&e->classes, &e->classes_size, e->n_classes + 1, sizeof(*e->classes));

        if (r < 0)
                return r;
        e->classes[e->n_classes++] = (struct rank_class){
                .standing = from->place.standing,
                .what = from->place.what,
                .frame = from->place.frame,
                .own = from->place.own,
                .example = rank,
        };
        return 0;
}

/* Ranks of one class lie together in keys, and the class's example is the first of them. */
static void number_ranks(struct evidence *e, const struct key *keys) {
        for (size_t k = 0; k < e->n_classes; k++)
                e->ranks[e->classes[k].example].class = (uint32_t) k;
        for (size_t i = 1; i < e->n_ranks; i++) {
                struct rank *rank = &e->ranks[keys[i].rank], *before = &e->ranks[keys[i - 1].rank];

                if (compare_places(&e->scene->table, before, rank) == 0)
                        rank->class = before->class;
        }
}

/* Sorts the ranks into classes. */
static int evidence_classify(struct evidence *e) {
        _cleanup_free_ struct key *keys = calloc(e->n_ranks + 1, sizeof(*keys));
        int r = 0;

        if (!keys)
                return -ENOMEM;
        for (size_t i = 0; i < e->n_ranks; i++)
                keys[i] = (struct key){ e, (uint32_t) i };
        qsort(keys, e->n_ranks, sizeof(*keys), compare_keys);
        e->n_classes = 0;
        for (size_t i = 0; i < e->n_ranks && r == 0; i++) {
                const struct rank *rank = &e->ranks[keys[i].rank];

                if (i == 0 || compare_places(&e->scene->table, &e->ranks[keys[i - 1].rank], rank) != 0)
                        r = add_class(e, keys[i].rank);
                if (r < 0)
                        return r;
                e->classes[e->n_classes - 1].n++;
                e->classes[e->n_classes - 1].moved |= rank->moved;
        }
        if (e->n_classes > 1)
                qsort(e->classes, e->n_classes, sizeof(*e->classes), compare_classes);
        number_ranks(e, keys);
        return 0;
}

int evidence_gather(struct evidence *e, const struct scene *s, const char *slice, uint32_t hosts) {
        _cleanup_free_ const struct host_capture **sorted = calloc(s->n_captures + 1, sizeof(*sorted));
        size_t n = 0;
        int r;

        if (!sorted)
                return -ENOMEM;
        e->scene = s;
        for (size_t i = 0; i < s->n_captures; i++)
                if (!slice || !s->captures[i].slice[0] || streq(s->captures[i].slice, slice))
                        sorted[n++] = &s->captures[i];
        qsort(sorted, n, sizeof(*sorted), compare_captures);
        r = gather_hosts(e, sorted, n, slice, hosts);
        for (size_t i = 0; i < e->n_hosts && r == 0; i++)
                r = gather_ranks(e, (uint32_t) i);
        if (r < 0)
                return r;
        judge_ranks(e, "");
        choose_thread(e);
        return evidence_classify(e);
}
