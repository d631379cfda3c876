/* SPDX-License-Identifier: Apache-2.0 */
/* Saved captures: JSON and text of tpu-stack; the wire, whole and damaged. */
#include "capture_read.h"
#include "capture_wire.h"
#include "test.h"

static const char json_text[] =
        "{\"version\":1,\"slice\":\"1\",\"worker\":5,\"host\":\"h5\",\"address\":\"10.10.0.15\",\"round\":1,"
        "\"wanted\":5000000,"
        "\"taken\":7500000,\"clock_error\":1000,\"step\":12,\"reached\":3,\"addresses\":[\"eth0 10.10.0.15\",\"eth1 10.10.1.15\"],\"processes\":[{\"pid\":4711,\"command\":"
        "\"python3 train.py\","
        "\"python\":\"3.11.2\",\"rank\":3,\"other_threads\":2,\"threads\":[{\"tid\":4711,\"name\":"
        "\"python3\",\"state\":\"S\","
        "\"wait\":\"pipe_read\",\"syscall\":\"read\",\"interpreter\":0,\"gil\":true,\"changed\":false,\"frames_cut\":false,"
        "\"frames\":["
        "{\"kind\":\"kernel\",\"function\":\"pipe_read\",\"offset\":870},"
        "{\"kind\":\"native\",\"module\":\"/usr/lib/libc.so.6\",\"function\":\"read\",\"offset\":76},"
        "{\"kind\":\"native\",\"module\":\"libc.so.6\",\"function\":\"\",\"address\":160330},"
        "{\"file\":\"/w/dataset.py\",\"line\":88,\"function\":\"next_batch\"},"
        "{\"file\":\"/w/"
        "train.py\",\"line\":120,\"function\":\"main\"}]},{\"error\":\"loop\",\"frames\":[]}]}],"
        "\"cores\":[{\"core\":1,\"chip\":0,\"pc\":7,\"launch\":12,\"run\":3,\"fingerprint\":\"aa\"}],"
        "\"findings\":[{\"check\":\"nic.mtu\",\"subject\":\"eth0\",\"verdict\":\"FAIL\",\"found\":\"1460\"},"
        "{\"check\":\"x\",\"verdict\":\"OK\"}]}";

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
        ASSERT_STREQ(stack_table_text(&l->t, l->c.threads[0].syscall), "read");
        ASSERT_EQ(l->t.stacks[l->c.threads[0].stack].n, 5);
        ASSERT_STREQ(stack_table_text(&l->t, frame(l, 0, 0)->function), "main"); /* outermost first */
        ASSERT_STREQ(stack_table_text(&l->t, frame(l, 0, 1)->file), "/w/dataset.py");
        ASSERT_EQ(frame(l, 0, 1)->line, 88);
        ASSERT_EQ(frame(l, 0, 2)->kind, FRAME_NATIVE);
        ASSERT_STREQ(stack_table_text(&l->t, frame(l, 0, 2)->file), "libc.so.6");
        ASSERT_STREQ(stack_table_text(&l->t, frame(l, 0, 2)->function), "0x2724a"); /* it has no name */
        ASSERT_STREQ(stack_table_text(&l->t, frame(l, 0, 3)->file), "libc.so.6");
        ASSERT_EQ(frame(l, 0, 4)->kind, FRAME_KERNEL);
        ASSERT_STREQ(stack_table_text(&l->t, frame(l, 0, 4)->function), "pipe_read");
        ASSERT_EQ(l->c.threads[1].stack, STACK_NONE);
        ASSERT_EQ(l->c.n_cores, 1);
        ASSERT_EQ(l->c.cores[0].launch, 12);
        ASSERT_EQ(l->c.n_findings, 1);
        ASSERT_TRUE(l->c.findings[0].fail);
        ASSERT_EQ(l->c.reached, 3);
        ASSERT_EQ(l->c.n_own, 2);
        ASSERT_STREQ(stack_table_text(&l->t, l->c.own[1]), "eth1 10.10.1.15");
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
#define NATIVE(module, function) "{\"kind\":\"native\",\"function\":\"" function "\",\"module\":\"" module "\",\"address\":4096}"
#define PYTHON(file, function) "{\"file\":\"" file "\",\"line\":88,\"function\":\"" function "\"}"
#define NATIVE_STACK(frames) \
        "{\"version\":1,\"processes\":[{\"pid\":7,\"command\":\"python3 train.py\",\"threads\":[{\"tid\":7,\"frames\":[" frames \
        "],\"native\":{}}]}]}"

static void expect_stack(const char *json, const char *wanted) {
        _cleanup_(loaded_clear) struct loaded l;
        const struct stack_span *s;
        char text[512] = "";

        ASSERT_OK(load_json(json, &l));
        s = &l.t.stacks[l.c.threads[0].stack];
        for (uint32_t i = 0; i < s->n; i++) {
                size_t n = strlen(text);

                (void) snprintf(text + n, sizeof(text) - n, "%s%s", n > 0 ? ";" : "",
                                stack_table_text(&l.t, frame(&l, 0, i)->function));
        }
        ASSERT_STREQ(text, wanted);
}

static void test_native(void) {
        expect_stack(NATIVE_STACK(NATIVE("/lib/libc.so.6", "read") "," NATIVE("/lib/_io.so", "") "," NATIVE("/usr/bin/python3.11", "_Py_read") ","
                                  PYTHON("dataset.py", "next_batch") "," NATIVE("libtorch.so", "call_back") "," NATIVE("libpython3.11.so.1.0", "x") ","
                                  PYTHON("train.py", "<module>") "," NATIVE("libc.so.6", "__libc_start_main")),
                     "__libc_start_main;<module>;call_back;next_batch;0x1000;read");
        /* not in their places: behind all native ones */
        expect_stack(NATIVE_STACK(NATIVE("libc.so.6", "read") "," NATIVE("_io.so", "f") "," NATIVE("python3.11", "_Py_read") ","
                                  NATIVE("libtorch.so", "call_back") "," NATIVE("libc.so.6", "__libc_start_main") ","
                                  PYTHON("dataset.py", "next_batch") "," PYTHON("train.py", "<module>")),
                     "<module>;next_batch;f;read");
        expect_stack(NATIVE_STACK(NATIVE("libx.so", "spin") "," NATIVE("python3.11", "main")), "main;spin"); /* no Python */
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

/* --- Bytes that our own packer never makes ------------------------------------------------------------- */

struct bytes {
        uint8_t data[1024];
        size_t len;
};

static void put(struct bytes *b, unsigned field, const void *data, size_t len) {
        b->data[b->len++] = (uint8_t) ((field << 3 & 0x7f) | 2 | (field > 15 ? 0x80 : 0));
        if (field > 15)
                b->data[b->len++] = (uint8_t) (field >> 4);
        b->data[b->len++] = (uint8_t) ((len & 0x7f) | (len > 127 ? 0x80 : 0));
        if (len > 127)
                b->data[b->len++] = (uint8_t) (len >> 7);
        memcpy(b->data + b->len, data, len);
        b->len += len;
}
#define PUT(b, field, bytes) put(b, field, bytes, sizeof(bytes) - 1)

/* One thread with one frame, whose function is string 1; the fields in no order, some that nobody knows between the
 * strings, numbers longer than they need be. */
static void odd_order(struct bytes *b, const void *function, size_t len) {
        static const unsigned threads[] = { 33, 34, 35, 36 };

        *b = (struct bytes){ .len = 0 };
        PUT(b, 32, "\x00");
        PUT(b, 31, "\x81\x00");
        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                PUT(b, threads[i], "\x00");
        PUT(b, 30, "\x28\x01"); /* a process with one thread */
        PUT(b, 25, "\x01");
        PUT(b, 26, "\x80\x80\x00");
        PUT(b, 20, "");
        PUT(b, 99, "what later versions say");
        put(b, 20, function, len);
        for (unsigned f = 21; f <= 24; f++)
                put(b, f, f == 23 ? "\x01" : "\x00", 1);
        memcpy(b->data + b->len, "\x08\x01", 2); /* version */
        b->len += 2;
}

static int unpack(const struct bytes *b, struct loaded *l, const char **why) {
        host_capture_init(&l->c);
        return capture_wire_unpack(b->data, b->len, &l->c, &l->t, why);
}

static void test_wire_order(void) {
        static char length[300];
        static const struct {
                const char *sent, *read;
                size_t len;
        } strings[] = { { "step", "step", 4 }, { "a\x01\xff", "a??", 3 }, { "ab\0cd", "ab", 5 },
                      { length, length, 299 } };
        const char *why = NULL;

        memset(length, 'x', sizeof(length) - 1);
        for (size_t i = 0; i < ELEMENTSOF(strings); i++) {
                _cleanup_(loaded_clear) struct loaded l = { 0 };
                struct bytes b;

                odd_order(&b, strings[i].sent, strings[i].len);
                ASSERT_OK(unpack(&b, &l, &why));
                ASSERT_EQ(l.c.n_threads, 1);
                ASSERT_STREQ(stack_table_text(&l.t, frame(&l, 0, 0)->function), strings[i].read);
        }
}

static void test_wire_refused(void) {
        static const struct {
                unsigned field;
                const char *why;
        } twice[] = { { 21, "an array of numbers that is not in one piece" },
                      { 36, "an array of numbers that is not in one piece" } };
        struct bytes b;
        const char *why;

        for (size_t i = 0; i < ELEMENTSOF(twice); i++) {
                _cleanup_(loaded_clear) struct loaded l = { 0 };

                odd_order(&b, "f", 1);
                PUT(&b, twice[i].field, "\x00");
                ASSERT_EQ(unpack(&b, &l, &why), -EPROTO);
                ASSERT_STREQ(why, twice[i].why);
        }
        for (unsigned field = 21; field <= 36; field += 5) { /* its last number does not end */
                _cleanup_(loaded_clear) struct loaded l = { 0 };

                b = (struct bytes){ .data = { 8, 1 }, .len = 2 };
                PUT(&b, field, "\x00\x80");
                ASSERT_EQ(unpack(&b, &l, &why), -EPROTO);
        }
}

TEST_MAIN(test_json, test_bad_json, test_native, test_wire, test_wire_order,
          test_wire_refused)
