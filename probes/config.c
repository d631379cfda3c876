/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in the files of /etc/tpu-hostd and is not obeyed. Each daemon knows its own keys and values,
 * and says of its files what is wrong (--check-config), as they are now: also before it is restarted.
 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io.h"
#include "processes.h"
#include "words.h"

#define ANSWERS "/systemd/config" /* of a root other than "/": what they would say */
#define ANSWER_MAX 16384
#define REMARKS_MAX 32

static const char *const programs[] = { "tpu-hostd", "tpu-launchd", "tpu-netcfg" };

struct asked {
        pid_t pid; /* 0: it is not installed, or could not be started */
        int fd;
};

struct remarks {
        struct sink *sink;
        const char *seen[REMARKS_MAX]; /* several daemons read the identity's files */
        size_t n;
};

static void start_program(const char *name, struct asked *ret) {
        char path[64], *none[] = { NULL };
        const char *const argv[] = { name, "--check-config", NULL };
        int fds[2];

        *ret = (struct asked){ .fd = -1 };
        (void) snprintf(path, sizeof(path), "/usr/sbin/%s", name);
        if (pipe2(fds, O_CLOEXEC) < 0)
                return;
        if (spawn_program(&(struct spawn_options){ path, argv, none, .out = -1, .error = fds[1] },
                          &ret->pid) < 0)
                ret->pid = 0;
        (void) close_fd(fds[1]);
        if (ret->pid > 0)
                ret->fd = fds[0];
        else
                (void) close_fd(fds[0]);
}

/* Adds what it says to text, and waits for its end. */
static void take_answer(struct asked *a, char *text, size_t size) {
        size_t n = strlen(text);
        ssize_t k = a->fd >= 0 ? io_read_up_to(a->fd, text + n, size - 1 - n) : 0;

        text[n + (size_t) MAX(k, (ssize_t) 0)] = '\0';
        a->fd = close_fd(a->fd);
        if (a->pid > 0)
                (void) waitpid(a->pid, NULL, 0); /* what it said is its answer */
}

static bool is_new(struct remarks *r, const char *text) {
        for (size_t i = 0; i < r->n; i++)
                if (streq(r->seen[i], text))
                        return false;
        if (r->n == REMARKS_MAX)
                return false;
        r->seen[r->n++] = text;
        return true;
}

/* "tpu-hostd: /etc/…/90-x.conf:2: unknown key …". A file that the asker may not read is no fault of it. */
static void judge_line(struct remarks *r, char *line) {
        char *text = strstr(line, ": "), file[160] = "/", name[64], number[12];
        const char *program = line;
        struct finding f;
        unsigned at;

        if (!text || strstr(line, strerror(EACCES)))
                return;
        *text = '\0';
        text += 2;
        (void) make_printable(text);
        if (!is_new(r, text))
                return;
        if (sscanf(text, "/%158[^: ]:%u:", file + 1, &at) == 2) {
                (void) snprintf(number, sizeof(number), "%u", at);
                (void) snprintf(name, sizeof(name), "%.50s:%u", strrchr(file, '/') + 1, at);
                check_begin(&f, WORDS_CONFIG_LINE, name);
                check_say(&f, WORDS_CONFIG_LINE, strstr(text, ": ") + 2, number, file, program);
                finding_set(f.found, "%s:%u", file, at);
        } else {
                check_begin(&f, WORDS_CONFIG_FILE, program);
                check_say(&f, WORDS_CONFIG_FILE, text, program);
                finding_set(f.found, "not read");
        }
        r->sink->finding(r->sink, &f);
}

int probe_config(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct remarks remarks = { .sink = s };
        struct asked asked[ELEMENTSOF(programs)];
        char text[ANSWER_MAX] = "", *line, *rest = text;
        size_t n = 0;
        int r = 0;

        (void) c;
        if (!h->real_root)
                r = host_read(h, ANSWERS, text, sizeof(text), NULL);
        for (size_t i = 0; h->real_root && i < ELEMENTSOF(programs); i++) { /* all at once */
                start_program(programs[i], &asked[i]);
                n += asked[i].pid > 0;
        }
        for (size_t i = 0; h->real_root && i < ELEMENTSOF(programs); i++)
                take_answer(&asked[i], text, sizeof(text));
        if (r < 0)
                probe_tell(s, WORDS_CONFIG_UNASKED, NULL, strerror(-r), "%s", "");
        else if (h->real_root && n == 0)
                return 0; /* tpuctl alone */
        while ((line = strsep(&rest, "\n")))
                judge_line(&remarks, line);
        if (r == 0 && remarks.n == 0)
                probe_tell(s, WORDS_CONFIG, NULL, NULL, "all of it is obeyed");
        return 0;
}
