/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks out of files as faulthandler writes them, whatever else is there. */
#include <fcntl.h>

#include "stack_text.h"
#include "test.h"

#define INFO "INFO: Not a crash. cloud-tpu-diagnostics emits a stack trace snapshot every 600 seconds.\n"
#define CURRENT "Current thread 0x00007f1a2b3c4d5e (most recent call first):\n"
#define THREAD(n) "Thread 0x00007f1a2b3c0" n " (most recent call first):\n"
#define FRAME(f) "  File \"train.py\", line 88 in " f "\n"

static struct stack_text t;
static char reason[STACK_TEXT_REASON_MAX]; /* of the last one expected */

static int next(const char *text, bool end, size_t *at) {
        return stack_text_next(text, strlen(text), end, at, &t);
}

/* The one snapshot of a text that ends. */
static void expect(const char *text, enum stack_text_kind kind, unsigned threads, unsigned frames,
                   const char *shown) {
        size_t at = 0;

        ASSERT_EQ(next(text, true, &at), 1);
        ASSERT_EQ(t.kind, kind);
        ASSERT_EQ(t.threads, threads);
        ASSERT_EQ(t.frames, frames);
        ASSERT_STREQ(t.text, shown);
        ASSERT_EQ(t.len, strlen(shown));
        (void) snprintf(reason, sizeof(reason), "%s", t.reason);
        ASSERT_EQ(next(text, true, &at), 0);
        ASSERT_EQ(at, strlen(text));
}

static void test_forms(void) {
        expect(INFO CURRENT FRAME("next_batch") FRAME("<module>"), STACK_TEXT_SNAPSHOT, 1, 2,
               CURRENT FRAME("next_batch") FRAME("<module>"));
        /* written past each other */
        expect(CURRENT FRAME("a") INFO, STACK_TEXT_SNAPSHOT, 1, 1, CURRENT FRAME("a"));
        expect("Stack (most recent call first):\n" FRAME("a") "  ...\n", STACK_TEXT_SNAPSHOT, 1, 2,
               "Stack (most recent call first):\n" FRAME("a") "  ...\n");
        expect("Timeout (0:00:10)!\n" THREAD("1") "  <no Python frame>\n\n" CURRENT FRAME("a"),
               STACK_TEXT_TIMEOUT, 2, 2,
               "Timeout (0:00:10)!\n" THREAD("1") "  <no Python frame>\n" CURRENT FRAME("a"));
        expect("Fatal Python error: Segmentation fault\n\n" CURRENT "  Garbage-collecting\n" FRAME("a") "\n"
               THREAD("1")
                       FRAME("b") "\nCurrent thread's C stack trace (most recent call first):\n"
                                  "  Binary file \"/usr/bin/python3\", at _Py_DumpStack+0x3b [0x5f1]\n"
                                  "\nExtension modules: numpy, jax (total: 2)\r\n",
               STACK_TEXT_CRASH, 2, 4,
               "Fatal Python error: Segmentation fault\n" CURRENT "  Garbage-collecting\n" FRAME("a")
               THREAD("1")
                       FRAME("b") "Current thread's C stack trace (most recent call first):\n"
                                  "  Binary file \"/usr/bin/python3\", at _Py_DumpStack+0x3b [0x5f1]\n"
                                  "Extension modules: numpy, jax (total: 2)\n");
        ASSERT_STREQ(reason, "Segmentation fault");
        expect("Fatal Python error: Aborted\n", STACK_TEXT_CRASH, 0, 0, "Fatal Python error: Aborted\n");
}

static void test_nothing_else_is_shown(void) {
        size_t at = 0;

        expect("password=hunter2\n" CURRENT FRAME("a") "token: x\n" FRAME("lost") "  File \"x\" says\n",
               STACK_TEXT_SNAPSHOT, 1, 1,
               CURRENT FRAME("a"));
        ASSERT_EQ(next("root:x:0:0:root:/root:/bin/bash\n" FRAME("of nothing") INFO, true, &at), 0);
        expect(CURRENT "  File \"\x1b[31m\xff\", line 1 in f\n", STACK_TEXT_SNAPSHOT, 1, 1,
               CURRENT "  File \"?[31m?\", line 1 in f\n");
}

static void test_one_after_the_other(void) {
        static const char text[] = INFO CURRENT FRAME("a") INFO CURRENT FRAME("b") CURRENT FRAME("c")
                THREAD("1") FRAME("d") THREAD("2") FRAME("e") THREAD("1") FRAME("f") CURRENT FRAME("g")
                "Stack (most recent call first):\n" FRAME("h") "Stack (most recent call first):\n" FRAME("i")
                "Fatal Python error: Bus error\n" CURRENT FRAME("j");
        static const char *const wanted[] = { CURRENT FRAME("a"),
                                              CURRENT FRAME("b"),
                                              CURRENT FRAME("c") THREAD("1") FRAME("d") THREAD("2")
                                                      FRAME("e"),
                                              THREAD("1") FRAME("f") CURRENT FRAME("g"),
                                              "Stack (most recent call first):\n" FRAME("h"),
                                              "Stack (most recent call first):\n" FRAME("i"),
                                              "Fatal Python error: Bus error\n" CURRENT FRAME("j") };
        size_t at = 0;

        for (size_t i = 0; i < ELEMENTSOF(wanted); i++) {
                ASSERT_EQ(next(text, true, &at), 1);
                ASSERT_STREQ(t.text, wanted[i]);
        }
        ASSERT_EQ(next(text, true, &at), 0);
}

/* In any pieces, and only when it is whole: the same. */
static void test_pieces(void) {
        static const char text[] = INFO CURRENT FRAME("a") FRAME("b") INFO CURRENT FRAME("c");
        size_t whole = strlen(INFO CURRENT FRAME("a") FRAME("b") INFO);

        for (size_t len = 0; len <= strlen(text); len++) {
                size_t at = 0;
                int r = stack_text_next(text, len, false, &at, &t);

                ASSERT_EQ(r, len >= whole);
                ASSERT_TRUE(at <= len);
                if (r > 0)
                        ASSERT_STREQ(t.text, CURRENT FRAME("a") FRAME("b"));
                ASSERT_EQ(stack_text_next(text, len, false, &at, &t), 0); /* the second is not whole */
                if (len == strlen(text)) {
                        ASSERT_EQ(stack_text_next(text, len, true, &at, &t), 1);
                        ASSERT_STREQ(t.text, CURRENT FRAME("c"));
                }
        }
}

/* Addresses of threads do not tell two snapshots apart; frames, and how it died, do. */
static void test_hash(void) {
        static const char *const texts[] = { "Current thread 0x01 (most recent call first):\n" FRAME("a"),
                                             "Current thread 0xff (most recent call first):\n" FRAME("a"),
                                             "Current thread 0x01 (most recent call first):\n" FRAME("b"),
                                             "Fatal Python error: Aborted\nCurrent thread 0x01 (most recent "
                                             "call first):\n" FRAME("a"),
                                             "Fatal Python error: Bus error\nCurrent thread 0x01 (most "
                                             "recent call first):\n" FRAME("a") };
        uint64_t hashes[ELEMENTSOF(texts)];

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                size_t at = 0;

                ASSERT_EQ(next(texts[i], true, &at), 1);
                hashes[i] = t.hash;
        }
        ASSERT_TRUE(hashes[0] == hashes[1]);
        for (size_t i = 1; i < ELEMENTSOF(texts); i++)
                for (size_t k = i + 1; k < ELEMENTSOF(texts); k++)
                        ASSERT_TRUE(hashes[i] != hashes[k]);
}

static void test_long(void) {
        size_t size = 4 * STACK_TEXT_BYTES_MAX, at = 0;
        _cleanup_free_ char *text = malloc(size);
        int n = snprintf(text, size, CURRENT);

        ASSERT_TRUE(text);
        while ((size_t) n + 64 < size)
                n += snprintf(text + n, size - (size_t) n, FRAME("f%d"), n);
        ASSERT_EQ(stack_text_next(text, (size_t) n, true, &at, &t), 1);
        ASSERT_TRUE(t.cut && t.len < sizeof(t.text) && t.text[t.len] == '\0' && t.text[t.len - 1] == '\n');
        ASSERT_TRUE(t.frames > 4000);
        memset(text, 'x', size); /* one line without an end: it is not kept waiting for ever */
        at = 0;
        ASSERT_EQ(stack_text_next(text, size, false, &at, &t), 0);
        ASSERT_EQ(at, size);
}

static void test_seen(void) {
        char path[] = "/tmp/stack-seen-XXXXXX", aside[64];
        static struct stack_seen a, b;
        int fd = mkstemp(path);

        ASSERT_TRUE(fd >= 0);
        for (uint64_t i = 0; i < STACK_SEEN_MAX + 10; i++)
                stack_seen_add(&a, i * 0x9e3779b97f4a7c15);
        ASSERT_FALSE(stack_seen_has(&a, 9 * 0x9e3779b97f4a7c15));
        ASSERT_TRUE(stack_seen_has(&a, 10 * 0x9e3779b97f4a7c15));
        ASSERT_OK(stack_seen_save(path, &a));
        ASSERT_OK(stack_seen_load(path, &b));
        ASSERT_EQ(b.n, STACK_SEEN_MAX);
        for (uint64_t i = 0; i < STACK_SEEN_MAX + 10; i++)
                ASSERT_EQ(stack_seen_has(&b, i * 0x9e3779b97f4a7c15), i >= 10);
        stack_seen_add(&b, 1); /* the oldest goes first after a restart, too */
        ASSERT_FALSE(stack_seen_has(&b, 10 * 0x9e3779b97f4a7c15));
        ASSERT_EQ(write(fd, "another file\n", 13), 13); /* of the file that was replaced: no matter */
        (void) close(fd);
        fd = open(path, O_WRONLY | O_TRUNC);
        ASSERT_EQ(write(fd, "tpu-stack-files 1\n0123456789abcdef\nxyz\n", 39), 39);
        (void) close(fd);
        ASSERT_EQ(stack_seen_load(path, &b), -ENOENT); /* it is set aside */
        ASSERT_EQ(b.n, 0);
        ASSERT_TRUE(access(path, F_OK) < 0);
        (void) snprintf(aside, sizeof(aside), "%s.damaged", path);
        ASSERT_OK(unlink(aside));
}

TEST_MAIN(test_forms, test_nothing_else_is_shown, test_one_after_the_other, test_pieces, test_hash,
          test_long, test_seen)
