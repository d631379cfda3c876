/* SPDX-License-Identifier: Apache-2.0 */
/* A host's part of a capture: what goes into it, what is left out, what is kept. */
#include <sys/stat.h>

#include "capture_build.h"
#include "capture_print.h"
#include "capture_shelf.h"
#include "capture_wire.h"
#include "inflate.h"
#include "pack.h"
#include "scratch.h"
#include "test.h"

struct seen {
        struct built_capture built;
        struct host_capture c;
        struct stack_table t;
        char why[200];
};

static void seen_clear(struct seen *s) {
        built_capture_clear(&s->built);
        host_capture_clear(&s->c);
        stack_table_clear(&s->t);
}

static int build(const char *json, const struct capture_about *a, struct seen *ret) {
        _cleanup_(pack_freep) struct pack *p = NULL;
        const uint8_t *stacks = NULL;
        const char *why;
        size_t len = 0;
        int r;

        *ret = (struct seen){ 0 };
        host_capture_init(&ret->c);
        ASSERT_OK(pack_new(64 * 1024 * 1024, 64 * 1024 * 1024, &p));
        if (json) {
                ASSERT_OK(pack_add(p, json, strlen(json)));
                ASSERT_OK(pack_end(p, &stacks, &len));
        }
        r = capture_build(stacks, len, a, &ret->built, ret->why);
        if (r == 0)
                ASSERT_OK(capture_wire_unpack(ret->built.wire, ret->built.len, &ret->c, &ret->t, &why));
        return r;
}

static const struct capture_about about = { .slice = "s0",
                                            .host = "h0",
                                            .address = "10.0.0.1",
                                            .episode = "e",
                                            .worker = 3,
                                            .round = 1,
                                            .wanted = 5,
                                            .taken = 8,
                                            .clock_error = 2,
                                            .step = 12 };

/* The copy for exporters: cut at the end of a line, and saying so. */
static void test_text(void) {
        _cleanup_free_ char *text = NULL, *cut = NULL;
        _cleanup_(seen_clear) struct seen s;

        ASSERT_OK(build("{\"version\":1,\"processes\":[{\"pid\":2,\"command\":\"python3 "
                        "train.py\",\"python\":\"3.11.2\",\"threads\":["
                        "{\"tid\":2,\"name\":\"python3\",\"state\":\"S\",\"wait\":\"pipe_read\",\"syscall\":"
                        "\"read\",\"gil\":true,\"frames\":["
                        "{\"kind\":\"kernel\",\"function\":\"pipe_read\"},{\"file\":\"/srv/"
                        "dataset.py\",\"line\":88,\"function\":\"next_batch\"},"
                        "{\"file\":\"/srv/train.py\",\"line\":120,\"function\":\"main\"}]}]}]}",
                        &about, &s));
        ASSERT_STREQ(s.built.text, "process 2 python3 train.py\n"
                                   "  thread 2 python3, S, holds the GIL, in read, waits in pipe_read\n"
                                   "    pipe_read [kernel]\n"
                                   "    next_batch (/srv/dataset.py:88)\n"
                                   "    main (/srv/train.py:120)\n");
        ASSERT_OK(capture_print(&s.c, &s.t, strlen(s.built.text) + 1, &text));
        ASSERT_STREQ(text, s.built.text);
        ASSERT_OK(capture_print(&s.c, &s.t, 100, &cut));
        ASSERT_STREQ(
                cut,
                "process 2 python3 train.py\n[cut here: the stacks are longer than this text may be]\n");
}

static void test_what_is_in(void) {
        struct finding path = { .check = "path.answer", .subject = "10.0.0.2", .verdict = VERDICT_WARN };
        struct finding_list more = { .items = &path, .n = 1 };
        struct capture_own own = { .items = { "eth1 10.0.1.1" }, .n = 1 };
        struct capture_about a = about;
        _cleanup_(seen_clear) struct seen s;

        a.more = &more;
        a.own = &own;
        a.reached = 2;
        ASSERT_OK(build(
                "{\"version\":1,\"processes\":["
                "{\"pid\":1,\"command\":\"bash run.sh\",\"no_python\":\"none\",\"threads\":[{\"tid\":1}]},"
                "{\"pid\":2,\"command\":\"python3 train.py\",\"python\":\"3.11.2\",\"threads\":[{\"tid\":2,\"frames\":[]}]}]}",
                &a, &s));
        ASSERT_EQ(s.c.n_processes, 1); /* the shell says nothing beside the program */
        ASSERT_EQ(s.c.processes[0].pid, 2);
        ASSERT_STREQ(s.c.slice, "s0");
        ASSERT_EQ(s.c.worker, 3);
        ASSERT_EQ(s.c.step, 12);
        ASSERT_EQ(host_capture_lateness(&s.c), 3);
        ASSERT_EQ(s.c.n_findings, 1);
        ASSERT_STREQ(stack_table_text(&s.t, s.c.findings[0].check), "path.answer");
        ASSERT_FALSE(s.c.findings[0].fail);
        ASSERT_EQ(s.c.n_own, 1);
        ASSERT_STREQ(stack_table_text(&s.t, s.c.own[0]), "eth1 10.0.1.1");
        ASSERT_EQ(s.c.reached, 2);
        seen_clear(&s);
        /* Where there is no Python at all, what there is stays. */
        ASSERT_OK(build(
                "{\"version\":1,\"processes\":[{\"pid\":1,\"no_python\":\"none\",\"threads\":[{\"tid\":1}]}]}",
                &about, &s));
        ASSERT_EQ(s.c.n_processes, 1);
}

static void test_no_stacks(void) {
        struct capture_about a = about;
        _cleanup_(seen_clear) struct seen s;

        a.problem = "tpu-launchd does not answer";
        ASSERT_OK(build(NULL, &a, &s));
        ASSERT_EQ(s.c.n_processes, 1);
        ASSERT_STREQ(stack_table_text(&s.t, s.c.processes[0].error), a.problem);
        seen_clear(&s);
        a.ended = 77;
        a.ended_how = "exit-code (exited 1)";
        ASSERT_OK(build(NULL, &a, &s));
        ASSERT_EQ(s.c.n_processes, 0);
        ASSERT_EQ(s.c.ended, 77);
        ASSERT_STREQ(stack_table_text(&s.t, s.c.ended_how), "exit-code (exited 1)");
}

static void test_bad(void) {
        _cleanup_(seen_clear) struct seen s;

        ASSERT_EQ(build("{\"processes\":3}", &about, &s), -EPROTO);
        ASSERT_TRUE(strstr(s.why, "processes"));
        ASSERT_EQ(build("{", &about, &s), -EPROTO);
        ASSERT_TRUE(strstr(s.why, "no JSON"));
        ASSERT_EQ(capture_build((const uint8_t *) "xx", 2, &about, &s.built, s.why), -EPROTO);
}

/* Thousands of threads that nothing can pack: the main thread stays, and it says that it was cut. */
static void test_too_large(void) {
        _cleanup_free_ char *json = NULL;
        _cleanup_(seen_clear) struct seen s;
        uint64_t x = 88172645463325252u;
        size_t size = 0;
        FILE *f = open_memstream(&json, &size);

        ASSERT_TRUE(f != NULL);
        fputs("{\"version\":1,\"processes\":[{\"pid\":2,\"python\":\"3.11.2\",\"threads\":[", f);
        for (unsigned i = 0; size < 3500000 && i < 8000; i++) {
                fprintf(f, "%s{\"tid\":%u,\"frames\":[{\"function\":\"", i > 0 ? "," : "", i + 2);
                for (unsigned k = 0; k < 40; k++) {
                        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                        fprintf(f, "%08x", (unsigned) x);
                }
                fputs("\"}]}", f);
                (void) fflush(f);
        }
        fputs("]}]}", f);
        ASSERT_OK(fclose(f));
        ASSERT_OK(build(json, &about, &s));
        ASSERT_TRUE(s.c.cut && s.built.cut);
        ASSERT_TRUE(s.built.packed_len <= CAPTURE_SEND_MAX);
        ASSERT_TRUE(s.c.n_threads >= 1 && s.c.n_threads < 8000);
        ASSERT_EQ(s.c.threads[0].tid, 2);
}

static bool count(const char *name, void *userdata) {
        size_t *n = userdata;

        ASSERT_TRUE(strstr(name, ".capture") != NULL);
        (*n)++;
        return true;
}

static void test_shelf(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_free_ uint8_t *data = NULL;
        char directory[512], name[SHELF_NAME_MAX], parsed[64];
        size_t n = 0, len;
        unsigned round;
        usec_t taken;

        scratch_path(&s, "captures", directory);
        ASSERT_FALSE(capture_shelf_has(directory, "e0"));
        ASSERT_OK(capture_shelf_visit(directory, count, &n));
        for (unsigned i = 0; i < 12; i++) {
                char episode[16];

                (void) snprintf(episode, sizeof(episode), "e-%u.x", i / 2);
                ASSERT_OK(capture_shelf_put(directory, 1000 + i, i % 2, episode, "data", 4, name));
                ASSERT_OK(capture_shelf_parse(name, &taken, &round, parsed));
                ASSERT_TRUE(taken == 1000 + i && round == i % 2 && streq(parsed, episode));
        }
        ASSERT_OK(capture_shelf_visit(directory, count, &n));
        ASSERT_EQ(n, SHELF_KEPT);
        ASSERT_TRUE(capture_shelf_has(directory, "e-5.x") && capture_shelf_has(directory, "e-2.x"));
        ASSERT_FALSE(capture_shelf_has(directory, "e-1.x") || capture_shelf_has(directory, "e-5") ||
                     capture_shelf_has(directory, "5.x"));
        ASSERT_OK(capture_shelf_read(directory, "00000000000000001011-1-e-5.x.capture", 4, &data, &len));
        ASSERT_EQ(len, 4);
        ASSERT_EQ(capture_shelf_read(directory, "00000000000000001011-1-e-5.x.capture", 3, &data, &len),
                  -E2BIG);
        ASSERT_EQ(capture_shelf_read(directory, "../captures/00000000000000001011-1-e-5.x.capture", 4, &data,
                                     &len),
                  -ENOENT);
        ASSERT_EQ(capture_shelf_put(directory, 1, 0, "../x", "data", 4, name), -EINVAL);
        ASSERT_EQ(capture_shelf_put(directory, 1, 0, "", "data", 4, name), -EINVAL);
        ASSERT_EQ(capture_shelf_parse("00000000000000001011-1.capture", &taken, &round, parsed), -EINVAL);
        ASSERT_EQ(capture_shelf_parse("x", &taken, &round, parsed), -EINVAL);
}

TEST_MAIN(test_text, test_what_is_in, test_no_stacks, test_bad, test_too_large, test_shelf)
