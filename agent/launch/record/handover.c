/* SPDX-License-Identifier: Apache-2.0 */
#include "handover.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "io.h"
#include "kept_run.h"
#include "log.h"
#include "secret.h"

#define MODE_KEPT 0400
#define MODE_FAILED 0600 /* handover_failed() */
#define WORDS_MAX (RUN_ARGV_MAX + 512) /* with an engine's options in front: engine.h */

static int put_text(FILE *f, const char *text) {
        return fwrite(text, 1, strlen(text) + 1, f) == strlen(text) + 1 ? 0 : -EIO;
}

static int put_all(FILE *f, const char *directory, char *const *argv, char *const *env) {
        char count[24];
        size_t n = 0;
        int r;

        while (argv[n])
                n++;
        (void) snprintf(count, sizeof(count), "%zu", n);
        r = put_text(f, directory);
        if (r == 0)
                r = put_text(f, count);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = put_text(f, argv[i]);
        for (size_t i = 0; r == 0 && env[i]; i++)
                r = put_text(f, env[i]);
        return r == 0 && fflush(f) == EOF ? -errno : r;
}

int handover_write(int handover_fd, const char *name, uid_t uid, const char *directory, char *const *argv,
                   char *const *env) {
        _cleanup_fclose_ FILE *f = NULL;
        _cleanup_close_ int fd = -1;
        int r;

        assert(argv[0]); /* a run has a command */
        handover_remove(handover_fd, name);
        fd = openat(handover_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE_KEPT);
        if (fd < 0)
                return -errno;
        f = fdopen(fd, "w");
        if (!f)
                return -errno;
        fd = -1;
        r = put_all(f, directory, argv, env);
        if (r == 0 && fchown(fileno(f), uid, (gid_t) -1) < 0)
                r = -errno;
        if (r < 0)
                handover_remove(handover_fd, name);
        return r;
}

const char *handover_variables(const char *name, char buf[static 128]) {
        (void) snprintf(buf, 128, STATE_HANDOVER "/%.41s" HANDOVER_VARIABLES, name);
        return buf;
}

static int put_lines(FILE *f, char *const *env) {
        for (size_t i = 0; env[i]; i++) {
                if (!strchr(env[i], '='))
                        continue;
                if (strpbrk(env[i], "\r\n"))
                        return -EINVAL;
                if (fprintf(f, "%s\n", env[i]) < 0)
                        return -EIO;
        }
        return fflush(f) == EOF ? -errno : 0;
}

int handover_write_variables(int handover_fd, const char *name, char *const *env) {
        char file[RUN_NAME_MAX + sizeof(HANDOVER_VARIABLES)];
        _cleanup_fclose_ FILE *f = NULL;
        int fd, r;

        (void) snprintf(file, sizeof(file), "%.41s" HANDOVER_VARIABLES, name);
        handover_remove(handover_fd, file);
        fd = openat(handover_fd, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE_KEPT);
        if (fd < 0)
                return -errno;
        f = fdopen(fd, "w");
        if (!f) {
                (void) close_fd(fd);
                return -ENOMEM;
        }
        r = put_lines(f, env);
        if (r < 0)
                handover_remove(handover_fd, file);
        return r;
}

void handover_remove(int handover_fd, const char *name) {
        /* there may be none; what stays is overwritten by the next run of this name */
        (void) unlinkat(handover_fd, name, 0);
}

/* It is the run's own file; a failure leaves what a shell would say, the exit code alone. */
static void set_mode(const struct host *h, const char *name, mode_t mode) {
        _cleanup_close_ int dir = host_open_file(h, STATE_HANDOVER, O_PATH | O_DIRECTORY);

        if (dir >= 0 && fchmodat(dir, name, mode, 0) < 0 && mode != MODE_KEPT)
                (void) log_warning_errno(errno, "run %s: its handover cannot be marked: %m", name);
}

bool handover_failed(const struct host *h, const char *name) {
        _cleanup_close_ int dir = host_open_file(h, STATE_HANDOVER, O_PATH | O_DIRECTORY);
        struct stat st;

        return dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_mode & S_IWUSR;
}

/* What is left of a handover in memory. */
struct texts {
        char *at, *end;
};

/* NULL at the end. */
static char *next_text(struct texts *t) {
        char *text = t->at;

        if (text == t->end)
                return NULL;
        t->at += strlen(text) + 1;
        return text;
}

static int load_handover(const struct host *h, const char *name, char **ret, size_t *ret_len) {
        _cleanup_close_ int dir = -1;

        dir = host_open_file(h, STATE_HANDOVER, O_PATH | O_DIRECTORY);
        return dir < 0 ? dir : durable_read(dir, name, HANDOVER_SIZE_MAX, ret, ret_len);
}

static int take_argv(struct texts *t, char **argv) {
        const char *count = next_text(t);
        size_t n = count ? strtoul(count, NULL, 10) : 0;

        if (n == 0 || n > WORDS_MAX)
                return -EBADMSG;
        for (size_t i = 0; i < n; i++) {
                argv[i] = next_text(t);
                if (!argv[i])
                        return -EBADMSG;
        }
        argv[n] = NULL;
        return 0;
}

static int take_environment(struct texts *t) {
        char *text;

        while ((text = next_text(t))) {
                int r = strchr(text, '=') ? putenv(text) : unsetenv(text);

                if (r != 0)
                        return -errno;
        }
        return 0;
}

static int enter(const struct host *h, const char *name, char **argv) {
        _cleanup_free_ char *buf = NULL;
        const char *directory;
        struct texts t;
        size_t len;
        int r;

        r = load_handover(h, name, &buf, &len);
        if (r < 0)
                return log_error_errno(r, "the handover of run %s cannot be read: %m", name);
        t = (struct texts){ .at = buf, .end = buf + len };
        directory = len > 0 && buf[len - 1] == '\0' ? next_text(&t) : NULL;
        if (!directory || take_argv(&t, argv) < 0)
                return log_error_errno(EBADMSG, "the handover of run %s is damaged; start the run again",
                                       name);
        if (chdir(directory) < 0)
                return log_error_errno(errno, "run %s: directory %s: %m", name, directory);
        r = secrets_enter();
        if (r < 0)
                return log_error_errno(r, "run %s: its secret variables cannot be read: %m", name);
        r = take_environment(&t);
        if (r < 0)
                return log_error_errno(r, "run %s: its environment cannot be set: %m", name);
        (void) TAKE_PTR(buf); /* argv and the environment point into it */
        return 0;
}

static bool is_handover(const char *name) {
        size_t n = strcspn(name, ".");
        char run[RUN_NAME_MAX + 1];

        if (n > RUN_NAME_MAX || (name[n] && !streq(name + n, HANDOVER_PREEMPT)))
                return false;
        memcpy(run, name, n);
        run[n] = '\0';
        return run_name_is_valid(run);
}

int handover_main(const struct host *h, const char *name) {
        char *argv[WORDS_MAX + 1];
        int r;

        if (!is_handover(name)) {
                (void) log_error_errno(EINVAL, "--exec '%.64s' is not the name of a run", name);
                return HANDOVER_EXIT_NOT_STARTED;
        }
        set_mode(h, name, MODE_KEPT); /* of a start before */
        r = enter(h, name, argv);
        if (r < 0) {
                set_mode(h, name, MODE_FAILED);
                return HANDOVER_EXIT_NOT_STARTED;
        }
        (void) execvp(argv[0], argv);
        r = -errno;
        set_mode(h, name, MODE_FAILED);
        (void) log_error_errno(r, "run %s: command '%s': %m", name, argv[0]);
        return r == -ENOENT ? HANDOVER_EXIT_NO_COMMAND : HANDOVER_EXIT_NOT_STARTED;
}
