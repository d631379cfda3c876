/* SPDX-License-Identifier: Apache-2.0 */
/* Waits, sockets and ends of a capture: as bytes and back, within their bounds, in words, as JSON. */
#include <jansson.h>
#include <sys/socket.h>

#include "capture-bytes.h"
#include "render.h"
#include "wait_words.h"

struct made {
        struct host_capture c;
        struct stack_table t;
};

static void made_clear(struct made *m) {
        host_capture_clear(&m->c);
        stack_table_clear(&m->t);
}

static uint32_t text(struct made *m, const char *s) {
        uint32_t n;

        ASSERT_OK(stack_table_string(&m->t, s, strlen(s), &n));
        return n;
}

static void made_init(struct made *m) {
        *m = (struct made){ .t = STACK_TABLE_NULL };
        host_capture_init(&m->c);
        m->c.detailed = true;
}

static struct captured_process *add_process(struct made *m, uint32_t pid) {
        struct captured_process *p;

        ASSERT_OK(host_capture_add_process(&m->c, &p));
        p->pid = pid;
        p->command = text(m, "python3 train.py");
        p->python = text(m, "3.11.2");
        p->parent = 1200;
        p->children_gone = 2;
        p->cpu_usec = UINT64_C(1) << 40;
        p->start_ticks = 987654321;
        return p;
}

static void add_thread(struct made *m, uint32_t tid, const char *name) {
        struct captured_thread *th;

        ASSERT_OK(host_capture_add_thread(&m->c, &th));
        th->tid = tid;
        th->state = 'S';
        th->name = text(m, name);
}

static void add_socket(struct made *m, const struct captured_socket *from, const char *local,
                       const char *remote) {
        struct captured_socket s = *from;

        s.local = text(m, local);
        s.remote = text(m, remote);
        ASSERT_OK(host_capture_add_socket(&m->c, &s));
}

/* A process of two threads: one waits for any of three, the other holds a lock and waits for a pipe. */
static void make(struct made *m) {
        made_init(m);
        (void) add_process(m, 4711);
        add_socket(m,
                   &(struct captured_socket){ .inode = 71,
                                              .net = 4026531840,
                                              .fd = 12,
                                              .family = AF_INET,
                                              .protocol = 6,
                                              .state = 1,
                                              .retransmits = 4,
                                              .unread = 48000,
                                              .unsent = 9,
                                              .unacknowledged = 3,
                                              .sent_ms = 0,
                                              .received_ms = SOCKET_MS_NONE,
                                              .bytes_acked = UINT64_C(1) << 33,
                                              .bytes_received = 5 },
                   "10.0.0.1:4711", "10.0.0.2:29500");
        add_socket(m,
                   &(struct captured_socket){ .inode = 72,
                                              .peer = 99,
                                              .fd = 13,
                                              .family = AF_UNIX,
                                              .state = 1,
                                              .sent_ms = SOCKET_MS_NONE,
                                              .received_ms = SOCKET_MS_NONE },
                   "/run/x.sock", "");
        add_thread(m, 4711, "main");
        ASSERT_OK(host_capture_add_wait(
                &m->c, &(struct captured_wait){ .kind = WAIT_SOCKET, .any = true, .fd = 12, .number = 71 }));
        ASSERT_OK(host_capture_add_wait(
                &m->c, &(struct captured_wait){ .kind = WAIT_SOCKET, .any = true, .fd = 13, .number = 72 }));
        ASSERT_OK(host_capture_add_wait(&m->c, &(struct captured_wait){ .kind = WAIT_LOCK,
                                                                        .any = true,
                                                                        .limited = true,
                                                                        .fd = WAIT_FD_NONE,
                                                                        .space = 7,
                                                                        .number = 0x7f0000001000,
                                                                        .holder_pid = 4711,
                                                                        .holder_tid = 4712,
                                                                        .text = text(m, "a glibc mutex"),
                                                                        .since_usec = 41500000 }));
        add_thread(m, 4712, "writer");
        ASSERT_OK(host_capture_add_wait(&m->c, &(struct captured_wait){ .kind = WAIT_PIPE,
                                                                        .writes = true,
                                                                        .spins = true,
                                                                        .fd = 0,
                                                                        .space = 14,
                                                                        .number = 555 }));
        ASSERT_OK(host_capture_add_end(&m->c, &(struct captured_end){ .kind = WAIT_PIPE,
                                                                      .reads = true,
                                                                      .pid = 88,
                                                                      .command = text(m, "cat"),
                                                                      .space = 14,
                                                                      .number = 555 }));
}

static const char shown[] =
        "process 4711 python3 train.py (CPython 3.11.2)\n"
        "thread 4711 \"main\" waits\n"
        "  waits for data on 10.0.0.1:4711 → 10.0.0.2:29500, 48000 bytes unread, 9 bytes unsent, 3 segments "
        "not acknowledged (retransmitted 4 times in a row)\n"
        "  or waits for data on Unix socket:[72] /run/x.sock, nothing unread\n"
        "  or waits 41 s for a glibc mutex that thread 4712 'writer' holds, with a time limit\n"
        "thread 4712 \"writer\" waits\n"
        "  looks for room in pipe:[555] again and again\n"
        "2 of its child processes ended and it has not waited for them\n"
        "fd 12 10.0.0.1:4711 → 10.0.0.2:29500: 48000 bytes unread, 9 bytes unsent, 3 segments not "
        "acknowledged (retransmitted 4 times in a row)\n"
        "pipe:[555]: process 88 cat has it to read\n";

/* Not by their bytes: what is between the members has no value. */
static bool same_wait(const struct captured_wait *a, const struct captured_wait *b) {
        return a->kind == b->kind && a->any == b->any && a->writes == b->writes && a->limited == b->limited &&
               a->spins == b->spins && a->fd == b->fd && a->space == b->space && a->number == b->number &&
               a->holder_pid == b->holder_pid && a->holder_tid == b->holder_tid &&
               a->since_usec == b->since_usec;
}

static bool same_socket(const struct captured_socket *a, const struct captured_socket *b) {
        return a->inode == b->inode && a->net == b->net && a->peer == b->peer && a->fd == b->fd &&
               a->family == b->family && a->protocol == b->protocol && a->state == b->state &&
               a->retransmits == b->retransmits && a->unread == b->unread && a->unsent == b->unsent &&
               a->unacknowledged == b->unacknowledged && a->sent_ms == b->sent_ms &&
               a->received_ms == b->received_ms && a->bytes_acked == b->bytes_acked &&
               a->bytes_received == b->bytes_received;
}

/* Each field comes back. */
static void test_bytes(void) {
        _cleanup_(made_clear) struct made m, l = { .t = STACK_TABLE_NULL };
        _cleanup_free_ uint8_t *data = NULL;
        _cleanup_free_ char *before = NULL, *after = NULL;
        char why[CAPTURE_WHY_MAX];
        size_t len;

        make(&m);
        capture_bytes(&m.c, &m.t, &data, &len);
        ASSERT_OK(capture_read(data, len, CAPTURE_SHOWN, &l.c, &l.t, why));
        ASSERT_TRUE(l.c.n_waits == 4 && l.c.n_sockets == 2 && l.c.n_ends == 1 && l.c.n_threads == 2);
        for (size_t i = 0; i < l.c.n_waits; i++) { /* texts have other numbers there */
                ASSERT_STREQ(stack_table_text(&l.t, l.c.waits[i].text),
                             stack_table_text(&m.t, m.c.waits[i].text));
                ASSERT_TRUE(same_wait(&l.c.waits[i], &m.c.waits[i]));
        }
        for (size_t i = 0; i < l.c.n_sockets; i++) {
                ASSERT_STREQ(stack_table_text(&l.t, l.c.sockets[i].local),
                             stack_table_text(&m.t, m.c.sockets[i].local));
                ASSERT_TRUE(same_socket(&l.c.sockets[i], &m.c.sockets[i]));
        }
        ASSERT_TRUE(l.c.processes[0].parent == 1200 && l.c.processes[0].children_gone == 2 &&
                    l.c.processes[0].cpu_usec == UINT64_C(1) << 40 &&
                    l.c.processes[0].start_ticks == 987654321);
        ASSERT_OK(render_text(&m.c, &m.t, RENDER_MAX, &before));
        ASSERT_STREQ(before, shown);
        ASSERT_OK(render_text(&l.c, &l.t, RENDER_MAX, &after));
        ASSERT_STREQ(after, shown);
}

/* For a diagnosis, too. */
static void test_diagnosed(void) {
        _cleanup_(made_clear) struct made m, l = { .t = STACK_TABLE_NULL };
        _cleanup_free_ uint8_t *data = NULL;
        char why[CAPTURE_WHY_MAX];
        size_t len;

        make(&m);
        capture_bytes(&m.c, &m.t, &data, &len);
        ASSERT_OK(capture_read(data, len, CAPTURE_DIAGNOSED, &l.c, &l.t, why));
        ASSERT_TRUE(l.c.n_waits == 4 && l.c.n_sockets == 2 && l.c.n_ends == 1);
        ASSERT_STREQ(stack_table_text(&l.t, captured_socket_of(&l.c, &l.c.processes[0], 71)->remote),
                     "10.0.0.2:29500");
        ASSERT_TRUE(captured_socket_of(&l.c, &l.c.processes[0], 70) == NULL);
        ASSERT_TRUE(l.c.threads[1].first_wait == 3 && l.c.threads[1].n_waits == 1);
}

static void test_json(void) {
        _cleanup_(made_clear) struct made m;
        _cleanup_free_ char *out = NULL;
        static struct render o;
        json_t *all, *thread;
        size_t len = 0;
        FILE *f;

        make(&m);
        f = open_memstream(&out, &len);
        ASSERT_TRUE(f != NULL);
        render_begin(&o, f, true, RENDER_MAX);
        render_capture(&o, &m.c, &m.t);
        ASSERT_OK(render_end(&o));
        ASSERT_EQ(fclose(f), 0);
        all = json_loads(out, 0, NULL);
        ASSERT_TRUE(all != NULL);
        thread = json_array_get(
                json_object_get(json_array_get(json_object_get(all, "processes"), 0), "threads"), 0);
        ASSERT_EQ(json_array_size(json_object_get(thread, "waits")), 3);
        ASSERT_STREQ(json_string_value(json_object_get(
                             json_array_get(json_object_get(thread, "waits"), 2), "for")),
                     "lock");
        ASSERT_EQ(json_array_size(json_object_get(all, "ends")), 1);
        json_decref(all);
}

/* The CPU time of who runs comes back; of who sleeps nobody asks. */
static void test_cpu(void) {
        _cleanup_(made_clear) struct made m, l = { .t = STACK_TABLE_NULL };
        _cleanup_free_ uint8_t *data = NULL;
        char why[CAPTURE_WHY_MAX];
        size_t len;

        make(&m);
        m.c.threads[0].state = 'R';
        m.c.threads[0].cpu_usec = m.c.threads[1].cpu_usec = UINT64_C(1) << 40;
        capture_bytes(&m.c, &m.t, &data, &len);
        ASSERT_OK(capture_read(data, len, CAPTURE_SHOWN, &l.c, &l.t, why));
        ASSERT_TRUE(l.c.threads[0].cpu_usec == UINT64_C(1) << 40 && l.c.threads[1].cpu_usec == 0);
}

/* What no reader would take is not written, and it is said. */
static void test_bounds(void) {
        _cleanup_capture_writer_ struct capture_writer w;
        _cleanup_(made_clear) struct made l = { .t = STACK_TABLE_NULL };
        struct captured_process *p;
        struct captured_thread *th;
        char why[CAPTURE_WHY_MAX];

        ASSERT_OK(capture_writer_init(&w));
        ASSERT_OK(host_capture_add_process(&w.c, &p));
        for (uint64_t i = 1; capture_writer_takes_socket(&w); i++)
                ASSERT_OK(host_capture_add_socket(&w.c, &(struct captured_socket){ .inode = i * i * i }));
        ASSERT_TRUE(w.cut && w.c.n_sockets > 1000 && w.c.n_sockets <= CAPTURE_SOCKETS_MAX);
        ASSERT_OK(capture_writer_process(&w));
        w.cut = false;
        ASSERT_OK(host_capture_add_process(&w.c, &p));
        for (uint32_t i = 0; i < 50 && capture_writer_has_room(&w); i++) {
                ASSERT_OK(host_capture_add_thread(&w.c, &th));
                th->tid = i;
                for (uint64_t k = 0; k < 1000 && capture_writer_takes_wait(&w); k++)
                        ASSERT_OK(host_capture_add_wait(
                                &w.c, &(struct captured_wait){ .kind = WAIT_PIPE, .number = k }));
                ASSERT_OK(capture_writer_thread(&w));
        }
        ASSERT_TRUE(w.cut);
        ASSERT_OK(capture_writer_process(&w));
        ASSERT_OK(capture_writer_end(&w));
        ASSERT_TRUE(w.len <= CAPTURE_PACKED_MAX);
        ASSERT_OK(capture_read(w.data, w.len, CAPTURE_SHOWN, &l.c, &l.t, why));
        ASSERT_TRUE(l.c.cut && l.c.n_waits == CAPTURE_WAITS_MAX);
}

/* A kind that this version does not know is a wait all the same; a string that there is not is refused. */
static void test_odd(void) {
        Capture__Part part = CAPTURE__PART__INIT;
        Capture__Process process = CAPTURE__PROCESS__INIT, *processes[] = { &process };
        Capture__Thread thread = CAPTURE__THREAD__INIT, *threads[] = { &thread };
        Capture__Wait wait = CAPTURE__WAIT__INIT, *waits[] = { &wait };
        uint8_t data[256];
        char why[CAPTURE_WHY_MAX];

        part.version = CAPTURE_VERSION;
        part.process = processes;
        part.threads = threads;
        part.n_process = part.n_threads = 1;
        thread.waits = waits;
        thread.n_waits = 1;
        wait.kind = 300;
        for (unsigned bad = 0; bad < 2; bad++) {
                _cleanup_(made_clear) struct made l = { .t = STACK_TABLE_NULL };
                Capture__Part *parts[] = { &part };
                Capture__Capture all = CAPTURE__CAPTURE__INIT;
                size_t len;

                wait.text = bad ? 7 : 0;
                all.parts = parts;
                all.n_parts = 1;
                ASSERT_TRUE(capture__capture__get_packed_size(&all) <= sizeof(data));
                len = capture__capture__pack(&all, data);
                ASSERT_EQ(capture_read(data, len, CAPTURE_SHOWN, &l.c, &l.t, why), bad ? -EPROTO : 0);
                if (bad)
                        ASSERT_STREQ(why, "part 1, threads, waits: a number that is none");
                else
                        ASSERT_TRUE(l.c.n_waits == 1 && l.c.waits[0].kind == WAIT_UNKNOWN &&
                                    l.c.waits[0].fd == WAIT_FD_NONE);
        }
}

static void expect_words(struct made *m, struct captured_wait w, const char *name, const char *wanted) {
        char words[WAIT_WORDS_MAX];

        w.text = text(m, name);
        wait_words(&m->c, &m->t, &m->c.processes[0], &w, words);
        ASSERT_STREQ(words, wanted);
}

static void test_words(void) {
        _cleanup_(made_clear) struct made m;
        char many[4000], words[WAIT_WORDS_MAX];

        make(&m);
#define W(...) ((struct captured_wait){ .fd = WAIT_FD_NONE, __VA_ARGS__ })
        expect_words(&m, W(.kind = WAIT_UNKNOWN), "not permitted",
                     "waits for something that is not known: not permitted");
        expect_words(&m, W(.kind = WAIT_LOCK, .number = 0x10), "",
                     "waits for a lock at 0x10, holder unknown");
        expect_words(&m, W(.kind = WAIT_LOCK, .holder_pid = 9, .holder_tid = 10), "a robust futex",
                     "waits for a robust futex that thread 10 of process 9 holds");
        expect_words(&m, W(.kind = WAIT_GIL, .holder_pid = 4711, .holder_tid = 4711), "",
                     "waits for the interpreter's lock (GIL) that thread 4711 'main' holds");
        expect_words(&m, W(.kind = WAIT_SOCKET, .number = 5), "",
                     "waits for data on socket:[5] of which nothing is known");
        expect_words(&m, W(.kind = WAIT_EVENTFD, .number = 5), "", "waits for eventfd 5");
        expect_words(&m, W(.kind = WAIT_FILE), "fuse.x /mnt/data",
                     "waits for the file system fuse.x /mnt/data");
        expect_words(&m, W(.kind = WAIT_FILE_LOCK, .holder_pid = 12), "/tmp/lock",
                     "waits for a lock of the file /tmp/lock that process 12 holds");
        expect_words(&m, W(.kind = WAIT_DEVICE), "/dev/vfio/1", "waits for the device /dev/vfio/1");
        expect_words(&m, W(.kind = WAIT_CHILD, .holder_pid = 12), "",
                     "waits for the end of its child process 12");
        expect_words(&m, W(.kind = WAIT_CHILD), "", "waits for the end of a child process");
        expect_words(&m, W(.kind = WAIT_TIMER), "", "sleeps");
        expect_words(&m, W(.kind = WAIT_STOPPED), "", "is stopped by a signal (SIGCONT lets it go on)");
        expect_words(&m, W(.kind = WAIT_STOPPED, .holder_pid = 3), "",
                     "is stopped by its tracer, process 3");
        expect_words(&m, W(.kind = WAIT_FROZEN), "/run.slice",
                     "is frozen with its control group /run.slice");
        memset(many, 'x', sizeof(many) - 1);
        many[sizeof(many) - 1] = '\0';
        wait_words(&m.c, &m.t, &m.c.processes[0], &W(.kind = WAIT_PAGE, .text = text(&m, many)), words);
        ASSERT_TRUE(strlen(words) < WAIT_WORDS_MAX);
        ASSERT_STREQ(wait_kind_name(WAIT_IO_URING), "io_uring");
        ASSERT_STREQ(wait_kind_name(200), "unknown");
}

int main(void) {
        test_bytes();
        test_cpu();
        test_diagnosed();
        test_json();
        test_bounds();
        test_odd();
        test_words();
        return 0;
}
