/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of trainings by causes, in what the kernel says alone: who is named, as what, with which chain. */
#include "wait-scene.h"

#define NEVER 900000u /* milliseconds: since it was connected */

/* --- Causes ------------------------------------------------------------------------------------------ */

static void cause_stopped(struct world *w, uint32_t host) {
        w->hosts[host].processes[0].state = 'T';
        for (size_t i = 0; i < w->hosts[host].n_threads; i++)
                w->hosts[host].threads[i].state = 'T';
}

static struct world_thread *stands(struct world *w, uint32_t host, const char *stack) {
        struct world_thread *t = world_main(w, host);

        t->n_waits = 0;
        t->stack = stack;
        return t;
}

static void cause_loop(struct world *w, uint32_t host) {
        stands(w, host, "loop.py:10 go | loop.py:77 spin")->state = 'R';
}

static void cause_sleep(struct world *w, uint32_t host) {
        (void) world_wait(stands(w, host, "loop.py:10 go | loop.py:61 backoff"), WAIT_TIMER);
}

static void cause_mount(struct world *w, uint32_t host) {
        struct captured_wait *wait = world_wait(stands(w, host, OWN_BATCH), WAIT_FILE);

        wait->text = world_text(w, "fuse /mnt/data");
        wait->since_usec = 41 * USEC_PER_SEC;
}

/* A mutex that another thread holds, which writes to a file system that hangs. */
static void cause_holder(struct world *w, uint32_t host) {
        struct world_thread *t = stands(w, host, OWN_BATCH " | cache.py:12 put"),
                            *holder = world_thread(w, host, world_pid(host), 214, "writer",
                                                   "cache.py:40 trim");
        struct captured_wait *lock = world_wait(t, WAIT_LOCK), *file = world_wait(holder, WAIT_FILE);

        lock->number = 0x7f00;
        lock->holder_pid = world_pid(host);
        lock->holder_tid = 214;
        lock->since_usec = 41 * USEC_PER_SEC;
        lock->text = world_text(w, "glibc mutex of libcache.so");
        file->text = world_text(w, "fuse /mnt/data");
}

static void cause_deadlock(struct world *w, uint32_t host) {
        struct world_thread *t = stands(w, host, OWN_BATCH " | cache.py:12 put"),
                            *other = world_thread(w, host, world_pid(host), 214, "trim", "cache.py:40 trim");
        struct captured_wait *a = world_wait(t, WAIT_LOCK), *b = world_wait(other, WAIT_LOCK);

        a->holder_pid = b->holder_pid = world_pid(host);
        a->holder_tid = 214;
        b->holder_tid = world_pid(host);
}

/* The two ends of a pipe: the rank reads, the child writes. */
static struct captured_wait *reads_pipe(struct world *w, uint32_t host, struct world_thread *t,
                                        uint32_t child) {
        struct world_host *h = &w->hosts[host];
        struct captured_wait *wait = world_wait(t, WAIT_PIPE);

        wait->number = 555;
        h->ends[h->n_ends++] = (struct captured_end){
                .kind = WAIT_PIPE, .reads = true, .pid = world_pid(host), .number = 555
        };
        if (child > 0)
                h->ends[h->n_ends++] = (struct captured_end){
                        .kind = WAIT_PIPE, .writes = true, .pid = child, .number = 555
                };
        return wait;
}

static void cause_child_stopped(struct world *w, uint32_t host) {
        uint32_t child = world_process(w, host, 5000, world_pid(host), "feed.py:30 work");

        (void) reads_pipe(w, host, stands(w, host, OWN_BATCH), child);
        w->hosts[host].processes[1].state = 'T';
        w->hosts[host].threads[w->hosts[host].n_threads - 1].state = 'T';
}

static void cause_child_killed(struct world *w, uint32_t host) {
        (void) reads_pipe(w, host, stands(w, host, OWN_BATCH), 0);
        w->hosts[host].processes[0].children_gone = 1;
}

/* A storage server, and a name server, that do not answer. */
static void outside(struct world *w, uint32_t host, uint8_t protocol, const char *remote) {
        struct world_host *h = &w->hosts[host];
        struct captured_wait *wait = world_wait(stands(w, host, OWN_BATCH), WAIT_SOCKET);

        h->more[h->n_more++] = (struct captured_socket){ .inode = 777,
                                                         .family = AF_INET,
                                                         .protocol = protocol,
                                                         .state = protocol == IPPROTO_TCP ? 1 : 7,
                                                         .remote = world_text(w, remote),
                                                         .sent_ms = 39000,
                                                         .received_ms = 39000 };
        wait->number = 777;
}

static void cause_storage(struct world *w, uint32_t host) {
        outside(w, host, IPPROTO_TCP, "172.16.0.9:443");
}

static void cause_names(struct world *w, uint32_t host) {
        outside(w, host, IPPROTO_UDP, "169.254.169.254:53");
}

/* A helper at the other end of a Unix socket of which the kernel does not tell the peer. */
static void helper(struct world *w, uint32_t host, const char *path) {
        struct world_host *h = &w->hosts[host];
        const struct captured_socket one = { .family = AF_UNIX, .state = 1, .fd = 5 };

        world_wait(stands(w, host, OWN_BATCH), WAIT_SOCKET)->number = 9001;
        (void) world_process(w, host, 5000, world_pid(host), "numbers.py:8 serve");
        world_wait(&h->threads[h->n_threads - 1], WAIT_FILE)->text = world_text(w, "fuse /mnt/data");
        for (uint32_t i = 0; i < 2; i++) {
                struct captured_socket *s = &h->more[h->n_more];

                *s = one;
                s->inode = (path ? 9001 + 70 * i : 9001 + i);
                s->local = path && i == 1 ? world_text(w, path) : 0;
                s->remote = path && i == 0 ? world_text(w, path) : 0;
                h->more_of[h->n_more++] = i == 0 ? 0 : 5000;
        }
}

static void cause_pair(struct world *w, uint32_t host) {
        helper(w, host, NULL);
}

static void cause_path(struct world *w, uint32_t host) {
        helper(w, host, "/run/numbers");
}

static const struct cause {
        const char *name;
        void (*strike)(struct world *w, uint32_t host);
        unsigned kind;
        const char *says;
} causes[] = {
        { "stopped", cause_stopped, WAIT_STOPPED, "is stopped (state T)" },
        { "loop", cause_loop, KIND_CPU, "runs in `loop.py:77 spin`" },
        { "sleep", cause_sleep, WAIT_TIMER, "its main thread sleeps under `loop.py:61 backoff`" },
        { "mount", cause_mount, WAIT_FILE,
          "waits 41 s for the file system fuse /mnt/data under `feed.py:7 draw`" },
        { "holder", cause_holder, WAIT_FILE,
          "its main thread waits 41 s for glibc mutex of libcache.so that thread 214 'writer' holds under "
          "`cache.py:12 put`; that one waits for the file system fuse /mnt/data under `cache.py:40 trim`" },
        { "deadlock", cause_deadlock, WAIT_LOCK, ": they wait for each other, a deadlock" },
        { "child stopped", cause_child_stopped, WAIT_STOPPED, "; process 5000 (`train`) is stopped" },
        { "child killed", cause_child_killed, WAIT_CHILD,
          "whose other end nobody has: a child of it has ended" },
        { "storage", cause_storage, WAIT_SOCKET, "→ 172.16.0.9:443" },
        { "pair of sockets", cause_pair, WAIT_FILE,
          "; process 5000 (`train`) waits for the file system fuse /mnt/data" },
        { "server on a path", cause_path, WAIT_FILE,
          "; process 5000 (`train`) waits for the file system fuse /mnt/data" },
        { "names", cause_names, WAIT_SOCKET, "→ 169.254.169.254:53" },
};

/* --- Shapes ------------------------------------------------------------------------------------------ */

/* Each receives from its left neighbour; the struck one has its neighbour's data unread, and owes a step. */
static void shape_ring(struct world *w, uint32_t struck) {
        for (uint32_t i = 0; i < w->n_hosts; i++) {
                uint32_t right = (uint32_t) ((i + 1) % w->n_hosts);
                struct world_link *l = world_link(w, i, right);

                l->a_received = l->b_sent = NEVER;
                (void) world_recv(w, right, world_main(w, right), l);
                if (right == struck)
                        l->b_unread = 49632;
                if (i == struck)
                        l->a_sent = MS_STALL + MS_STEP;
        }
}

/* Host 0 keeps the weights; it takes what the others hand back in order, and has not come to those behind.
 */
static void shape_star(struct world *w, uint32_t struck) {
        for (uint32_t i = 1; i < w->n_hosts; i++) {
                struct world_link *l = world_link(w, 0, i);

                (void) world_recv(w, i, world_main(w, i), l);
                if (struck == 0 || i != struck) { /* its answer lies there */
                        l->a_unread = 80004;
                        l->a_sent = MS_STALL + 300;
                        l->b_received = MS_STALL + 300;
                }
                if (i == struck)
                        (void) world_recv(w, 0, world_main(w, 0), l);
        }
        if (struck == 0)
                (void) world_recv(w, 0, world_main(w, 0), &w->links[0]);
}

/* All meet all. The main threads wait for a thread of their own, which polls all connections and has read
 * what came: who the others wait for shows in the times alone. */
static void shape_all(struct world *w, uint32_t struck) {
        for (uint32_t i = 0; i < w->n_hosts; i++)
                for (uint32_t k = i + 1; k < w->n_hosts; k++) {
                        struct world_link *l = world_link(w, i, k);

                        if (i == struck) {
                                l->a_sent += MS_STEP;
                                l->b_received += MS_STEP;
                        } else if (k == struck) {
                                l->b_sent += MS_STEP;
                                l->a_received += MS_STEP;
                        }
                }
        for (uint32_t i = 0; i < w->n_hosts; i++) {
                struct world_thread *poller = world_thread(w, i, world_pid(i), 300 + i, "poller",
                                                           "!libx.so poll");

                (void) world_wait(world_main(w, i), WAIT_LOCK);
                for (size_t k = 0; k < w->n_links && poller->n_waits < WORLD_THREADS_MAX; k++)
                        if (w->links[k].a == i || w->links[k].b == i)
                                world_recv(w, i, poller, &w->links[k])->any = true;
        }
}

/* As MPI waits: the main threads run, and look at all their connections again and again. */
static void shape_spinning(struct world *w, uint32_t struck) {
        shape_all(w, struck);
        for (uint32_t i = 0; i < w->n_hosts; i++) {
                struct world_thread *t = world_main(w, i);

                t->state = 'R';
                memcpy(t->waits, w->hosts[i].threads[1].waits, sizeof(t->waits));
                t->n_waits = w->hosts[i].threads[1].n_waits;
                for (size_t k = 0; k < t->n_waits; k++)
                        t->waits[k].spins = true;
                w->hosts[i].n_threads = 1;
        }
}

/* A tree: the children's sums go up, the result comes down. */
static void shape_tree(struct world *w, uint32_t struck) {
        for (uint32_t i = 1; i < w->n_hosts; i++) {
                uint32_t parent = (i - 1) / 2;
                struct world_link *l = world_link(w, parent, i);
                bool up = false; /* the struck one is below: this child's sum has not come */

                for (uint32_t k = struck; k > 0; k = (k - 1) / 2)
                        up |= k == i;
                if (up)
                        (void) world_recv(w, parent, world_main(w, parent), l);
                else
                        (void) world_recv(w, i, world_main(w, i), l);
                if (!up)
                        l->b_received = l->a_sent = MS_STALL + MS_STEP; /* the parent owes */
        }
}

static const struct shape {
        const char *name;
        void (*make)(struct world *w, uint32_t struck);
} shapes[] = {
        { "ring", shape_ring },         { "star", shape_star }, { "all to all", shape_all },
        { "spinning", shape_spinning }, { "tree", shape_tree },
};

static void strike(struct world *w, const struct shape *shape, const struct cause *cause, uint32_t n,
                   uint32_t struck) {
        world_init(w, n);
        shape->make(w, struck);
        world_main(w, struck)->state = 'S';
        cause->strike(w, struck);
}

static void check(const struct shape *shape, const struct cause *cause, uint32_t n, uint32_t struck) {
        static struct world w;
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        strike(&w, shape, cause, n, struck);
        d = world_diagnose(&w, &scene);
        if (d->outcome != OUTCOME_NAMED || d->suspects[0].host != struck ||
            d->suspects[0].kind != cause->kind || !strstr(d->summary, cause->says))
                test_fail(__FILE__, __LINE__, "%s, %s, %u hosts, struck %u: %s, %s: %s", shape->name,
                          cause->name, n, struck, outcome_name(d->outcome),
                          d->n_suspects ? stall_kind_name(d->suspects[0].kind) : "", d->summary);
        for (size_t i = 1; i < d->n_suspects; i++)
                if (d->suspects[i].score >= BLAME_NAMED)
                        test_fail(__FILE__, __LINE__, "%s, %s, %u hosts, struck %u: %.2f %s", shape->name,
                                  cause->name, n, struck, d->suspects[i].score, d->suspects[i].sentence);
        (void) diagnosis_free(d);
}

static void test_shapes_by_causes(void) {
        for (size_t s = 0; s < ELEMENTSOF(shapes); s++)
                for (size_t c = 0; c < ELEMENTSOF(causes); c++)
                        for (uint32_t n = 3; n <= 16; n = n * 2 - 1)
                                for (uint32_t struck = 0; struck < n; struck++)
                                        check(&shapes[s], &causes[c], n, struck);
}

/* The sentence that the issue of this judgement promised, in our words. */
static void test_the_chain(void) {
        static struct world w;
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        strike(&w, &shapes[0], &causes[4], 4, 2);
        d = world_diagnose(&w, &scene);
        ASSERT_STREQ(d->summary,
                     "slice 1, worker 2 (10.10.0.12) holds the run up: its main thread waits 41 s for glibc "
                     "mutex of libcache.so that thread 214 'writer' holds under `cache.py:12 put`; that one "
                     "waits for the file system fuse /mnt/data under `cache.py:40 trim`, the 3 others wait "
                     "for it (49 kB from them lie unread there)");
        (void) diagnosis_free(d);
}

/* A neighbour on either side may be either: the chain ends there, and says no process. */
static void test_pairs_that_cannot_be_told(void) {
        static struct world w;
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct world_host *h = &w.hosts[1];
        struct diagnosis *d;

        world_init(&w, 4);
        for (uint32_t i = 0; i < 4; i++)
                if (i != 1)
                        (void) world_recv(&w, i, world_main(&w, i), world_link(&w, 1, i));
        cause_pair(&w, 1);
        h->more[h->n_more] = h->more[1];
        h->more[h->n_more].inode = 9000;
        h->more_of[h->n_more++] = world_process(&w, 1, 5001, world_pid(1), "other.py:8 serve");
        d = world_diagnose(&w, &scene);
        ASSERT_EQ(d->graph.chains[1].n, 1);
        ASSERT_EQ(d->graph.chains[1].end, END_UNKNOWN);
        (void) diagnosis_free(d);
}

/* A thread that asks for a name again and again stands in another line each time, and does not get on. One
 * that has gone to another function does. */
static void test_a_call_that_is_tried_again(void) {
        static const struct {
                const char *before;
                bool named;
        } cases[] = {
                { "feed.py:7 draw | names.py:5 find", true },
                { "feed.py:7 draw | files.py:5 load", false },
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                static struct world w;
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct diagnosis *d;

                world_init(&w, 4);
                for (uint32_t i = 0; i < 4; i++) {
                        struct world_thread *t;

                        if (i != 1)
                                (void) world_recv(&w, i, world_main(&w, i), world_link(&w, 1, i));
                        t = world_thread(&w, i, world_pid(i), 300 + i, "feeder", "feed.py:9 draw");
                        (void) world_wait(t, WAIT_LOCK);
                }
                cause_names(&w, 1);
                w.hosts[1].threads[1].waits[0] = world_main(&w, 1)->waits[0];
                w.hosts[1].threads[1].stack = "feed.py:7 draw | names.py:3 find";
                w.hosts[1].threads[1].before = cases[k].before;
                world_main(&w, 1)->waits[0] = (struct captured_wait){ .kind = WAIT_LOCK,
                                                                      .fd = WAIT_FD_NONE };
                d = world_diagnose(&w, &scene);
                ASSERT_EQ(strstr(d->summary, "→ 169.254.169.254:53") != NULL, cases[k].named);
                (void) diagnosis_free(d);
        }
}

#define SUM "loop.py:10 go | loop.py:40 sum"
#define IN_A_FUTURE " | /usr/lib/python3.11/concurrent/futures/_base.py:451 result"

/* One rank waits elsewhere, for a lock without a holder, in what its code calls there. All others wait for
 * the sum in a future. */
static unsigned alone_in(const char *stack, bool helper_is_odd) {
        static struct world w;
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;
        unsigned kind;

        world_init(&w, 4);
        for (uint32_t i = 0; i < 4; i++)
                (void) world_wait(stands(&w, i, i == 2 ? stack : SUM IN_A_FUTURE), WAIT_LOCK);
        if (helper_is_odd)
                (void) world_wait(world_thread(&w, 2, world_pid(2), 214, "writer", "cache.py:40 trim"),
                                  WAIT_LOCK);
        d = world_diagnose(&w, &scene);
        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_EQ(d->suspects[0].host, 2u);
        kind = (unsigned) d->suspects[0].kind;
        ASSERT_EQ(!!strstr(d->summary, "its main thread seems to wait for other ranks, in the library code "
                                       "in which most of them wait, but under `loop.py:60 extra`"),
                  kind == (unsigned) WAIT_SOCKET);
        (void) diagnosis_free(d);
        return kind;
}

/* An exchange that the others take no part in, and a lock of its own. */
static void test_it_waits_as_most_elsewhere(void) {
        ASSERT_EQ(alone_in("loop.py:10 go | loop.py:60 extra" IN_A_FUTURE, false), (unsigned) WAIT_SOCKET);
        ASSERT_EQ(alone_in("loop.py:10 go | loop.py:60 extra" IN_A_FUTURE, true), (unsigned) WAIT_LOCK);
        ASSERT_EQ(alone_in("loop.py:10 go | loop.py:60 extra", false), (unsigned) WAIT_LOCK);
        ASSERT_EQ(alone_in("loop.py:10 go | loop.py:60 extra | /usr/lib/python3.11/queue.py:171 get", false),
                  (unsigned) WAIT_LOCK);
}

/* Event loops that have threads for what blocks: each main thread watches all its connections, and the input
 * of a child, as asyncio does. On one host such a thread is stuck; on the others they wait for something to
 * do. */
static void test_an_event_loop(void) {
        for (uint32_t struck = 0; struck < 4; struck++) {
                static struct world w;
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct diagnosis *d;

                world_init(&w, 4);
                shape_all(&w, struck);
                for (uint32_t i = 0; i < 4; i++) {
                        struct world_host *h = &w.hosts[i];
                        struct world_thread *t = world_main(&w, i), *of_pool;
                        struct captured_wait *input;

                        memcpy(t->waits, h->threads[1].waits, sizeof(t->waits));
                        t->n_waits = h->threads[1].n_waits;
                        h->n_threads = 1;
                        input = world_wait(t, WAIT_PIPE);
                        input->number = 900 + i;
                        input->any = true;
                        h->ends[h->n_ends++] = (struct captured_end){
                                .kind = WAIT_PIPE, .number = 900 + i, .pid = world_pid(i), .writes = true
                        };
                        of_pool = world_thread(&w, i, world_pid(i), 500 + i, "pool",
                                               i == struck ? "thread.py:5 work | rows.py:9 draw"
                                                           : "thread.py:5 work | thread.py:9 idle");
                        world_wait(of_pool, i == struck ? WAIT_FILE : WAIT_LOCK)->text =
                                i == struck ? world_text(&w, "/srv/rows") : 0;
                }
                d = world_diagnose(&w, &scene);
                ASSERT_EQ(d->outcome, OUTCOME_NAMED);
                ASSERT_EQ(d->suspects[0].host, struck);
                ASSERT_EQ((unsigned) d->suspects[0].kind, (unsigned) WAIT_FILE);
                ASSERT_TRUE(strstr(d->summary, "under `rows.py:9 draw`"));
                ASSERT_TRUE(d->n_suspects < 2 || d->suspects[1].score < BLAME_NAMED);
                (void) diagnosis_free(d);
        }
}

/* A main thread waits within a library for what nobody gives, and one of the library's own threads watches
 * all connections: it waits for other ranks. So it is not where the library watches nothing, or the
 * interpreter waits. */
static void test_a_library_that_exchanges(void) {
        static const struct {
                const char *main, *poller;
                unsigned kind;
        } cases[] = {
                { "loop.py:60 extra | !libx.so take | !libc.so.6 cond_wait", "!libx.so poll", WAIT_SOCKET },
                { "loop.py:60 extra | !libx.so take | !libstdc++.so.6 wait | !libc.so.6 wait",
                  "!libx.so poll", WAIT_SOCKET },
                { "loop.py:60 extra | !libx.so take | !libc.so.6 cond_wait", "!liby.so poll", WAIT_LOCK },
                { "loop.py:60 extra | !libc-2.31.so syscall", "!libc-2.31.so epoll_wait", WAIT_LOCK },
                { "loop.py:60 extra | !libc.so.6 cond_wait", "!libc.so.6 poll", WAIT_LOCK },
                { "loop.py:60 extra | !libpython3.11.so take", "!libpython3.11.so poll", WAIT_LOCK },
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                static struct world w;
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct diagnosis *d;

                world_init(&w, 4);
                shape_all(&w, 2);
                for (uint32_t i = 0; i < 4; i++)
                        w.hosts[i].threads[1].stack = cases[k].poller;
                world_main(&w, 2)->stack = cases[k].main;
                d = world_diagnose(&w, &scene);
                ASSERT_EQ(d->suspects[0].host, 2);
                ASSERT_EQ((unsigned) d->suspects[0].kind, cases[k].kind);
                ASSERT_EQ(strstr(d->summary, "in libx.so, which watches connections to them") != NULL,
                          k < 2);
                (void) diagnosis_free(d);
        }
}

TEST_MAIN(test_shapes_by_causes, test_the_chain, test_it_waits_as_most_elsewhere,
          test_pairs_that_cannot_be_told, test_an_event_loop, test_a_library_that_exchanges,
          test_a_call_that_is_tried_again)
