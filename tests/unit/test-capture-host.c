/* SPDX-License-Identifier: Apache-2.0 */
/* What a host appends to a capture, and what it keeps. */
#include <sys/stat.h>

#include "capture_host.h"
#include "capture_read.h"
#include "capture_shelf.h"
#include "capture_write.h"
#include "scratch.h"
#include "test.h"

struct seen {
        struct host_capture c;
        struct stack_table t;
        uint8_t *data;
        size_t len;
};

static void seen_clear(struct seen *s) {
        host_capture_clear(&s->c);
        stack_table_clear(&s->t);
        free(s->data);
}

static void append(const uint8_t *stacks, size_t len, const struct capture_about *a, struct seen *ret) {
        char why[CAPTURE_WHY_MAX];

        *ret = (struct seen){ .t = STACK_TABLE_NULL };
        ASSERT_OK(capture_host_append(stacks, len, a, &ret->data, &ret->len));
        ASSERT_TRUE(ret->len <= CAPTURE_POST_MAX);
        ASSERT_OK(capture_read(ret->data, ret->len, CAPTURE_DIAGNOSED, &ret->c, &ret->t, why));
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
                                            .reached = CAPTURE_REACHED_NONE,
                                            .step = 12 };

/* As tpu-stack does: one process without threads. */
static void write_stacks(struct capture_writer *w) {
        struct captured_process *p;

        ASSERT_OK(capture_writer_init(w));
        ASSERT_OK(host_capture_add_process(&w->c, &p));
        p->pid = 2;
        ASSERT_OK(capture_writer_process(w));
        ASSERT_OK(capture_writer_end(w));
}

static void test_what_is_in(void) {
        struct finding path = { .check = "path.answer", .subject = "10.0.0.2", .verdict = VERDICT_WARN };
        struct finding_list more = { .items = &path, .n = 1 };
        struct capture_own own = { .items = { "eth1 10.0.1.1" }, .n = 1 };
        static struct libtpu_status cores = {
                .n = 2, .cores = { { .core = 1, .pc = -5 }, { .core = 3, .location = "x.py:7" } }
        };
        _cleanup_capture_writer_ struct capture_writer w;
        struct capture_about a = about;
        _cleanup_(seen_clear) struct seen s;

        a.more = &more;
        a.own = &own;
        a.reached = 2;
        a.cores = &cores;
        write_stacks(&w);
        append(w.data, w.len, &a, &s);
        ASSERT_TRUE(memcmp(s.data, w.data, w.len) == 0); /* what tpu-stack wrote stays as it is */
        ASSERT_EQ(s.c.n_processes, 1);
        ASSERT_EQ(s.c.processes[0].pid, 2);
        ASSERT_STREQ(s.c.slice, "s0");
        ASSERT_EQ(s.c.worker, 3);
        ASSERT_EQ(s.c.step, 12);
        ASSERT_EQ(host_capture_lateness(&s.c), 3);
        ASSERT_EQ(s.c.n_findings, 1);
        ASSERT_STREQ(stack_table_text(&s.t, s.c.findings[0].check), "path.answer");
        ASSERT_FALSE(s.c.findings[0].fail || s.c.cut);
        ASSERT_EQ(s.c.n_own, 1);
        ASSERT_STREQ(stack_table_text(&s.t, s.c.own[0]), "eth1 10.0.1.1");
        ASSERT_EQ(s.c.reached, 2);
        ASSERT_EQ(s.c.n_cores, 2);
        ASSERT_TRUE(s.c.cores[0].pc == -5 && s.c.cores[1].core == 3);
        ASSERT_STREQ(stack_table_text(&s.t, s.c.cores[1].location), "x.py:7");
}

static void test_no_stacks(void) {
        struct capture_about a = about;
        _cleanup_(seen_clear) struct seen s;

        a.problem = "tpu-launchd does not answer";
        append(NULL, 0, &a, &s);
        ASSERT_EQ(s.c.n_processes, 1);
        ASSERT_STREQ(stack_table_text(&s.t, s.c.processes[0].error), a.problem);
        ASSERT_EQ(s.c.reached, CAPTURE_REACHED_NONE);
        seen_clear(&s);
        a.ended = 77;
        a.ended_how = "exit-code (exited 1)";
        append(NULL, 0, &a, &s);
        ASSERT_EQ(s.c.n_processes, 0);
        ASSERT_EQ(s.c.ended, 77);
        ASSERT_STREQ(stack_table_text(&s.t, s.c.ended_how), "exit-code (exited 1)");
}

/* Findings that nothing can pack: those that find no room are left out, and it says so. */
static void test_too_much(void) {
        _cleanup_finding_list_ struct finding_list more = FINDING_LIST_NULL;
        uint64_t x = UINT64_C(88172645463325252);
        struct capture_about a = about;
        _cleanup_(seen_clear) struct seen s;
        uint8_t *data;
        size_t len;

        for (unsigned i = 0; i < 1000; i++) {
                struct finding f;

                finding_init(&f, "x", "y");
                f.verdict = VERDICT_FAIL;
                for (size_t k = 0; k + 1 < sizeof(f.found); k++) {
                        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                        f.found[k] = (char) ('!' + x % 90);
                }
                f.found[sizeof(f.found) - 1] = '\0';
                ASSERT_OK(finding_list_add(&more, &f));
        }
        a.more = &more;
        append(NULL, 0, &a, &s);
        ASSERT_TRUE(s.c.n_findings > 10 && s.c.n_findings <= 192);
        ASSERT_TRUE(s.len < 200 * 1024);
        ASSERT_EQ(capture_host_append((const uint8_t *) "", CAPTURE_PACKED_MAX + 1, &a, &data, &len),
                  -E2BIG);
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

TEST_MAIN(test_what_is_in, test_no_stacks, test_too_much, test_shelf)
