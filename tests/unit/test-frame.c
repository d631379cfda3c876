/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frame.h"
#include "local_call.h"
#include "local.pb-c.h"
#include "scratch.h"
#include "test.h"

struct echo {
        unsigned frames, closed;
        uid_t uid;
};

/* Answers a StopRequest with its own name. */
static void on_frame(struct frame_peer *p, const struct frame *f, void *userdata) {
        struct echo *e = userdata;
        Local__StopRequest *request = local__stop_request__unpack(NULL, f->len, f->data);
        Local__StopReply reply = LOCAL__STOP_REPLY__INIT;

        e->frames++;
        e->uid = frame_peer_creds(p)->uid;
        ASSERT_EQ(f->kind, LOCAL__KIND__KIND_STOP_REQUEST);
        ASSERT_TRUE(request != NULL);
        reply.name = request->name;
        ASSERT_OK(frame_peer_send(p, LOCAL__KIND__KIND_STOP_REPLY, &reply.base));
        local__stop_request__free_unpacked(request, NULL);
}

static void on_closed(struct frame_peer *p, void *userdata) {
        (void) p;
        ((struct echo *) userdata)->closed++;
}

static const struct frame_handlers handlers = { .frame = on_frame, .closed = on_closed };

static sd_event *serve(const struct scratch *s, struct echo *e, struct frame_server **ret,
                       char path[static 512]) {
        sd_event *event = NULL;
        int fd;

        scratch_path(s, "sock", path);
        fd = listen_socket(path, 0600);
        ASSERT_TRUE(fd >= 0);
        ASSERT_TRUE(sd_event_new(&event) >= 0);
        ASSERT_OK(frame_server_new(event, fd, &handlers, e, ret));
        return event;
}

static void turn(sd_event *event) {
        while (sd_event_run(event, 20 * USEC_PER_MSEC) > 0)
                ;
}

static void test_round_trip(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_(frame_server_freep) struct frame_server *server = NULL;
        Local__StopRequest request = LOCAL__STOP_REQUEST__INIT;
        _cleanup_free_ uint8_t *buf = NULL;
        Local__StopReply *reply;
        struct echo e = { .uid = (uid_t) -1 };
        struct frame f;
        char path[512], name[200001];
        sd_event *event = serve(&s, &e, &server, path);
        int fd = frame_connect(path);

        memset(name, 'n', sizeof(name) - 1); /* larger than a socket buffer's usual chunk */
        name[sizeof(name) - 1] = '\0';
        request.name = name;
        ASSERT_TRUE(fd >= 0);
        ASSERT_OK(frame_send(fd, LOCAL__KIND__KIND_STOP_REQUEST, &request.base, USEC_PER_SEC));
        turn(event);
        ASSERT_OK(frame_receive(fd, USEC_PER_SEC, &f, &buf));
        ASSERT_EQ(f.kind, LOCAL__KIND__KIND_STOP_REPLY);
        reply = local__stop_reply__unpack(NULL, f.len, f.data);
        ASSERT_STREQ(reply->name, name);
        local__stop_reply__free_unpacked(reply, NULL);
        ASSERT_EQ(e.uid, getuid());
        (void) close_fd(fd);
        turn(event);
        ASSERT_EQ(e.closed, 1);
        server = frame_server_free(server);
        sd_event_unref(event);
}

/* Who asks and never takes an answer is ended; one that takes nothing because nothing waits is not. */
static void test_answers_that_nobody_takes(void) {
        static const struct frame_handlers hasty = { .frame = on_frame, .closed = on_closed,
                                                     .patience = 50 * USEC_PER_MSEC };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_(frame_server_freep) struct frame_server *server = NULL;
        Local__StopRequest request = LOCAL__STOP_REQUEST__INIT;
        struct echo e = { 0 };
        char path[512], name[200001];
        sd_event *event = NULL;
        int fd, idle;

        scratch_path(&s, "sock", path);
        ASSERT_TRUE(sd_event_new(&event) >= 0);
        ASSERT_OK(frame_server_new(event, listen_socket(path, 0600), &hasty, &e, &server));
        idle = frame_connect(path);
        fd = frame_connect(path);
        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        request.name = name;
        for (unsigned i = 0; i < 2; i++) { /* the kernel keeps the first for it */
                ASSERT_OK(frame_send(fd, LOCAL__KIND__KIND_STOP_REQUEST, &request.base, USEC_PER_SEC));
                turn(event);
        }
        for (unsigned i = 0; i < 100 && e.closed == 0; i++)
                turn(event);
        ASSERT_EQ(e.closed, 1);
        request.name = strndupa("a", 1);
        ASSERT_OK(frame_send(idle, LOCAL__KIND__KIND_STOP_REQUEST, &request.base, USEC_PER_SEC));
        turn(event);
        ASSERT_EQ(e.closed, 1);
        (void) close_fd(fd);
        (void) close_fd(idle);
        server = frame_server_free(server);
        sd_event_unref(event);
}

/* A frame that is too long, or of another version, ends the connection; the server goes on. */
static void test_rules(void) {
        static const uint8_t too_long[] = { 1, 0, 16, 0, 1, 0, 24, 0 },
                wrong_version[] = { 0, 0, 0, 0, 9, 0, 24, 0 };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_(frame_server_freep) struct frame_server *server = NULL;
        struct echo e = { 0 };
        _cleanup_free_ uint8_t *buf = NULL;
        struct frame f;
        char path[512];
        sd_event *event = serve(&s, &e, &server, path);
        int fd;

        fd = frame_connect(path);
        ASSERT_EQ(write(fd, too_long, sizeof(too_long)), 8);
        turn(event);
        ASSERT_EQ(frame_receive(fd, USEC_PER_SEC, &f, &buf), -ECONNRESET);
        (void) close_fd(fd);
        fd = frame_connect(path);
        ASSERT_EQ(write(fd, wrong_version, sizeof(wrong_version)), 8);
        turn(event);
        ASSERT_EQ(frame_receive(fd, USEC_PER_SEC, &f, &buf), -ECONNRESET);
        (void) close_fd(fd);
        ASSERT_EQ(e.frames, 0);
        ASSERT_EQ(e.closed, 2);
        server = frame_server_free(server);
        sd_event_unref(event);
}

/* A second daemon must not take a living one's socket; one that nobody serves any more is replaced. */
static void test_socket_in_use(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        char path[512];
        int fd;

        scratch_path(&s, "sock", path);
        fd = listen_socket(path, 0600);
        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ(listen_socket(path, 0600), -EADDRINUSE);
        (void) close_fd(fd);
        fd = listen_socket(path, 0600);
        ASSERT_TRUE(fd >= 0);
        (void) close_fd(fd);
}

/* One who only asks is answered as far as he takes the answers, and keeps the loop from nobody. */
static void test_flood(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_(frame_server_freep) struct frame_server *server = NULL;
        Local__StopRequest request = LOCAL__STOP_REQUEST__INIT;
        struct echo e = { 0 };
        char path[512], name[3000];
        sd_event *event = serve(&s, &e, &server, path);
        int greedy = frame_connect(path), other = frame_connect(path);
        unsigned sent = 0, before;

        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        request.name = name;
        while (frame_send(greedy, LOCAL__KIND__KIND_STOP_REQUEST, &request.base, USEC_PER_MSEC) == 0)
                if (++sent % 16 == 0)
                        turn(event);
        before = e.frames;
        ASSERT_TRUE(sent > 64 && before < sent); /* its buffers are full, and nothing more is read */
        name[1] = '\0';
        ASSERT_OK(frame_send(other, LOCAL__KIND__KIND_STOP_REQUEST, &request.base, USEC_PER_SEC));
        turn(event);
        ASSERT_EQ(e.frames, before + 1);
        /* When it takes its answers, it gets every one of them. */
        for (unsigned i = 0; i < sent; i++) {
                _cleanup_free_ uint8_t *buf = NULL;
                struct frame f;

                turn(event);
                ASSERT_OK(frame_receive(greedy, USEC_PER_SEC, &f, &buf));
        }
        (void) close_fd(greedy);
        (void) close_fd(other);
        server = frame_server_free(server);
        sd_event_unref(event);
}

static size_t count_descriptors(void) {
        _cleanup_closedir_ DIR *d = opendir("/proc/self/fd");
        size_t n = 0;

        ASSERT_TRUE(d != NULL);
        while (readdir(d))
                n++;
        return n;
}

/* One byte with n descriptors beside it, as anybody may send it who reaches a socket. */
static void send_descriptors(int socket, size_t n) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(8 * sizeof(int))];
        } beside = { .space = { 0 } };
        char byte = 8; /* a frame begins: more of it is waited for */
        struct iovec bytes = { .iov_base = &byte, .iov_len = 1 };
        struct msghdr m = { .msg_iov = &bytes,
                            .msg_iovlen = 1,
                            .msg_control = &beside,
                            .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
        int all[8];

        ASSERT_TRUE(n <= ELEMENTSOF(all));
        for (size_t i = 0; i < n; i++) {
                all[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
                ASSERT_TRUE(all[i] >= 0);
        }
        beside.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS,
                                          .cmsg_len = CMSG_LEN(n * sizeof(int)) };
        memcpy(CMSG_DATA(&beside.header), all, n * sizeof(int));
        ASSERT_EQ(sendmsg(socket, &m, MSG_NOSIGNAL), 1);
        for (size_t i = 0; i < n; i++)
                (void) close_fd(all[i]);
}

/* Descriptors that nobody asked for: the last one is kept, and goes with the connection. */
static void test_descriptors_are_not_collected(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_(frame_server_freep) struct frame_server *server = NULL;
        struct echo e = { 0 };
        char path[512];
        sd_event *event = serve(&s, &e, &server, path);

        for (size_t n = 1; n <= 8; n *= 2) {
                int fd = frame_connect(path);
                size_t before;

                ASSERT_TRUE(fd >= 0);
                turn(event);
                before = count_descriptors();
                for (unsigned i = 0; i < 7; i++) { /* eight bytes would be a whole header */
                        send_descriptors(fd, n);
                        turn(event);
                        ASSERT_TRUE(count_descriptors() <= before + 1);
                }
                (void) close_fd(fd);
                turn(event);
                ASSERT_EQ(count_descriptors(), before - 2); /* and both ends of the connection */
        }
        ASSERT_EQ(e.closed, 4);
        server = frame_server_free(server);
        sd_event_unref(event);
}

static void test_limits(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_(frame_server_freep) struct frame_server *server = NULL;
        struct echo e = { 0 };
        _cleanup_free_ uint8_t *buf = NULL;
        struct frame f;
        int fds[FRAME_PEERS_MAX + 1];
        char path[512];
        sd_event *event = serve(&s, &e, &server, path);

        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = frame_connect(path);
                ASSERT_TRUE(fds[i] >= 0);
                turn(event);
        }
        ASSERT_EQ(frame_receive(fds[FRAME_PEERS_MAX], USEC_PER_SEC, &f, &buf), -ECONNRESET);
        ASSERT_EQ(frame_receive(fds[0], 20 * USEC_PER_MSEC, &f, &buf), -ETIMEDOUT);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                (void) close_fd(fds[i]);
        server = frame_server_free(server);
        sd_event_unref(event);
}

static int connect_as(uid_t uid, const char *path) {
        int fd;

        ASSERT_OK(seteuid(uid)); /* the kernel keeps who connected */
        fd = frame_connect(path);
        ASSERT_OK(seteuid(0));
        ASSERT_TRUE(fd >= 0);
        return fd;
}

static bool is_served(sd_event *event, int fd) {
        Local__StopRequest request = LOCAL__STOP_REQUEST__INIT;
        _cleanup_free_ uint8_t *buf = NULL;
        struct frame f;

        request.name = wire_text("llama");
        turn(event);
        if (frame_send(fd, LOCAL__KIND__KIND_STOP_REQUEST, &request.base, USEC_PER_SEC) < 0)
                return false;
        turn(event);
        return frame_receive(fd, USEC_PER_SEC, &f, &buf) == 0;
}

/* However many users keep idle connections: root has a place, and who has fewer than they. */
static void test_idle_connections_keep_nobody_away(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_(frame_server_freep) struct frame_server *server = NULL;
        struct echo e = { 0 };
        int idle[FRAME_PEERS_MAX], own, another;
        char path[512];
        sd_event *event;

        if (getuid() != 0)
                return;
        event = serve(&s, &e, &server, path);
        ASSERT_OK(chmod(s.path, 0755));
        ASSERT_OK(chmod(path, 0666));
        for (unsigned i = 0; i < FRAME_PEERS_MAX; i++) {
                idle[i] = connect_as(60001 + i / 16, path);
                turn(event);
        }
        own = connect_as(0, path);
        ASSERT_TRUE(is_served(event, own));
        another = connect_as(60009, path);
        ASSERT_TRUE(is_served(event, another));
        ASSERT_TRUE(is_served(event, own));
        ASSERT_EQ(e.closed, 2);
        ASSERT_FALSE(is_served(event, idle[0])); /* the oldest of one who had most */
        ASSERT_FALSE(is_served(event, idle[16]));
        ASSERT_TRUE(is_served(event, idle[15]) && is_served(event, idle[63]));
        for (unsigned i = 0; i < FRAME_PEERS_MAX; i++)
                (void) close_fd(idle[i]);
        (void) close_fd(own);
        (void) close_fd(another);
        server = frame_server_free(server);
        sd_event_unref(event);
}

/* --- Told until it is answered ------------------------------------------------------------------------- */

struct story {
        struct local_telling telling; /* the first member */
        unsigned asked, answered;
        bool ends;
};

static int ask_story(struct local_telling *t) {
        Local__StopRequest request = LOCAL__STOP_REQUEST__INIT;

        ((struct story *) t)->asked++;
        request.name = wire_text("llama");
        return local_telling_ask(t, LOCAL__KIND__KIND_STOP_REQUEST, &request.base,
                                 LOCAL__KIND__KIND_STOP_REPLY);
}

/* What is told meanwhile is told at once, from inside the answer; or nothing is, and all of it goes. */
static void on_story(struct local_telling *t, const struct local_answer *a) {
        struct story *s = (struct story *) t;

        ASSERT_EQ(a->error, 0);
        s->answered++;
        if (s->ends)
                local_telling_clear(t);
        else if (s->answered < 3)
                local_telling_start(t, "the next");
}

static void test_next_from_inside_an_answer(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_(frame_server_freep) struct frame_server *server = NULL;
        struct echo e = { 0 };
        char path[512];
        sd_event *event = serve(&s, &e, &server, path);

        for (unsigned ends = 0; ends <= 1; ends++) {
                struct story story = { .telling = { .program = "test", .ask = ask_story,
                                                    .answered = on_story },
                                       .ends = ends == 1 };

                ASSERT_OK(local_telling_init(event, path, &story.telling));
                local_telling_start(&story.telling, "the first");
                for (unsigned i = 0; i < 1000 && story.answered < (ends ? 1U : 3U); i++)
                        ASSERT_TRUE(sd_event_run(event, 100 * USEC_PER_MSEC) >= 0);
                ASSERT_EQ(story.answered, ends ? 1U : 3U);
                ASSERT_EQ(story.asked, story.answered);
                ASSERT_TRUE(!story.telling.call);
                if (!ends)
                        local_telling_clear(&story.telling);
        }
        server = frame_server_free(server);
        sd_event_unref(event);
}

TEST_MAIN(test_round_trip, test_answers_that_nobody_takes,
          test_rules, test_socket_in_use, test_flood, test_descriptors_are_not_collected, test_limits,
          test_idle_connections_keep_nobody_away,
          test_next_from_inside_an_answer)
