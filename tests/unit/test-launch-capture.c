/* SPDX-License-Identifier: Apache-2.0 */
/* Captures as callers of tpu-launchd see them, with a tool of the test's. */
#include "launch-bench.h"

static void write_tool(struct bench *b, const char *script) {
        scratch_write(&b->scratch, "tool", script);
        ASSERT_OK(chmod(b->tool, 0755));
}

static int ask_wish(struct bench *b, bool native) {
        Local__CaptureRequest q = LOCAL__CAPTURE_REQUEST__INIT;

        q.name = (char[]){ "a" };
        q.native = native;
        b->now.boot += 2 * USEC_PER_SEC;
        return ask(b, LOCAL__KIND__KIND_CAPTURE_REQUEST, &q.base);
}

static int ask_capture(struct bench *b) {
        return ask_wish(b, false);
}

static Local__CaptureReply *captured(struct bench *b, int fd) {
        Local__CaptureReply *r = (Local__CaptureReply *) take(b, fd, LOCAL__KIND__KIND_CAPTURE_REPLY,
                                                              &local__capture_reply__descriptor);

        (void) close(fd);
        return r;
}

static void expect_bytes(struct bench *b, bool native, const char *wanted) {
        Local__CaptureReply *r = captured(b, ask_wish(b, native));

        ASSERT_EQ(r->capture.len, strlen(wanted));
        ASSERT_TRUE(memcmp(r->capture.data, wanted, r->capture.len) == 0);
        ASSERT_EQ(r->native, native);
        ASSERT_EQ(r->taken_real_usec, b->now.real);
        local__capture_reply__free_unpacked(r, NULL);
}

/* What the tool writes goes on as it is, whatever it is. */
static void test_capture(void) {
        _cleanup_bench_ struct bench b;
        Local__CaptureReply *r;

        bench_init(&b);
        scratch_write(&b.scratch, "sys/fs/cgroup/s.slice/x.service/cgroup.procs", "10\n11\n");
        write_tool(&b, "#!/bin/sh\necho \"{$*}\"\n");
        start(&b, "a");
        expect_error(&b, ask_capture(&b), EAGAIN, "control group");
        runs_unit_events.running("a", 10, "/s.slice/x.service", b.runs);
        expect_bytes(&b, false, "{--capture 10 11}\n");
        b.now.boot -= 2 * USEC_PER_SEC; /* no time has passed */
        expect_error(&b, ask_capture(&b), EBUSY, "a moment ago");
        expect_bytes(&b, true, "{--capture --native 10 11}\n");

        write_tool(&b, "#!/bin/sh\necho cannot\nexit 3\n");
        expect_error(&b, ask_capture(&b), EIO, "tpu-stack failed");
        write_tool(&b, "#!/bin/sh\necho thread; kill -9 $$\n");
        expect_error(&b, ask_capture(&b), EIO, "tpu-stack failed");
        write_tool(&b, "#!/bin/sh\n");
        expect_error(&b, ask_capture(&b), EIO, "tpu-stack failed");
        /* What fits into a frame, and what does not. */
        write_tool(&b, "#!/bin/sh\nhead -c 900000 /dev/zero\n");
        r = captured(&b, ask_capture(&b));
        ASSERT_EQ(r->capture.len, 900000);
        local__capture_reply__free_unpacked(r, NULL);
        write_tool(&b, "#!/bin/sh\nexec yes 0123456789abcdef\n");
        expect_error(&b, ask_capture(&b), E2BIG, "more than can be sent");
}

/* A tool that hangs is killed, the caller is told, and the next capture works. */
static void test_capture_hangs(void) {
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        scratch_write(&b.scratch, "sys/fs/cgroup/s.slice/x.service/cgroup.procs", "10\n");
        write_tool(&b, "#!/bin/sh\nexec sleep 1000\n");
        start(&b, "a");
        runs_unit_events.running("a", 10, "/s.slice/x.service", b.runs);
        fd = ask_capture(&b);
        expect_error(&b, ask_capture(&b), EBUSY, "in progress");
        for (int i = 0; i < 60; i++)
                (void) sd_event_run(b.event, 100 * USEC_PER_MSEC);
        expect_error(&b, fd, ETIMEDOUT, "within 5 s");
        write_tool(&b, "#!/bin/sh\necho 'process 10'\n");
        local__capture_reply__free_unpacked(captured(&b, ask_capture(&b)), NULL);
}

/* Begins one as soon as the one before is over. */
static int begin_capture(struct bench *b, bool remote) {
        struct problem p;
        int r = -EBUSY;

        for (unsigned waited = 0; r == -EBUSY && waited < 600; waited++) {
                if (waited > 0)
                        (void) sd_event_run(b->event, 100 * USEC_PER_MSEC);
                r = runs_capture(b->runs, "a", true, remote, &p);
        }
        return r;
}

/* The lines in the log, once there are so many. */
static void wait_lines(struct bench *b, const char *log, unsigned n, size_t size, char *ret) {
        for (unsigned waited = 0; waited < 600; waited++) {
                FILE *f = fopen(log, "re");
                unsigned lines = 0;

                ret[0] = '\0';
                if (f) {
                        ret[fread(ret, 1, size - 1, f)] = '\0';
                        ASSERT_OK(fclose(f));
                }
                for (const char *c = ret; *c; c++)
                        lines += *c == '\n';
                if (lines >= n)
                        return;
                (void) sd_event_run(b->event, 100 * USEC_PER_MSEC);
        }
}

/* Who comes over the network has one round with native frames in 5 minutes: a thread that runs is stopped
 * for them. */
static void test_rounds(void) {
        char log[sizeof(((struct bench *) NULL)->tool) + 8], text[1024];
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        scratch_write(&b.scratch, "sys/fs/cgroup/s.slice/x.service/cgroup.procs", "10\n");
        (void) snprintf(log, sizeof(log), "%s.log", b.tool);
        write_tool(&b, "#!/bin/sh\necho \"$*\" >>\"$0.log\"\n");
        start(&b, "a");
        runs_unit_events.running("a", 10, "/s.slice/x.service", b.runs);
        for (unsigned i = 0; i < 6; i++) {
                b.now.boot += (i == 4 ? 300 : 5) * USEC_PER_SEC;
                ASSERT_OK(begin_capture(&b, i != 3));
        }
        wait_lines(&b, log, 6, sizeof(text), text);
        ASSERT_STREQ(text, "--capture --native 10\n--capture --native 10\n--capture 10\n--capture --native "
                           "10\n--capture --native 10\n--capture --native 10\n");
}

int main(void) {
        void (*const tests[])(void) = {
                test_capture,
                test_capture_hangs,
                test_rounds,
        };

        return bench_main(tests, ELEMENTSOF(tests));
}
