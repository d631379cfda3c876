/* SPDX-License-Identifier: Apache-2.0 */
/* Captures as callers of tpu-launchd see them, with a tool of the test's. */
#include <zlib.h>

#include "launch-bench.h"

static void write_tool(struct bench *b, const char *script) {
        scratch_write(&b->scratch, "tool", script);
        ASSERT_OK(chmod(b->tool, 0755));
}

static int ask_capture(struct bench *b) {
        Local__CaptureRequest q = LOCAL__CAPTURE_REQUEST__INIT;

        q.name = (char[]){ "a" };
        b->now.boot += 2 * USEC_PER_SEC;
        return ask(b, LOCAL__KIND__KIND_CAPTURE_REQUEST, &q.base);
}

static Local__CaptureReply *captured(struct bench *b, int fd) {
        Local__CaptureReply *r = (Local__CaptureReply *) take(b, fd, LOCAL__KIND__KIND_CAPTURE_REPLY,
                                                              &local__capture_reply__descriptor);

        (void) close(fd);
        return r;
}

static void test_capture(void) {
        _cleanup_bench_ struct bench b;
        Local__CaptureReply *r;
        int fd;

        bench_init(&b);
        scratch_write(&b.scratch, "sys/fs/cgroup/s.slice/x.service/cgroup.procs", "10\n11\n");
        write_tool(&b, "#!/bin/sh\necho \"process $1 'x'\nthread 1\n  process no\nprocess $2\nthread "
                       "2\nthread 3\"\n");
        start(&b, "a");
        expect_error(&b, ask_capture(&b), EAGAIN, "control group");
        runs_unit_events.running("a", 10, "/s.slice/x.service", b.runs);
        r = captured(&b, ask_capture(&b));
        ASSERT_TRUE(startswith(r->text, "process 10 'x'\n"));
        ASSERT_EQ(r->processes, 2);
        ASSERT_EQ(r->threads, 3);
        ASSERT_EQ(r->taken_real_usec, b.now.real);
        local__capture_reply__free_unpacked(r, NULL);
        b.now.boot -= 2 * USEC_PER_SEC; /* no time has passed */
        expect_error(&b, ask_capture(&b), EBUSY, "a moment ago");

        write_tool(&b, "#!/bin/sh\necho cannot >&2\nexit 3\n");
        expect_error(&b, ask_capture(&b), ESRCH, "cannot");
        write_tool(&b, "#!/bin/sh\necho thread; kill -9 $$\n");
        expect_error(&b, ask_capture(&b), EIO, "tpu-stack failed");
        /* More text than a frame holds is cut, and the tool that goes on writing ends. */
        write_tool(&b, "#!/bin/sh\nexec yes 'process 1'\n");
        fd = ask_capture(&b);
        for (int i = 0; i < 100; i++)
                turn(&b);
        r = captured(&b, fd);
        ASSERT_EQ(strlen(r->text), CAPTURE_TEXT_MAX);
        local__capture_reply__free_unpacked(r, NULL);
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
        expect_error(&b, ask_capture(&b), EBUSY, "under way");
        for (int i = 0; i < 60; i++)
                (void) sd_event_run(b.event, 100 * USEC_PER_MSEC);
        expect_error(&b, fd, ETIMEDOUT, "within 5 s");
        write_tool(&b, "#!/bin/sh\necho 'process 10'\n");
        local__capture_reply__free_unpacked(captured(&b, ask_capture(&b)), NULL);
}

static int ask_frames(struct bench *b) {
        Local__CaptureRequest q = LOCAL__CAPTURE_REQUEST__INIT;

        q.name = (char[]){ "a" };
        q.frames = true;
        b->now.boot += 2 * USEC_PER_SEC;
        return ask(b, LOCAL__KIND__KIND_CAPTURE_REQUEST, &q.base);
}

static void expect_json(const Local__CaptureReply *r, const char *wanted) {
        z_stream z = { .next_in = r->packed.data, .avail_in = (uInt) r->packed.len };
        char text[4096];

        ASSERT_EQ(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
        z.next_out = (Bytef *) text;
        z.avail_out = sizeof(text) - 1;
        ASSERT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
        text[z.total_out] = '\0';
        ASSERT_OK(inflateEnd(&z));
        ASSERT_STREQ(text, wanted);
        ASSERT_STREQ(r->text, "");
}

/* All frames of all processes, packed. */
static void test_capture_frames(void) {
        _cleanup_bench_ struct bench b;
        Local__CaptureReply *r;

        bench_init(&b);
        scratch_write(&b.scratch, "sys/fs/cgroup/s.slice/x.service/cgroup.procs", "10\n11\n");
        write_tool(&b, "#!/bin/sh\necho \"{$*}\"\necho 'no Python in 11' >&2\nexit 3\n");
        start(&b, "a");
        runs_unit_events.running("a", 10, "/s.slice/x.service", b.runs);
        r = captured(&b, ask_frames(&b));
        expect_json(r, "{--json --native 10 11}\n");
        ASSERT_TRUE(r->native && r->partial);
        ASSERT_STREQ(r->problem, "no Python in 11");
        local__capture_reply__free_unpacked(r, NULL);

        /* 4 MiB at most; what repeats itself is little to send. */
        write_tool(&b, "#!/bin/sh\nyes 0123456789abcdef | head -c 4000000\n");
        r = captured(&b, ask_frames(&b));
        ASSERT_TRUE(r->packed.len > 1000 && r->packed.len < 100000);
        local__capture_reply__free_unpacked(r, NULL);
        write_tool(&b, "#!/bin/sh\nexec yes 0123456789abcdef\n");
        expect_error(&b, ask_frames(&b), E2BIG, "more than can be sent");
        write_tool(&b, "#!/bin/sh\nexec head -c 2000000 /dev/urandom\n");
        expect_error(&b, ask_frames(&b), E2BIG, "more than can be sent");
}

/* Begins one as soon as the one before is over. */
static int begin_capture(struct bench *b, const struct capture_wish *wish, bool remote) {
        struct problem p;
        int r = -EBUSY;

        for (unsigned waited = 0; r == -EBUSY && waited < 600; waited++) {
                if (waited > 0)
                        (void) sd_event_run(b->event, 100 * USEC_PER_MSEC);
                r = runs_capture(b->runs, "a", wish, remote, &p);
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

/* Who comes over the network has one round with native frames in 5 minutes: a thread that runs is stopped for them. */
static void test_rounds(void) {
        static const struct capture_wish wish = { .frames = true, .native = true };
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
                ASSERT_OK(begin_capture(&b, &wish, i != 3));
        }
        wait_lines(&b, log, 6, sizeof(text), text);
        ASSERT_STREQ(text, "--json --native 10\n--json --native 10\n--json 10\n--json --native 10\n--json --native 10\n--json --native 10\n");
}

int main(void) {
        void (*const tests[])(void) = {
                test_capture,
                test_capture_hangs,
                test_capture_frames,
                test_rounds,
        };

        return bench_main(tests, ELEMENTSOF(tests));
}
