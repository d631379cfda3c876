/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <fcntl.h>

#include "syscall_name.h"
#include "text.h"

int process_read(const struct process *p, const char *name, char *buf, size_t size, size_t *ret_len) {
        _cleanup_close_ int fd = openat(p->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
        size_t n = 0;

        if (fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        while (n < size - 1) {
                ssize_t k = read(fd, buf + n, size - 1 - n);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                if (k == 0)
                        break;
                n += (size_t) k;
                if (size <= 4096)
                        break; /* small files of /proc come in one piece: save the read that says "end" */
        }
        buf[n] = '\0';
        if (ret_len)
                *ret_len = n;
        return 0;
}

/* Whether NSpid has more than one number: "NSpid:\t4711\t12". The last one is stored in *ret. */
static bool nested_pid(const char *status, pid_t *ret) {
        const char *p = strstr(status, "\nNSpid:");
        unsigned n = 0;

        if (!p)
                return false;
        for (p += 7; *p == '\t'; n++) {
                char *end;

                *ret = (pid_t) strtol(p + 1, &end, 10);
                p = end;
        }
        return n > 1;
}

int process_open(const struct host *h, pid_t pid, struct process *ret) {
        _cleanup_process_ struct process p = PROCESS_NULL;
        char path[32], status[4096];
        pid_t own;
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d", (int) pid);
        p.pid = pid;
        p.dir_fd = host_open_file(h, path, O_RDONLY | O_DIRECTORY);
        if (p.dir_fd < 0)
                return p.dir_fd == -ENOENT ? -ESRCH : p.dir_fd;
        r = process_read(&p, "status", status, sizeof(status), NULL);
        if (r < 0)
                return r;
        p.nested = nested_pid(status, &own);
        *ret = p;
        p.dir_fd = -1;
        return 0;
}

void process_close(struct process *p) {
        p->dir_fd = close_fd(p->dir_fd);
}

/* "7 (a) b) S 1 …": the name may hold anything but is followed by the last ')'. */
static char parse_stat(char *stat, const char **ret_name) {
        char *open = strchr(stat, '('), *close = strrchr(stat, ')');

        if (!open || !close || close < open || close[1] != ' ' || close[2] == '\0')
                return '?';
        *close = '\0';
        *ret_name = open + 1;
        return close[2];
}

char process_state(const struct process *p) {
        char stat[1024];
        const char *name;

        if (process_read(p, "stat", stat, sizeof(stat), NULL) < 0)
                return '\0';
        return parse_stat(stat, &name);
}

static void read_command(const struct process *p, char buf[static PROCESS_COMMAND_MAX]) {
        char line[4096];
        const char *name, *what = "";
        size_t len, at;

        if (process_read(p, "cmdline", line, sizeof(line), &len) < 0 || len == 0) {
                char stat[1024];

                name = "?";
                if (process_read(p, "stat", stat, sizeof(stat), NULL) >= 0)
                        (void) parse_stat(stat, &name);
                (void) snprintf(buf, PROCESS_COMMAND_MAX, "%s", name);
                return;
        }
        name = strrchr(line, '/');
        name = name ? name + 1 : line;
        for (at = strlen(line) + 1; at < len; at += strlen(line + at) + 1) {
                what = line + at;
                if (streq(what, "-m") && at + 3 < len) {
                        (void) snprintf(buf, PROCESS_COMMAND_MAX, "%.200s -m %.300s", name, line + at + 3);
                        return;
                }
                if (*what != '-' || streq(what, "-c"))
                        break;
                if (streq(what, "-X") || streq(what, "-W"))
                        at += strlen(what) + 1; /* its value is the next word */
                what = "";
        }
        (void) snprintf(buf, PROCESS_COMMAND_MAX, "%.200s%s%.300s", name, *what ? " " : "", what);
}

void process_command(const struct process *p, char buf[static PROCESS_COMMAND_MAX]) {
        read_command(p, buf);
        text_clean(buf);
}

/* "0 0x3 0x7f… …": the number first; "running"; "-1 …": it waits in no system call (a page fault). */
static void take_call(const char *text, struct task *t) {
        char buf[SYSCALL_NAME_MAX];

        if (text[0] >= '0' && text[0] <= '9')
                (void) snprintf(t->call, sizeof(t->call), "%s", syscall_name(strtol(text, NULL, 10), buf));
}

static void task_read(const struct process *p, struct task *t) {
        char path[64], text[4096];
        const char *name;

        t->own = t->tid;
        t->state = '?';
        (void) snprintf(path, sizeof(path), "task/%d/stat", (int) t->tid);
        if (process_read(p, path, text, sizeof(text), NULL) >= 0) {
                t->state = parse_stat(text, &name);
                if (t->state != '?')
                        (void) snprintf(t->name, sizeof(t->name), "%.63s", name);
                text_clean(t->name);
        }
        (void) snprintf(path, sizeof(path), "task/%d/wchan", (int) t->tid);
        if (t->state != 'R' && process_read(p, path, text, sizeof(text), NULL) >= 0 && !streq(text, "0"))
                (void) snprintf(t->wait, sizeof(t->wait), "%.63s", text);
        text_clean(t->wait);
        (void) snprintf(path, sizeof(path), "task/%d/syscall", (int) t->tid);
        if (t->state != 'R' && process_read(p, path, text, sizeof(text), NULL) >= 0)
                take_call(text, t);
        (void) snprintf(path, sizeof(path), "task/%d/status", (int) t->tid);
        if (p->nested && process_read(p, path, text, sizeof(text), NULL) >= 0)
                (void) nested_pid(text, &t->own);
}

static int task_compare(const void *a, const void *b) {
        const struct task *x = a, *y = b;

        return x->own < y->own ? -1 : x->own > y->own;
}

void task_list_clear(struct task_list *l) {
        free(l->items);
        *l = (struct task_list) { 0 };
}

static int open_tasks(const struct process *p, DIR **ret) {
        _cleanup_close_ int fd = openat(p->dir_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d;

        if (fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        d = fdopendir(fd);
        if (!d)
                return -errno;
        fd = -1;
        *ret = d;
        return 0;
}

int process_tasks(const struct process *p, struct task_list *ret) {
        _cleanup_tasks_ struct task_list l = { 0 };
        _cleanup_closedir_ DIR *d = NULL;
        size_t size = 0;
        int r = open_tasks(p, &d);

        if (r < 0)
                return r;
        for (const struct dirent *e; (e = readdir(d));) {
                if (e->d_name[0] < '0' || e->d_name[0] > '9')
                        continue;
                if (l.n == TASKS_MAX)
                        return -E2BIG;
                if (l.n == size) {
                        struct task *more = realloc(l.items, (size = size ? size * 2 : 64) * sizeof(*more));

                        if (!more)
                                return -ENOMEM;
                        l.items = more;
                }
                l.items[l.n] = (struct task) { .tid = (pid_t) strtol(e->d_name, NULL, 10) };
                task_read(p, &l.items[l.n++]);
        }
        if (l.n > 0)
                qsort(l.items, l.n, sizeof(*l.items), task_compare);
        *ret = l;
        l = (struct task_list) { 0 };
        return 0;
}

int process_children(const struct process *p, int (*visit)(pid_t pid, void *userdata), void *userdata) {
        _cleanup_closedir_ DIR *d = NULL;
        int r = open_tasks(p, &d);

        if (r < 0)
                return r;
        for (const struct dirent *e; (e = readdir(d));) {
                char path[300], text[65536], *end;

                (void) snprintf(path, sizeof(path), "task/%s/children", e->d_name);
                if (e->d_name[0] == '.' || process_read(p, path, text, sizeof(text), NULL) < 0)
                        continue;
                for (char *at = text;; at = end) {
                        long pid = strtol(at, &end, 10);

                        if (end == at)
                                break;
                        r = visit((pid_t) pid, userdata);
                        if (r != 0)
                                return r;
                }
        }
        return 0;
}
