/* SPDX-License-Identifier: Apache-2.0 */
/* In a build without BPF. */
#include "task_stacks.h"
#include "texts.h"

int task_stacks_open(size_t processes, struct task_stacks **ret, char why[static TASK_STACKS_WHY_MAX]) {
        (void) processes, (void) ret;
        return text_fail(why, TASK_STACKS_WHY_MAX, -EOPNOTSUPP, "this program was built without BPF");
}

struct task_stacks *task_stacks_close(struct task_stacks *s) {
        (void) s;
        return NULL;
}

int task_stacks_read(struct task_stacks *s, pid_t pid, struct task_stack_list *ret) {
        (void) s, (void) pid, (void) ret;
        return -EOPNOTSUPP;
}

void task_stacks_skip(struct task_stacks *s) {
        (void) s;
}
