/* SPDX-License-Identifier: Apache-2.0 */
/* What the iterator over tasks writes, read again: whole, cut anywhere, and nonsense. */
#include "task_stacks.h"
#include "test.h"

static const char text[] = "t 12 1\n"
                           "r 7ffd0f0664d8 7efd12ab9503 64 1 2 3 4 ffffffffffffffff\n"
                           "s ffffffffffffffda 5 6 7 8 9 a b 202\n"
                           "k pipe_read+0x366/0x410\n"
                           "k ksys_read+0x1/0x2 [module]\n"
                           "t 7 2\n"
                           "k vfork+0x1/0x2\n"
                           "t 9 2001\n";

static int parse(const char *s, size_t len, struct task_stack_list *ret) {
        char *copy = malloc(len + 1);

        ASSERT_TRUE(copy != NULL);
        memcpy(copy, s, len);
        copy[len] = '\0';
        return task_stacks_parse(copy, len, ret);
}

static void test_whole(void) {
        _cleanup_(task_stack_list_clear) struct task_stack_list l = { 0 };
        const struct task_stack *t;

        ASSERT_OK(parse(text, strlen(text), &l));
        ASSERT_EQ(l.n, 3);
        t = task_stack_find(&l, 12);
        ASSERT_TRUE(t && t->has_registers);
        ASSERT_STREQ(t->kernel, "pipe_read+0x366/0x410\nksys_read+0x1/0x2 [module]\n");
        ASSERT_TRUE(t->registers.rsp == 0x7ffd0f0664d8 && t->registers.rip == 0x7efd12ab9503);
        ASSERT_TRUE(t->registers.rbx == 0x64 && t->registers.r15 == UINT64_MAX && t->registers.r11 == 0x202);
        t = task_stack_find(&l, 7);
        ASSERT_TRUE(t && !t->has_registers);
        ASSERT_STREQ(t->kernel, "vfork+0x1/0x2\n");
        ASSERT_STREQ(task_stack_find(&l, 9)->kernel, "");
        ASSERT_TRUE(task_stack_find(&l, 8) == NULL);
}

static void test_damaged(void) {
        static const char *const bad[] = { "x", "t", "t x\n", "t -1 1\n", "t 99999999999 1\n", "k a+0x1\n",
                                           "t 1 1\nr 1 2\n",
                                           "t 1 1\nx\n", "t 1 1\nr\n", "\n" };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct task_stack_list l = { 0 };

                ASSERT_EQ(parse(bad[i], strlen(bad[i]), &l), -EBADMSG);
                ASSERT_TRUE(l.items == NULL);
        }
        for (size_t cut = 0; cut < strlen(text); cut++) { /* what is left never ends beyond its end */
                _cleanup_(task_stack_list_clear) struct task_stack_list l = { 0 };

                if (parse(text, cut, &l) == 0)
                        for (size_t i = 0; i < l.n; i++)
                                ASSERT_TRUE(strlen(l.items[i].kernel) <= cut);
        }
}

TEST_MAIN(test_whole, test_damaged)
