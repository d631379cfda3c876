/* SPDX-License-Identifier: Apache-2.0 */
#include "task_stacks.h"

#include <linux/capability.h>
#include <unistd.h>

#include "grow.h"
#include "processes.h"
#include "kernel_stacks.lskel.h"

#define ITERATORS_MAX 64u /* opened beforehand */
#define READ_BYTES (64u * 1024)

struct task_stacks {
        struct kernel_stacks *program;
        int iterators[ITERATORS_MAX];
        size_t n;
};

struct task_stacks *task_stacks_close(struct task_stacks *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->n; i++)
                (void) close_fd(s->iterators[i]);
        if (s->program)
                kernel_stacks__destroy(s->program);
        free(s);
        return NULL;
}

static int new_iterator(const struct task_stacks *s) {
        union bpf_attr attr = { .iter_create.link_fd = (unsigned) s->program->links.dump_task_fd };
        int fd = skel_sys_bpf(BPF_ITER_CREATE, &attr, sizeof(attr));

        return fd < 0 ? -errno : fd;
}

static int open_all(size_t processes, struct task_stacks *s) {
        int r;

        s->program = kernel_stacks__open();
        if (!s->program)
                return -ENOMEM;
        r = kernel_stacks__load(s->program);
        if (r < 0)
                return r;
        r = kernel_stacks__attach(s->program);
        while (r >= 0 && s->n < MIN(processes, (size_t) ITERATORS_MAX)) {
                r = new_iterator(s);
                if (r >= 0)
                        s->iterators[s->n++] = r;
        }
        return MIN(r, 0);
}

int task_stacks_open(size_t processes, struct task_stacks **ret, char why[static TASK_STACKS_WHY_MAX]) {
        _cleanup_(task_stacks_closep) struct task_stacks *s = calloc(1, sizeof(*s));
        int r = s ? open_all(processes, s) : -ENOMEM;

        /* They are needed no more, whoever we are; less is always permitted. */
        (void) capabilities_drop((const unsigned[]){ CAP_BPF, CAP_PERFMON }, 2);
        if (r == -EPERM || r == -EACCES)
                (void) snprintf(why, TASK_STACKS_WHY_MAX, "not permitted: it takes CAP_BPF and CAP_PERFMON");
        else if (r < 0)
                (void) snprintf(why, TASK_STACKS_WHY_MAX,
                                "this kernel refused the BPF program (%s): it takes Linux 5.17 with BTF",
                                strerror(-r));
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

static int read_all(int fd, char **ret, size_t *ret_len) {
        _cleanup_free_ char *text = NULL;
        size_t len = 0, size = 0;

        for (;;) {
                ssize_t n;

                if (size - len < READ_BYTES && size >= TASK_STACKS_BYTES_MAX)
                        return -E2BIG;
                if (grow(&text, &size, len + READ_BYTES, 1) < 0)
                        return -ENOMEM;
                n = read(fd, text + len, size - len - 1);
                if (n < 0 && (errno == EAGAIN || errno == EINTR)) /* the kernel took a breath */
                        continue;
                if (n < 0)
                        return -errno;
                len += (size_t) n;
                if (n == 0)
                        break;
        }
        text[len] = '\0';
        *ret = TAKE_PTR(text);
        *ret_len = len;
        return 0;
}

void task_stacks_skip(struct task_stacks *s) {
        if (s->n > 0)
                (void) close_fd(s->iterators[--s->n]);
}

int task_stacks_read(struct task_stacks *s, pid_t pid, struct task_stack_list *ret) {
        _cleanup_close_ int fd = s->n > 0 ? s->iterators[--s->n] : new_iterator(s);
        char *text = NULL;
        size_t len = 0;
        int r;

        if (fd < 0)
                return TAKE_FD(fd);
        s->program->bss->wanted = pid; /* the program looks at it for each task, while we read */
        r = read_all(fd, &text, &len);
        return r < 0 ? r : task_stacks_parse(text, len, ret);
}
