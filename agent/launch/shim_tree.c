/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/file.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "durable.h"
#include "shim.h"

#define FILE_MAX_SIZE 128
#define PROCESSES_MAX 32768

/* --- The file ------------------------------------------------------------------------------------------ */

int shim_file_read(int shims_fd, const char *name, struct shim_file *ret) {
        struct shim_file f = { .alive = true };
        char text[FILE_MAX_SIZE] = "";
        _cleanup_close_ int fd = -1;
        int shim, command;
        ssize_t n;

        fd = openat(shims_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;
        n = read(fd, text, sizeof(text) - 1);
        if (n <= 0 || sscanf(text, "%d %d %32[0-9a-f]", &shim, &command, f.id) != 3 || shim <= 1 ||
            command <= 1)
                return -EBADMSG;
        f.shim = shim;
        f.command = command;
        f.alive = flock(fd, LOCK_SH | LOCK_NB) < 0; /* let go of with fd */
        *ret = f;
        return 0;
}

/* --- Who descends from whom ---------------------------------------------------------------------------- */

struct process {
        pid_t pid, parent;
        bool ours;
};

struct look {
        const struct host *host;
        struct process *list;
        size_t n;
};

static int add_process(const char *name, void *userdata) {
        char path[64], text[1024];
        struct look *l = userdata;
        const char *at;
        int parent;

        if (name[0] < '1' || name[0] > '9' || l->n == PROCESSES_MAX)
                return 0;
        (void) snprintf(path, sizeof(path), "/proc/%.16s/stat", name);
        if (host_read(l->host, path, text, sizeof(text), NULL) < 0)
                return 0; /* it ended meanwhile */
        at = strrchr(text, ')'); /* the command's name may hold anything */
        if (at && sscanf(at, ") %*c %d", &parent) == 1)
                l->list[l->n++] = (struct process){ .pid = atoi(name), .parent = parent };
        return 0;
}

static bool is_ours(const struct look *l, pid_t parent, pid_t root) {
        if (parent == root)
                return true;
        for (size_t i = 0; i < l->n; i++)
                if (l->list[i].pid == parent)
                        return l->list[i].ours;
        return false;
}

size_t shim_descendants(const struct host *h, pid_t pid, pid_t *ret, size_t max) {
        struct look l = { .host = h, .list = calloc(PROCESSES_MAX, sizeof(*l.list)) };
        bool more = true;
        size_t n = 0;

        if (!l.list)
                return 0;
        (void) host_list(h, "/proc", add_process, &l);
        while (more) { /* a parent may have the higher number */
                more = false;
                for (size_t i = 0; i < l.n; i++)
                        if (!l.list[i].ours && is_ours(&l, l.list[i].parent, pid)) {
                                l.list[i].ours = more = true;
                                if (n < max)
                                        ret[n++] = l.list[i].pid;
                        }
        }
        free(l.list);
        return n;
}

/* --- The record ---------------------------------------------------------------------------------------- */

/* Without "SIG", as systemd writes them; sigabbrev_np() is not in glibc 2.31. */
static const char *signal_word(int number, char buf[static 16]) {
        static const char *const names[] = {
                [SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
                [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT", [SIGBUS] = "BUS",   [SIGFPE] = "FPE",
                [SIGKILL] = "KILL", [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
                [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM", [SIGSYS] = "SYS",
                [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ",
        };

        if (number > 0 && (size_t) number < ELEMENTSOF(names) && names[number])
                return names[number];
        (void) snprintf(buf, 16, "%d", number);
        return buf;
}

void shim_record(int status, bool stopped, struct exit_record *ret) {
        int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        const char *result, *code;
        char buf[16];

        if (WIFEXITED(status)) {
                code = "exited";
                result = WEXITSTATUS(status) == 0 ? "success" : "exit-code";
                (void) snprintf(ret->status, sizeof(ret->status), "%d", WEXITSTATUS(status));
        } else {
                code = WCOREDUMP(status) ? "dumped" : "killed";
                if (number == SIGHUP || number == SIGINT || number == SIGTERM || number == SIGPIPE)
                        result = "success";
                else if (stopped && number == SIGKILL)
                        result = "timeout";
                else
                        result = WCOREDUMP(status) ? "core-dump" : "signal";
                (void) snprintf(ret->status, sizeof(ret->status), "%s", signal_word(number, buf));
        }
        (void) snprintf(ret->code, sizeof(ret->code), "%s", code);
        (void) snprintf(ret->result, sizeof(ret->result), "%s", result);
}
