/* SPDX-License-Identifier: Apache-2.0 */
/* Stalls that the judge was not built on: each was written down when it was done. */
#include "wait-scene.h"

#define NEVER 900000u

static struct world w;

/* A ring in order: every main thread receives from its left neighbour, and nobody owes anybody. */
static void ring(uint32_t n) {
        world_init(&w, n);
        for (uint32_t i = 0; i < n; i++) {
                struct world_link *l = world_link(&w, i, (i + 1) % n);

                l->a_received = l->b_sent = NEVER;
                (void) world_recv(&w, (i + 1) % n, world_main(&w, (i + 1) % n), l);
        }
}

/* Everyone meets everyone; all main threads wait for a lock that nobody is known to hold. */
static void mesh(uint32_t n) {
        world_init(&w, n);
        for (uint32_t i = 0; i < n; i++)
                for (uint32_t k = i + 1; k < n; k++)
                        (void) world_link(&w, i, k);
        for (uint32_t i = 0; i < n; i++)
                (void) world_wait(world_main(&w, i), WAIT_LOCK);
}

static struct world_thread *stand(uint32_t host, const char *stack, char state) {
        struct world_thread *t = world_main(&w, host);

        t->n_waits = 0;
        t->stack = stack;
        t->state = state;
        return t;
}

/* host: who has to be named; STACK_NONE: nobody. says: part of the summary. */
static void expect(const char *name, enum outcome outcome, uint32_t host, unsigned kind, const char *says) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d = world_diagnose(&w, &scene);
        bool named = d->n_suspects > 0 && d->suspects[0].score >= BLAME_NAMED;

        if (d->outcome != outcome || !strstr(d->summary, says) ||
            (host == STACK_NONE && named && outcome == OUTCOME_NOBODY) ||
            (host != STACK_NONE && (!named || d->suspects[0].host != host || d->suspects[0].kind != kind)))
                test_fail(__FILE__, __LINE__, "%s: %s %s: %s", name, outcome_name(d->outcome),
                          d->n_suspects ? stall_kind_name(d->suspects[0].kind) : "", d->summary);
        for (size_t i = 1; i < d->n_suspects && outcome == OUTCOME_NAMED; i++)
                if (d->suspects[i].score >= BLAME_NAMED)
                        test_fail(__FILE__, __LINE__, "%s: also %.2f %s", name, d->suspects[i].score,
                                  d->suspects[i].sentence);
        (void) diagnosis_free(d);
}

/* A ring whose message was never sent: all stacks are equal, all receive. Who last sent before it last
 * received left it out. */
static void test_all_stacks_equal(void) {
        for (uint32_t lost = 0; lost < 6; lost++) {
                ring(6);
                for (size_t i = 0; i < w.n_links; i++)
                        if (w.links[i].a == lost)
                                w.links[i].a_sent += MS_STEP;
                expect("a message that was left out", OUTCOME_NAMED, lost, WAIT_SOCKET,
                       "received data 0.60 s after it last sent");
        }
}

/* Nothing tells who: nobody is named, and it is said that they wait in a circle. */
static void test_a_circle(void) {
        ring(4);
        expect("a circle", OUTCOME_NOBODY, STACK_NONE, 0, "wait for each other's data in a circle, [0-3]");
        w.hosts[1].step = 41;
        w.hosts[0].step = w.hosts[2].step = w.hosts[3].step = 42;
        expect("a circle, and a step", OUTCOME_NAMED, 1, WAIT_SOCKET, "worker 1");
}

/* Two that each wait for the other's message; the rest waits for them. */
static void test_two_receive_from_each_other(void) {
        struct world_link *l, *m;

        world_init(&w, 5);
        l = world_link(&w, 1, 2);
        (void) world_recv(&w, 1, world_main(&w, 1), l);
        (void) world_recv(&w, 2, world_main(&w, 2), l);
        for (uint32_t i = 0; i < 5; i += i == 0 ? 3 : 1) {
                m = world_link(&w, 2, i);
                (void) world_recv(&w, i, world_main(&w, i), m);
        }
        expect("two, and nobody tells who", OUTCOME_NOBODY, STACK_NONE, 0, "in a circle, [1-2]");
        l->a_sent += MS_STEP; /* 1 has had 2's message, and did not answer */
        l->b_received += MS_STEP;
        expect("two, one of which owes", OUTCOME_NAMED, 1, WAIT_SOCKET, "worker 1");
}

/* Data from 1 to 2 are sent again and again: of a path between two it is not known which end. The next pair
 * says it. */
static void test_a_path_of_one_direction(void) {
        ring(4);
        w.links[1].a_unsent = 49632;
        w.links[1].a_unacknowledged = 2;
        w.links[1].a_retransmits = 6;
        w.links[2].a_unsent = 33088;
        w.links[2].a_unacknowledged = 1;
        w.links[2].a_retransmits = 5;
        expect("a path of one direction", OUTCOME_NAMED, 2, KIND_PATH,
               "packets between its address 10.10.0.12 and 2 others are lost");
}

/* Found on real hosts: a keeper and one of its workers wait for each other, for what one sends does not
 * arrive. Packets explain the circle, and either end may be why. */
static void test_a_cut_within_a_star(void) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        world_init(&w, 4);
        for (uint32_t i = 1; i < 4; i++)
                (void) world_recv(&w, i, world_main(&w, i), world_link(&w, 0, i));
        (void) world_recv(&w, 0, world_main(&w, 0), &w.links[0]);
        w.links[0].a_unacknowledged = 35;
        w.links[0].a_retransmits = 6;
        d = world_diagnose(&w, &scene);
        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_EQ(d->suspects[0].kind, KIND_PATH);
        ASSERT_EQ(d->suspects[0].host + d->suspects[1].host, 0 + 1);
        ASSERT_TRUE(strstr(d->summary, "one of these two NICs, or what lies between"));
        (void) diagnosis_free(d);
}

static void test_all_wait_for_storage(void) {
        mesh(6);
        for (uint32_t i = 0; i < 6; i++) {
                struct world_host *h = &w.hosts[i];

                h->more[h->n_more++] = (struct captured_socket){ .inode = 777,
                                                                 .family = AF_INET,
                                                                 .protocol = IPPROTO_TCP,
                                                                 .state = 1,
                                                                 .remote = 1,
                                                                 .sent_ms = 39000,
                                                                 .received_ms = 39000 };
                world_wait(stand(i, OWN_BATCH, 'S'), WAIT_SOCKET)->number = 777;
        }
        (void) world_text(&w, "172.16.0.9:443");
        expect("storage", OUTCOME_OUTSIDE, STACK_NONE, 0, "6 of 6 hosts wait for 172.16.0.9:443");
}

/* Two of six wait for it, the others for these. */
static void test_some_wait_for_a_mount(void) {
        mesh(6);
        for (uint32_t i = 1; i < 3; i++)
                world_wait(stand(i, OWN_BATCH, 'D'), WAIT_FILE)->text = 1;
        (void) world_text(&w, "nfs /mnt/data");
        expect("a mount", OUTCOME_OUTSIDE, STACK_NONE, 0, "2 of 6 hosts wait for nfs /mnt/data");
}

static void test_compile(void) {
        mesh(6);
        for (uint32_t i = 0; i < 6; i++)
                (void) stand(i,
                             i % 2 ? "loop.py:10 go | loop.py:70 build" : "loop.py:10 go | loop.py:71 build",
                             'R');
        expect("all compile", OUTCOME_WORKS, STACK_NONE, 0, "nobody waits for another");
}

/* Rank 0 writes a checkpoint, and the others wait for it in a barrier. */
static void test_checkpoint(void) {
        mesh(6);
        world_wait(stand(0, "loop.py:10 go | loop.py:90 save_all", 'D'), WAIT_FILE)->text = 1;
        (void) world_text(&w, "ext4 /ckpt");
        expect("a checkpoint", OUTCOME_NAMED, 0, WAIT_FILE, "the file system ext4 /ckpt");
}

static void test_silent(void) {
        ring(5);
        w.hosts[3].silent = true;
        expect("a host that is silent", OUTCOME_NAMED, 3, KIND_SILENT,
               "it did not answer, the 4 others wait for it");
}

static void test_left(void) {
        ring(5);
        w.hosts[3].ended = 990 * USEC_PER_SEC;
        expect("a rank that has left", OUTCOME_NAMED, 3, KIND_ENDED, "has left the run");
}

/* A launcher with connections of its own is no rank; a forked loader has its parent's sockets. */
static void test_launcher_and_loader(void) {
        ring(4);
        for (uint32_t i = 0; i < 4; i++) {
                struct world_thread *t;

                w.hosts[i].processes[0].parent = 900;
                (void) world_process(&w, i, 900, 0, "run.py:5 watch");
                (void) world_wait(&w.hosts[i].threads[1], WAIT_TIMER);
                (void) world_process(&w, i, 6000, world_pid(i), "feed.py:30 work");
                t = &w.hosts[i].threads[2];
                world_wait(t, WAIT_PIPE)->number = 555;
        }
        (void) world_wait(stand(2, OWN_BATCH, 'S'), WAIT_PIPE);
        world_main(&w, 2)->waits[0].number = 556;
        w.hosts[2].ends[w.hosts[2].n_ends++] =
                (struct captured_end){ .kind = WAIT_PIPE, .writes = true, .pid = 6000, .number = 556 };
        w.hosts[2].processes[2].state = w.hosts[2].threads[2].state = 'T';
        expect("a loader that is stopped", OUTCOME_NAMED, 2, WAIT_STOPPED,
               "process 6000 (`train`) is stopped");
}

/* The interpreter's lock, held by a thread in a native call. */
static void test_the_interpreters_lock(void) {
        struct captured_wait *gil;

        mesh(4);
        gil = world_wait(stand(1, OWN_BATCH, 'S'), WAIT_GIL);
        gil->holder_pid = world_pid(1);
        gil->holder_tid = 77;
        world_thread(&w, 1, world_pid(1), 77, "helper", "tok.py:3 scan | !libtok.so scan")->state = 'R';
        expect("the GIL", OUTCOME_NAMED, 1, KIND_CPU, "that one runs in `scan` under `tok.py:3 scan`");
}

/* Ends that see other addresses than their peers have: the bytes tell whose they are. */
static void test_behind_nat(void) {
        ring(5);
        for (size_t i = 0; i < w.n_links; i++)
                w.links[i].proxied = true;
        (void) world_wait(stand(4, "loop.py:10 go | loop.py:61 backoff", 'S'), WAIT_TIMER);
        expect("NAT", OUTCOME_NAMED, 4, WAIT_TIMER, "worker 4");
}

/* Heartbeats keep connections young, and those of the rendezvous are old: neither says who owes. */
static void test_heartbeats(void) {
        mesh(5);
        for (uint32_t i = 1; i < 5; i++) {
                struct world_link *beat = world_link(&w, 0, i), *old = world_link(&w, 0, i);

                *beat = (struct world_link){
                        .a = 0, .b = i, .a_sent = 900, .a_received = 100, .b_sent = 100, .b_received = 900
                };
                *old = (struct world_link){ .a = 0,
                                            .b = i,
                                            .a_sent = 820000,
                                            .a_received = 800000,
                                            .b_sent = 800000,
                                            .b_received = 820000,
                                            .a_unread = 12 };
        }
        for (size_t i = 0; i < 10; i++) {
                if (w.links[i].a == 3) {
                        w.links[i].a_sent += MS_STEP;
                        w.links[i].b_received += MS_STEP;
                } else if (w.links[i].b == 3) {
                        w.links[i].b_sent += MS_STEP;
                        w.links[i].a_received += MS_STEP;
                }
        }
        expect("heartbeats", OUTCOME_NAMED, 3, KIND_OWES, "worker 3");
}

/* Found on real processes: ranks that look for data again and again are met in any line, and nobody says
 * that they do. One of them loops in code of its own: the sockets tell them apart. */
static void test_ranks_that_look_again(void) {
        static const char *const lines[] = { "loop.py:10 go | loop.py:40 swap",
                                             "loop.py:10 go | loop.py:41 swap",
                                             "loop.py:10 go | loop.py:45 any_left",
                                             "loop.py:10 go | loop.py:77 spin" };

        for (uint32_t odd = 0; odd < 4; odd++) {
                mesh(4);
                for (uint32_t i = 0; i < 4; i++)
                        (void) stand(i, lines[i == odd ? 3 : i % 3], 'R');
                for (size_t i = 0; i < w.n_links; i++) {
                        w.links[i].a_unread = w.links[i].a == odd ? 20000 : 0;
                        w.links[i].b_unread = w.links[i].b == odd ? 20000 : 0;
                        w.links[i].a_sent += w.links[i].a == odd ? 264 : 0;
                        w.links[i].b_sent += w.links[i].b == odd ? 264 : 0;
                }
                expect("ranks that look again", OUTCOME_NAMED, odd, KIND_CPU, "runs in `loop.py:77 spin`");
        }
}

/* A pool that idles, a feeder that waits to be asked and a logger that writes now and then stand
 * everywhere: the one host where such a thread does something else is no culprit for it. */
static void test_threads_that_serve(void) {
        mesh(6);
        for (uint32_t i = 0; i < 6; i++) {
                (void) world_wait(world_thread(&w, i, world_pid(i), 301, "pool", "pool.py:3 idle"),
                                  WAIT_LOCK);
                (void) world_wait(world_thread(&w, i, world_pid(i), 302, "feeder", "feed.py:9 offer"),
                                  WAIT_LOCK);
                (void) world_wait(world_thread(&w, i, world_pid(i), 303, "logger", "log.py:4 tick"),
                                  WAIT_TIMER);
        }
        w.hosts[4].threads[3].state = 'R'; /* its logger */
        w.hosts[4].threads[3].n_waits = 0;
        w.hosts[4].threads[3].stack = "log.py:4 tick | log.py:8 flush";
        (void) world_wait(stand(1, "loop.py:10 go | loop.py:61 backoff", 'S'), WAIT_TIMER);
        expect("threads that serve", OUTCOME_NAMED, 1, WAIT_TIMER, "worker 1");
}

/* The loader had some batches ahead: the main thread came to its wait after the first capture, the thread
 * that computes has run since before. */
static void test_it_came_to_its_wait(void) {
        struct world_thread *t;

        ring(4);
        for (uint32_t i = 0; i < 4; i++)
                (void) world_wait(world_thread(&w, i, world_pid(i), 302, "feeder", "feed.py:9 offer"),
                                  WAIT_LOCK);
        t = stand(2, "loop.py:10 go | feed.py:5 take", 'S');
        t->before = OWN_EXCHANGE;
        (void) world_wait(t, WAIT_LOCK);
        t = &w.hosts[2].threads[1];
        t->n_waits = 0;
        t->state = 'R';
        t->before = "feed.py:12 fill | data.py:30 windows";
        t->stack = "feed.py:12 fill | data.py:33 windows";
        expect("a loader that loops", OUTCOME_NAMED, 2, KIND_CPU, "\"feeder\" runs in `data.py:33 windows`");
        t->before = "feed.py:9 offer";
        t->state = 'S';
        (void) world_wait(t, WAIT_PIPE);
        expect("both have moved", OUTCOME_NAMED, 2, WAIT_LOCK, "worker 2");
}

/* A rank that is throttled by its control group, in the middle of a step. */
static void test_throttled(void) {
        ring(4);
        world_wait(stand(3, "loop.py:10 go | loop.py:50 slope", 'R'), WAIT_THROTTLED)->text = 1;
        (void) world_text(&w, "/train.slice (cpu.max)");
        expect("throttled", OUTCOME_NAMED, 3, WAIT_THROTTLED, "held back by its control group");
}

/* Who runs in both captures, 5 s apart, and got next to no CPU in between, is starved, wherever it is. */
static void test_starved(void) {
        struct world_thread *t;

        ring(4);
        t = stand(3, "loop.py:10 go | loop.py:50 slope", 'R');
        expect("it is not known", OUTCOME_NAMED, 3, KIND_CPU, "runs in `loop.py:50 slope`, the");
        t->cpu = 400 * USEC_PER_MSEC;
        expect("busy beside others", OUTCOME_NAMED, 3, KIND_CPU, "runs in `loop.py:50 slope`, the");
        t->cpu = 40 * USEC_PER_MSEC;
        expect("starved", OUTCOME_NAMED, 3, WAIT_THROTTLED, "`loop.py:50 slope`, and gets next to no CPU");
        t->before = "loop.py:10 go | loop.py:40 sum";
        expect("starved, elsewhere", OUTCOME_NAMED, 3, WAIT_THROTTLED, "and gets next to no CPU");
        t->state = 'S';
        (void) world_wait(t, WAIT_TIMER);
        expect("asleep", OUTCOME_NAMED, 3, WAIT_TIMER, "sleeps");
}

/* The process that serves the rank over a Unix socket hangs in its turn. */
static void test_a_server_on_the_host(void) {
        struct world_host *h;

        ring(4);
        h = &w.hosts[1];
        h->more[h->n_more++] = (struct captured_socket){
                .inode = 71, .peer = 72, .family = AF_UNIX, .state = 1, .remote = 1, .local = 1
        };
        (void) world_text(&w, "/run/cache.sock");
        world_wait(stand(1, OWN_BATCH, 'S'), WAIT_SOCKET)->number = 71;
        (void) world_process(&w, 1, 8000, 0, "cached.py:9 answer");
        (void) world_wait(&h->threads[1], WAIT_FILE);
        h->ends[h->n_ends++] = (struct captured_end){
                .kind = WAIT_SOCKET, .reads = true, .writes = true, .pid = 8000, .number = 72
        };
        expect("a server on the host", OUTCOME_NAMED, 1, WAIT_FILE,
               "process 8000 (`train`) waits for the file system");
}

TEST_MAIN(test_all_stacks_equal, test_a_circle, test_two_receive_from_each_other,
          test_a_path_of_one_direction, test_a_cut_within_a_star, test_all_wait_for_storage,
          test_some_wait_for_a_mount, test_compile, test_checkpoint, test_silent, test_left,
          test_launcher_and_loader, test_the_interpreters_lock, test_behind_nat, test_heartbeats,
          test_threads_that_serve, test_it_came_to_its_wait, test_ranks_that_look_again,
          test_throttled, test_starved, test_a_server_on_the_host)
