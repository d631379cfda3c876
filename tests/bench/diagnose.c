/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From captures as they come over the wire to the verdict: decode, merge, who is at fault, the tree of all
 * threads. Hosts have THREADS threads of FRAMES frames; nine of ten stacks are one of 64 that the whole
 * slice has, the tenth is like no other; hosts come in any order, and so do their threads. Each thread
 * waits for a lock; the main threads wait for their left neighbour's data, in a ring, and one reads a pipe.
 * Prints seconds of one core and the peak of memory, the captures' own bytes included. Usage:
 * bench-diagnose [HOSTS [THREADS [FRAMES]]]
 */
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "capture_write.h"
#include "diagnosis_print.h"
#include "tree.h"

#define COMMON 64u
#define DISTINCT 10u /* of a hundred */
#define FILES 200u
#define FUNCTIONS 2000u
#define LINES 30u /* of a function, that can be in a stack */

struct bytes {
        uint8_t *data;
        size_t len;
};

static uint64_t state = 1;

static uint32_t roll(uint32_t below) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        return (uint32_t) (state >> 33) % below;
}

static double now(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static void must(int r, const char *what) {
        if (r < 0) {
                fprintf(stderr, "bench-diagnose: %s: %s\n", what, strerror(-r));
                exit(EXIT_FAILURE);
        }
}

static uint32_t string(struct stack_table *t, const char *s) {
        uint32_t n;

        must(stack_table_string(t, s, strlen(s), &n), "string");
        return n;
}

/* A line of function `function` of the code base. */
static uint32_t frame(struct stack_table *t, uint32_t function, uint32_t line) {
        struct stack_frame f = { .line = 1 + line };
        char text[64];
        uint32_t n;

        (void) snprintf(text, sizeof(text), "/srv/train/package/module_%u.py", function % FILES);
        f.file = string(t, text);
        (void) snprintf(text, sizeof(text), "Layer%u.method_%u", function % 100, function);
        f.function = string(t, text);
        must(stack_table_frame(t, &f, &n), "frame");
        return n;
}

/* Neighbours among the common stacks share their outer half, as threads of one program do; a distinct one
 * goes its own way from the middle on. The innermost frame of most is a lock; of the main threads,
 * all-reduce. */
static uint32_t stack(struct stack_table *t, uint32_t number, bool distinct, const char *innermost,
                      uint32_t frames) {
        uint32_t list[STACK_FRAMES_MAX], n;

        for (uint32_t i = 0; i + 1 < frames; i++) {
                uint32_t of = i < frames / 2 ? number / 8 : number;

                if (distinct && i >= frames / 2)
                        list[i] = frame(t, roll(FUNCTIONS), roll(LINES));
                else
                        list[i] = frame(t, (of * 61 + i * 7) % FUNCTIONS, i % LINES);
        }
        must(stack_table_frame(
                     t,
                     &(struct stack_frame){ string(t, "/srv/train/wait.py"), string(t, innermost), 7, 0, 0 },
                     &list[frames - 1]),
             "frame");
        must(stack_table_stack(t, list, frames, &n), "stack");
        return n;
}

/* The connections of a ring: to the right neighbour, and from the left one. */
static void add_sockets(struct capture_writer *w, uint32_t worker, uint32_t hosts, bool owes) {
        for (uint32_t side = 0; side < 2; side++) {
                uint32_t link = side == 0 ? worker : (worker + hosts - 1) % hosts;
                struct captured_socket s = { .inode = 1000 + side,
                                             .fd = 5 + side,
                                             .family = 2,
                                             .protocol = 6,
                                             .state = 1,
                                             .sent_ms = side == 0 && owes ? 40600 : 40000,
                                             .received_ms = 40000,
                                             .bytes_acked = 1000000 + link,
                                             .bytes_received = 1000000 + link };
                char ends[2][48];

                (void) snprintf(ends[0], sizeof(ends[0]), "10.%u.%u.1:40000", link >> 8, link & 255);
                (void) snprintf(ends[1], sizeof(ends[1]), "10.%u.%u.2:7300", link >> 8, link & 255);
                s.local = string(&w->table, ends[side]);
                s.remote = string(&w->table, ends[1 - side]);
                must(host_capture_add_socket(&w->c, &s), "socket");
        }
}

static void make_host(uint32_t worker, uint32_t hosts, uint32_t odd, uint32_t threads, uint32_t frames,
                      struct bytes *ret) {
        _cleanup_capture_writer_ struct capture_writer w;
        Capture__Part part = CAPTURE__PART__INIT;
        Capture__Host h = CAPTURE__HOST__INIT, *hosts_of[] = { &h };
        struct captured_process *p;
        char host[32];

        must(capture_writer_init(&w), "writer");
        must(host_capture_add_process(&w.c, &p), "process");
        p->pid = 4711;
        p->state = 'S';
        add_sockets(&w, worker, hosts, worker == odd);
        for (uint32_t i = 0; i < threads; i++) {
                struct captured_wait wait = { .kind = i > 0           ? WAIT_LOCK
                                                      : worker == odd ? WAIT_PIPE
                                                                      : WAIT_SOCKET,
                                              .fd = WAIT_FD_NONE,
                                              .number = 1001 };
                struct captured_thread *thread;
                char name[16];

                must(host_capture_add_thread(&w.c, &thread), "thread");
                (void) snprintf(name, sizeof(name), "pool-%u", i);
                thread->tid = 4711 + i;
                thread->name = string(&w.table, i == 0 ? "python3" : name);
                thread->wait = string(&w.table, i == 0 && worker == odd ? "pipe_read" : "futex_wait_queue");
                thread->state = 'S';
                thread->stack = i == 0 ? stack(&w.table, 0, false,
                                               worker == odd ? "next_batch" : "all_reduce", frames)
                                       : stack(&w.table, roll(COMMON), roll(100) < DISTINCT + 1, "acquire",
                                               frames);
                must(host_capture_add_wait(&w.c, &wait), "wait");
                must(capture_writer_thread(&w), "part");
        }
        must(capture_writer_process(&w), "process");
        (void) snprintf(host, sizeof(host), "host-%u", worker);
        h.slice = capture_part_text("1");
        h.host = host;
        h.worker_plus_1 = worker + 1;
        part.host = hosts_of;
        part.n_host = 1;
        must(capture_writer_add(&w, &part, true), "end");
        ret->len = w.len;
        ret->data = mmap(NULL, ret->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(ret->data == MAP_FAILED ? -errno : 0, "mmap"); /* which is given back when it is freed */
        memcpy(ret->data, w.data, ret->len);
}

/* Decode and merge: one scene out of all captures. */
static void merge(struct scene *s, struct bytes *hosts, const uint32_t *order, uint32_t n, bool last) {
        for (uint32_t i = 0; i < n; i++) {
                struct host_capture c;
                char why[CAPTURE_WHY_MAX];

                must(capture_read(hosts[order[i]].data, hosts[order[i]].len, CAPTURE_DIAGNOSED, &c,
                                  &s->table, why),
                     why);
                must(scene_add(s, &c), "add");
                if (last) { /* as who receives them does */
                        (void) munmap(hosts[order[i]].data, hosts[order[i]].len); /* our own */
                }
        }
}

static void shuffle(uint32_t *order, uint32_t n) {
        for (uint32_t i = 0; i < n; i++) {
                uint32_t k = roll(i + 1);

                order[i] = order[k];
                order[k] = i;
        }
}

static size_t sum(const struct bytes *hosts, uint32_t n) {
        size_t bytes = 0;

        for (uint32_t i = 0; i < n; i++)
                bytes += hosts[i].len;
        return bytes;
}

static void print(size_t bytes, const struct scene *s, const struct diagnosis *d, size_t threads,
                  const double at[5]) {
        struct rusage usage;

        (void) getrusage(RUSAGE_SELF, &usage);
        printf("%zu hosts, %zu threads, %zu different stacks (%.1f %%), %zu frames\n", s->n_captures,
               threads, s->table.n_stacks, 100.0 * (double) s->table.n_stacks / (double) threads,
               s->table.n_frames);
        printf("decode and merge  %6.3f s\nwho is at fault   %6.3f s\ntree of all       %6.3f s\nprinted    "
               "       %6.3f s\n",
               at[1] - at[0], at[2] - at[1], at[3] - at[2], at[4] - at[3]);
        printf("together          %6.3f s of one core\nmemory            %6ld MB at its peak, %zu MB of it "
               "the captures that came\n",
               at[4] - at[0], usage.ru_maxrss / 1024, bytes >> 20);
        printf("%s\n", d->summary);
}

int main(int argc, char *argv[]) {
        uint32_t n = argc > 1 ? (uint32_t) strtoul(argv[1], NULL, 10) : 10240;
        uint32_t threads = argc > 2 ? (uint32_t) strtoul(argv[2], NULL, 10) : 100;
        uint32_t frames = argc > 3 ? (uint32_t) strtoul(argv[3], NULL, 10) : 40;
        uint32_t repeats = argc > 4 ? (uint32_t) strtoul(argv[4], NULL, 10) : 1;
        _cleanup_fclose_ FILE *nowhere = fopen("/dev/null", "we");
        _cleanup_free_ struct bytes *hosts = calloc(n + 1, sizeof(*hosts));
        _cleanup_free_ uint32_t *order = calloc(n + 1, sizeof(*order));
        struct diagnose_options o = { .hosts = n, .run = RUN_STALLED };
        double at[5];
        size_t bytes;

        if (!hosts || !order || !nowhere || n == 0 || frames == 0 || repeats == 0 ||
            frames > STACK_FRAMES_MAX)
                return EXIT_FAILURE;
        for (uint32_t i = 0; i < n; i++)
                make_host(i, n, n / 3, threads, frames, &hosts[i]);
        shuffle(order, n);
        bytes = sum(hosts, n);
        for (uint32_t i = 0; i < repeats; i++) {
                _cleanup_tree_ struct tree tree = TREE_NULL;
                _cleanup_scene_ struct scene s = SCENE_NULL;
                struct diagnosis *d;

                at[0] = now();
                merge(&s, hosts, order, n, i + 1 == repeats);
                at[1] = now();
                must(diagnose(&s, &o, &d), "diagnose");
                at[2] = now();
                must(tree_build(&tree, &d->evidence, true), "tree");
                at[3] = now();
                must(diagnosis_print_text(nowhere, d, false), "print");
                at[4] = now();
                print(bytes, &s, d, tree.n_threads, at);
                (void) diagnosis_free(d);
        }
        return 0;
}
