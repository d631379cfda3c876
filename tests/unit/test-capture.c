/* SPDX-License-Identifier: Apache-2.0 */
/* Saved captures: JSON and text of tpu-stack; the wire, whole and damaged. */
#include "capture_read.h"
#include "capture_wire.h"
#include "test.h"

static const char json_text[] =
        "{\"version\":1,\"slice\":\"1\",\"worker\":5,\"host\":\"h5\",\"address\":\"10.10.0.15\",\"round\":1,"
        "\"wanted\":5000000,"
        "\"taken\":7500000,\"clock_error\":1000,\"step\":12,\"processes\":[{\"pid\":4711,\"command\":"
        "\"python3 train.py\","
        "\"python\":\"3.11.2\",\"rank\":3,\"other_threads\":2,\"threads\":[{\"tid\":4711,\"name\":"
        "\"python3\",\"state\":\"S\","
        "\"wait\":\"pipe_read\",\"interpreter\":0,\"gil\":true,\"changed\":false,\"frames_cut\":false,"
        "\"frames\":["
        "{\"kind\":\"native\",\"module\":\"libc.so.6\",\"function\":\"read\"},"
        "{\"file\":\"/w/dataset.py\",\"line\":88,\"function\":\"next_batch\"},"
        "{\"file\":\"/w/"
        "train.py\",\"line\":120,\"function\":\"main\"}]},{\"error\":\"loop\",\"frames\":[]}]}],"
        "\"cores\":[{\"core\":1,\"chip\":0,\"pc\":7,\"launch\":12,\"run\":3,\"fingerprint\":\"aa\"}],"
        "\"findings\":[{\"check\":\"nic.mtu\",\"subject\":\"eth0\",\"verdict\":\"FAIL\",\"found\":\"1460\"},"
        "{\"check\":\"x\",\"verdict\":\"OK\"}]}";

static const char stack_text[] = "run train: 1 processes, 2 threads, taken now\n\n"
                                 "process 4711 python3 train.py (CPython 3.11.2)\n"
                                 "thread 4711 \"py \"thon\" [gil] waits in pipe_read\n"
                                 "  File \"/w/data, line 3, in x.py\", line 88, in next_batch\n"
                                 "  File \"/w/train.py\", line 120, in main\n"
                                 "thread 4712 \"loader\" [changed while read] running\n"
                                 "thread ?\n"
                                 "  (not readable: the frames form a loop)\n"
                                 "3 other threads of this process run no Python\n";

struct loaded {
        struct host_capture c;
        struct stack_table t;
        char why[CAPTURE_WHY_MAX];
};

static void loaded_clear(struct loaded *l) {
        host_capture_clear(&l->c);
        stack_table_clear(&l->t);
}

static int load_json(const char *text, struct loaded *l) {
        json_t *v = json_loads(text, 0, NULL);
        int r;

        *l = (struct loaded){ 0 };
        host_capture_init(&l->c);
        ASSERT_TRUE(v != NULL);
        r = capture_json_read(v, &l->c, &l->t, l->why);
        json_decref(v);
        return r;
}

static const struct stack_frame *frame(const struct loaded *l, size_t thread, uint32_t i) {
        return &l->t.frames[stack_table_frames(&l->t, l->c.threads[thread].stack)[i]];
}

static void check_json(const struct loaded *l) {
        ASSERT_STREQ(l->c.slice, "1");
        ASSERT_STREQ(l->c.address, "10.10.0.15");
        ASSERT_EQ(l->c.worker, 5);
        ASSERT_EQ(l->c.round, 1);
        ASSERT_EQ(host_capture_lateness(&l->c), 2500000);
        ASSERT_EQ(l->c.step, 12);
        ASSERT_EQ(l->c.n_processes, 1);
        ASSERT_EQ(l->c.processes[0].rank, 3);
        ASSERT_EQ(l->c.processes[0].state, 'S');
        ASSERT_EQ(l->c.processes[0].n_threads, 2);
        ASSERT_TRUE(l->c.threads[0].gil && !l->c.threads[0].changed);
        ASSERT_STREQ(stack_table_text(&l->t, l->c.threads[0].wait), "pipe_read");
        ASSERT_EQ(l->t.stacks[l->c.threads[0].stack].n, 3);
        ASSERT_STREQ(stack_table_text(&l->t, frame(l, 0, 0)->function), "main"); /* outermost first */
        ASSERT_STREQ(stack_table_text(&l->t, frame(l, 0, 1)->file), "/w/dataset.py");
        ASSERT_EQ(frame(l, 0, 1)->line, 88);
        ASSERT_EQ(frame(l, 0, 2)->kind, FRAME_NATIVE);
        ASSERT_STREQ(stack_table_text(&l->t, frame(l, 0, 2)->file), "libc.so.6");
        ASSERT_EQ(l->c.threads[1].stack, STACK_NONE);
        ASSERT_EQ(l->c.n_cores, 1);
        ASSERT_EQ(l->c.cores[0].launch, 12);
        ASSERT_EQ(l->c.n_findings, 1);
        ASSERT_TRUE(l->c.findings[0].fail);
}

static void test_json(void) {
        _cleanup_(loaded_clear) struct loaded l;

        ASSERT_OK(load_json(json_text, &l));
        check_json(&l);
}

static void test_bad_json(void) {
        static const struct {
                const char *text, *why;
        } bad[] = {
                { "[]", "no object" },
                { "{}", "neither" },
                { "{\"processes\":{}}", "\"processes\" is no list" },
                { "{\"processes\":[3]}", "no object" },
                { "{\"processes\":[],\"version\":2}", "\"version\"" },
                { "{\"processes\":[],\"round\":2}", "\"round\"" },
                { "{\"processes\":[],\"worker\":-1}", "\"worker\"" },
                { "{\"processes\":[{\"pid\":1,\"threads\":[{\"name\":7}]}]}", "\"name\" is no text" },
                { "{\"processes\":[{\"pid\":1,\"threads\":[{\"frames\":[{\"kind\":\"x\"}]}]}]}",
                  "\"kind\"" },
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_(loaded_clear) struct loaded l;

                ASSERT_EQ(load_json(bad[i].text, &l), -EPROTO);
                if (!strstr(l.why, bad[i].why))
                        test_fail(__FILE__, __LINE__, "%s: %s", bad[i].text, l.why);
        }
}

/* As tpu-stack --native --json prints it (docs/stack.md): the stacks as one, without the interpreter's own frames. */
static const char native_text[] =
        "{\"version\":1,\"processes\":[{\"pid\":7,\"command\":\"python3 train.py\",\"python\":\"3.11.2\",\"threads\":["
        "{\"tid\":7,\"name\":\"python3\",\"state\":\"S\",\"wait\":\"pipe_read\",\"call\":\"read\",\"frames\":["
        "{\"file\":\"/w/dataset.py\",\"line\":88,\"function\":\"next_batch\"},{\"file\":\"/w/train.py\",\"line\":12,\"function\":\"<module>\"}],"
        "\"native\":{\"merged\":%s,\"kernel\":\"pipe_read+0x366/0x410\\nksys_read\\n\",\"pause_ns\":0,\"frames\":["
        "{\"pc\":1,\"symbol\":\"read\",\"offset\":4,\"module\":\"libc.so.6\",\"build_id\":\"aa\",\"address\":5},"
        "{\"pc\":2,\"symbol\":\"\",\"module\":\"_io.so\",\"address\":4096},"
        "{\"pc\":2,\"symbol\":\"_Py_read\",\"module\":\"python3.11\",\"address\":1},"
        "{\"pc\":2,\"symbol\":\"_PyEval_EvalFrameDefault\",\"module\":\"python3.11\",\"address\":1%s},"
        "{\"pc\":2,\"symbol\":\"call_back\",\"module\":\"libtorch.so\",\"address\":1},"
        "{\"pc\":2,\"symbol\":\"_PyEval_EvalFrameDefault\",\"module\":\"python3.11\",\"address\":1%s},"
        "{\"pc\":2,\"symbol\":\"__libc_start_main\",\"module\":\"libc.so.6\",\"address\":1}]}}],"
        "\"native_threads\":[{\"tid\":8,\"name\":\"pool\",\"state\":\"R\",\"native\":{\"merged\":false,\"frames\":["
        "{\"symbol\":\"spin\",\"module\":\"libx.so\"}]}}]}]}";

static void expect_stack(const struct loaded *l, size_t thread, const char *wanted) {
        const struct stack_span *s = &l->t.stacks[l->c.threads[thread].stack];
        char text[512] = "";

        for (uint32_t i = 0; i < s->n; i++) {
                size_t n = strlen(text);

                (void) snprintf(text + n, sizeof(text) - n, "%s%s", n > 0 ? ";" : "",
                                stack_table_text(&l->t, frame(l, thread, i)->function));
        }
        ASSERT_STREQ(text, wanted);
}

static void test_native(void) {
        char text[sizeof(native_text) + 64];

        for (int merged = 0; merged < 2; merged++) {
                _cleanup_(loaded_clear) struct loaded l;
                const char *place = merged ? ",\"python\":1" : "";

                (void) snprintf(text, sizeof(text), native_text, merged ? "true" : "false", place, place);
                ASSERT_OK(load_json(text, &l));
                expect_stack(&l, 0,
                             merged ? "__libc_start_main;<module>;call_back;next_batch;0x1000;read;ksys_read;pipe_read"
                                    : "<module>;next_batch;0x1000;read;ksys_read;pipe_read");
                expect_stack(&l, 1, "spin");
                ASSERT_EQ(l.c.threads[1].tid, 8);
                ASSERT_STREQ(stack_table_text(&l.t, l.c.threads[0].syscall), "read");
                ASSERT_EQ(l.c.processes[0].n_threads, 2);
        }
}

static void test_text(void) {
        _cleanup_(loaded_clear) struct loaded l = { 0 };

        host_capture_init(&l.c);
        ASSERT_OK(capture_text_read(stack_text, strlen(stack_text), &l.c, &l.t, l.why));
        ASSERT_EQ(l.c.n_processes, 1);
        ASSERT_EQ(l.c.processes[0].pid, 4711);
        ASSERT_STREQ(stack_table_text(&l.t, l.c.processes[0].command), "python3 train.py");
        ASSERT_EQ(l.c.n_threads, 3);
        ASSERT_STREQ(stack_table_text(&l.t, l.c.threads[0].name), "py \"thon");
        ASSERT_TRUE(l.c.threads[0].gil);
        ASSERT_EQ(l.c.threads[0].state, 'S');
        ASSERT_STREQ(stack_table_text(&l.t, l.c.threads[0].wait), "pipe_read");
        ASSERT_EQ(l.t.stacks[l.c.threads[0].stack].n, 2);
        ASSERT_STREQ(stack_table_text(&l.t, frame(&l, 0, 0)->function), "main");
        ASSERT_STREQ(stack_table_text(&l.t, frame(&l, 0, 1)->file), "/w/data, line 3, in x.py");
        ASSERT_TRUE(l.c.threads[1].changed);
        ASSERT_EQ(l.c.threads[1].state, 'R');
        ASSERT_EQ(l.c.threads[2].stack, STACK_NONE);
        ASSERT_EQ(capture_text_read("hello\n", 6, &l.c, &l.t, l.why),
                  0); /* nothing was added, what was there stays */
        host_capture_clear(&l.c);
        ASSERT_EQ(capture_text_read("hello\n", 6, &l.c, &l.t, l.why), -EPROTO);
}

static void test_wire(void) {
        _cleanup_(loaded_clear) struct loaded l, copy = { 0 };
        const char *why = NULL;
        uint8_t *data;
        size_t len;

        host_capture_init(&copy.c);
        ASSERT_OK(load_json(json_text, &l));
        ASSERT_OK(capture_wire_pack(&l.c, &l.t, &data, &len));
        ASSERT_OK(capture_wire_unpack(data, len, &copy.c, &copy.t, &why));
        check_json(&copy);
        for (size_t cut = 0; cut < len; cut++) { /* what was cut off or damaged never reads beyond its end */
                _cleanup_(loaded_clear) struct loaded bad = { 0 };

                host_capture_init(&bad.c);
                (void) capture_wire_unpack(data, cut, &bad.c, &bad.t, &why);
                loaded_clear(&bad);
                data[cut] ^= 0x15;
                (void) capture_wire_unpack(data, len, &bad.c, &bad.t, &why);
                data[cut] ^= 0x15;
        }
        free(data);
        ASSERT_EQ(capture_wire_unpack((const uint8_t *) "\x08\x02", 2, &copy.c, &copy.t, &why),
                  -EPROTONOSUPPORT);
        ASSERT_EQ(capture_wire_unpack((const uint8_t *) "", 0, &copy.c, &copy.t, &why), -EPROTO);
        ASSERT_STREQ(why, "version: missing");
}

TEST_MAIN(test_json, test_bad_json, test_native, test_text, test_wire)
