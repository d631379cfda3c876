/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Slices with what threads wait for and with their sockets, made by a few words: hosts with a rank each,
 * connections between them, waits of threads. No function of any framework stands in them.
 */
#include <netinet/in.h>
#include <sys/socket.h>

#include "diagnose-scene.h"

#define WORLD_HOSTS_MAX 128u
#define WORLD_THREADS_MAX 8u
#define WORLD_LINKS_MAX 256u
#define WORLD_SOCKETS_MAX 8u /* of one host, to outside */

#define OWN_EXCHANGE "loop.py:10 go | loop.py:40 swap"
#define OWN_BATCH "loop.py:10 go | feed.py:7 draw"
#define MS_STALL 40000u /* how long the run stands still when it is captured */
#define MS_STEP 600u

struct world_thread {
        uint32_t pid, tid;
        const char *name, *stack, *before; /* before: in the first capture; NULL: as in the second */
        char state;
        usec_t cpu; /* that it got between the captures; 0: not known */
        struct captured_wait waits[WORLD_THREADS_MAX];
        size_t n_waits;
};
struct world_process {
        uint32_t pid, parent, children_gone;
        char state;
};
struct world_host {
        struct world_process processes[4];
        struct world_thread threads[WORLD_THREADS_MAX];
        struct captured_end ends[8];
        struct captured_socket more[WORLD_SOCKETS_MAX];
        uint32_t more_of[WORLD_SOCKETS_MAX]; /* which process; 0: the rank */
        size_t n_processes, n_threads, n_ends, n_more;
        uint64_t step;
        usec_t ended;
        bool silent;
};
/* Data go both ways; ms: when each end last sent and received. */
struct world_link {
        uint32_t a, b;                                   /* hosts */
        uint32_t a_sent, a_received, b_sent, b_received; /* milliseconds ago */
        uint32_t a_unread, b_unread, a_unsent, a_unacknowledged, a_retransmits;
        uint32_t b_unsent, b_unacknowledged, b_retransmits;
        uint64_t a_bytes, b_bytes; /* that each has had of the other; 0: some number */
        bool proxied; /* each end sees another address than the other end has */
};
struct world {
        struct world_host hosts[WORLD_HOSTS_MAX];
        struct world_link links[WORLD_LINKS_MAX];
        size_t n_hosts, n_links;
        struct stack_table texts; /* of waits' texts: put into the scene's table when it is made */
        const char *text[16];
        size_t n_text;
};

static inline uint32_t world_pid(uint32_t host) {
        return 1000 + host;
}
static inline uint64_t link_inode(size_t link, bool b) {
        return 100000 + 2 * link + b;
}

/* Hosts of one rank, each with a main thread that nothing is known of yet. */
static inline void world_init(struct world *w, size_t n) {
        memset(w, 0, sizeof(*w));
        w->n_hosts = n;
        for (uint32_t i = 0; i < n; i++) {
                struct world_host *h = &w->hosts[i];

                h->step = CAPTURE_STEP_NONE;
                h->processes[h->n_processes++] = (struct world_process){ world_pid(i), 0, 0, 'S' };
                h->threads[h->n_threads++] = (struct world_thread){ .pid = world_pid(i),
                                                                    .tid = world_pid(i),
                                                                    .name = "train",
                                                                    .stack = OWN_EXCHANGE,
                                                                    .state = 'S' };
        }
}

static inline struct world_thread *world_main(struct world *w, uint32_t host) {
        return &w->hosts[host].threads[0];
}

static inline struct world_thread *world_thread(struct world *w, uint32_t host, uint32_t pid, uint32_t tid,
                                                const char *name, const char *stack) {
        struct world_host *h = &w->hosts[host];
        struct world_thread *t = &h->threads[h->n_threads++];

        *t = (struct world_thread){ .pid = pid, .tid = tid, .name = name, .stack = stack, .state = 'S' };
        return t;
}

static inline uint32_t world_process(struct world *w, uint32_t host, uint32_t pid, uint32_t parent,
                                     const char *stack) {
        struct world_host *h = &w->hosts[host];

        h->processes[h->n_processes++] = (struct world_process){ pid, parent, 0, 'S' };
        (void) world_thread(w, host, pid, pid, "train", stack);
        return pid;
}

static inline struct captured_wait *world_wait(struct world_thread *t, uint8_t kind) {
        struct captured_wait *w = &t->waits[t->n_waits++];

        *w = (struct captured_wait){ .kind = kind, .fd = WAIT_FD_NONE };
        return w;
}

static inline uint32_t world_text(struct world *w, const char *text) {
        w->text[w->n_text++] = text;
        return (uint32_t) w->n_text; /* replaced when the scene is made */
}

/* All is in order: everybody sent and received the last bytes when the stall began. */
static inline struct world_link *world_link(struct world *w, uint32_t a, uint32_t b) {
        struct world_link *l = &w->links[w->n_links++];

        *l = (struct world_link){ .a = a,
                                  .b = b,
                                  .a_sent = MS_STALL,
                                  .a_received = MS_STALL,
                                  .b_sent = MS_STALL,
                                  .b_received = MS_STALL };
        return l;
}

/* The thread waits for data of that connection's other end. */
static inline struct captured_wait *world_recv(struct world *w, uint32_t host, struct world_thread *t,
                                               const struct world_link *l) {
        struct captured_wait *wait = world_wait(t, WAIT_SOCKET);

        wait->number = link_inode((size_t) (l - w->links), host == l->b);
        return wait;
}

static inline void world_socket(struct host_capture *c, struct stack_table *t, const struct world_link *l,
                                size_t number, bool b) {
        const uint64_t had[] = { l->a_bytes ? l->a_bytes : 7000000 + number,
                                 l->b_bytes ? l->b_bytes : 3000000 + number };
        struct captured_socket s = {
                .inode = link_inode(number, b),
                .family = AF_INET,
                .protocol = IPPROTO_TCP,
                .state = 1,
                .fd = (uint32_t) (10 + number),
                .sent_ms = b ? l->b_sent : l->a_sent,
                .received_ms = b ? l->b_received : l->a_received,
                .unread = b ? l->b_unread : l->a_unread,
                .unsent = b ? l->b_unsent : l->a_unsent,
                .unacknowledged = b ? l->b_unacknowledged : l->a_unacknowledged,
                .retransmits = (uint8_t) (b ? l->b_retransmits : l->a_retransmits),
                .bytes_acked = had[!b],
                .bytes_received = had[b],
        };
        char ends[2][40];

        (void) snprintf(ends[0], sizeof(ends[0]), "10.10.0.%u:%zu", 10 + l->a, 40000 + number);
        (void) snprintf(ends[1], sizeof(ends[1]), "10.10.0.%u:%zu", 10 + l->b, 7000 + number);
        s.local = scene_string(t, ends[b]);
        s.remote = scene_string(t, l->proxied ? b ? "192.0.2.1:99" : "192.0.2.2:98" : ends[!b]);
        ASSERT_OK(host_capture_add_socket(c, &s));
}

static inline void world_add_process(struct world *w, uint32_t host, const struct world_process *p,
                                     struct host_capture *c, struct stack_table *t) {
        struct world_host *h = &w->hosts[host];
        struct captured_process *q;

        ASSERT_OK(host_capture_add_process(c, &q));
        q->pid = p->pid;
        q->parent = p->parent;
        q->state = p->state;
        q->children_gone = p->children_gone;
        q->command = scene_string(t, "train");
        for (size_t i = 0; i < w->n_links && p->pid == world_pid(host); i++) {
                if (w->links[i].a == host)
                        world_socket(c, t, &w->links[i], i, false);
                if (w->links[i].b == host)
                        world_socket(c, t, &w->links[i], i, true);
        }
        for (size_t i = 0; i < h->n_more; i++) {
                struct captured_socket s = h->more[i];

                if (p->pid != (h->more_of[i] ? h->more_of[i] : world_pid(host)))
                        continue;
                s.remote = s.remote ? scene_string(t, w->text[s.remote - 1]) : 0;
                s.local = s.local                ? scene_string(t, w->text[s.local - 1])
                          : s.family == AF_UNIX ? 0
                                                 : scene_string(t, "10.10.0.1:50000");
                ASSERT_OK(host_capture_add_socket(c, &s));
        }
        for (size_t i = 0; i < h->n_threads; i++) {
                const struct world_thread *thread = &h->threads[i];

                if (thread->pid != p->pid)
                        continue;
                scene_thread(c, t, thread->tid, thread->name,
                             (struct scripted){ c->round == 0 && thread->before ? thread->before
                                                                                : thread->stack,
                                                thread->state, NULL });
                if (thread->cpu > 0)
                        c->threads[c->n_threads - 1].cpu_usec = USEC_PER_SEC + c->round * thread->cpu;
                for (size_t k = 0; k < thread->n_waits; k++) {
                        struct captured_wait wait = thread->waits[k];

                        wait.text = wait.text ? scene_string(t, w->text[wait.text - 1]) : 0;
                        ASSERT_OK(host_capture_add_wait(c, &wait));
                }
        }
}

/* backwards: hosts, and threads of hosts but the first, in the opposite order. */
static inline void world_scene(struct world *w, struct scene *s, bool backwards) {
        (void) scene_string(&s->table, "");
        for (uint32_t k = 0; k < 2 * w->n_hosts; k++) {
                uint32_t at = backwards ? (uint32_t) (2 * w->n_hosts) - 1 - k : k, i = at / 2;
                struct world_host *h = &w->hosts[i];
                struct host_capture c;

                scene_host(&c, i, at % 2);
                c.step = h->step;
                c.silent = h->silent;
                c.ended = h->ended;
                for (size_t p = 0; p < h->n_processes && !h->silent && !h->ended; p++)
                        world_add_process(w, i, &h->processes[p], &c, &s->table);
                for (size_t e = 0; e < h->n_ends && !h->silent && !h->ended; e++) {
                        struct captured_end end = h->ends[e];

                        end.command = scene_string(&s->table, "helper");
                        ASSERT_OK(host_capture_add_end(&c, &end));
                }
                ASSERT_OK(scene_add(s, &c));
        }
}

/* The diagnosis of the world, which has to be the same from both orders. The scene is the caller's. */
static inline struct diagnosis *world_diagnose(struct world *w, struct scene *s) {
        struct scene other = SCENE_NULL;
        struct diagnosis *d, *e;

        world_scene(w, s, false);
        world_scene(w, &other, true);
        d = scene_diagnose(s, (uint32_t) w->n_hosts, RUN_STALLED);
        e = scene_diagnose(&other, (uint32_t) w->n_hosts, RUN_STALLED);
        ASSERT_STREQ(d->summary, e->summary);
        ASSERT_EQ(d->n_suspects, e->n_suspects);
        (void) diagnosis_free(e);
        scene_clear(&other);
        return d;
}
