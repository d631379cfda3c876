/* SPDX-License-Identifier: Apache-2.0 */
#include "handover.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "durable.h"
#include "job.h"
#include "log.h"
#include "state.h"

static int put(FILE *f, const char *text) {
        return fwrite(text, 1, strlen(text) + 1, f) == strlen(text) + 1 ? 0 : -EIO;
}

static int put_all(FILE *f, const char *directory, char *const *env) {
        int r = put(f, directory);

        for (size_t i = 0; r == 0 && env[i]; i++)
                r = put(f, env[i]);
        return r == 0 && fflush(f) == EOF ? -errno : r;
}

int handover_write(int handover_fd, const char *name, uid_t uid, const char *directory, char *const *env) {
        _cleanup_fclose_ FILE *f = NULL;
        _cleanup_close_ int fd = -1;
        int r;

        handover_remove(handover_fd, name);
        fd = openat(handover_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
        if (fd < 0)
                return -errno;
        f = fdopen(fd, "w");
        if (!f)
                return -errno;
        fd = -1;
        r = put_all(f, directory, env);
        if (r == 0 && fchown(fileno(f), uid, (gid_t) -1) < 0)
                r = -errno;
        if (r < 0)
                handover_remove(handover_fd, name);
        return r;
}

void handover_remove(int handover_fd, const char *name) {
        /* there may be none; what stays is overwritten by the next run of this name */
        (void) unlinkat(handover_fd, name, 0);
}

/* Applies the texts from behind the directory on. putenv() keeps them: buf lives as long as the process. */
static int apply(char *buf, size_t len) {
        for (char *p = buf, *end = buf + len; p < end; p += strlen(p) + 1) {
                int r = strchr(p, '=') ? putenv(p) : unsetenv(p);

                if (r != 0)
                        return -errno;
        }
        return 0;
}

static int enter(const struct host *h, const char *name) {
        _cleanup_close_ int dir = -1;
        char *text, *end;
        size_t len;
        int r;

        dir = host_open_file(h, PATH_LAUNCHD_RUNTIME "/" STATE_HANDOVER, O_PATH | O_DIRECTORY);
        if (dir < 0)
                return log_error_errno(dir, "%s/%s cannot be opened: %m", PATH_LAUNCHD_RUNTIME,
                                       STATE_HANDOVER);
        r = durable_read(dir, name, HANDOVER_SIZE_MAX, &text, &len);
        if (r < 0)
                return log_error_errno(r, "the handover of run %s cannot be read: %m", name);
        if (len == 0 || text[len - 1] != '\0') {
                free(text);
                return log_error_errno(EBADMSG, "the handover of run %s is damaged; start the run anew",
                                       name);
        }
        end = text + strlen(text) + 1;
        if (chdir(text) < 0) {
                r = log_error_errno(errno, "run %s: directory %s: %m", name, text);
                free(text);
                return r;
        }
        return apply(end, len - (size_t) (end - text)); /* text is the environment's now */
}

int handover_main(const struct host *h, const char *name, char *const argv[]) {
        int r;

        if (!job_name_is_valid(name) || !argv[0]) {
                (void) log_error_errno(EINVAL, "--exec '%.64s' needs the name of a run, '--', and a command",
                                       name);
                return HANDOVER_EXIT_NOT_STARTED;
        }
        r = enter(h, name);
        if (r < 0)
                return HANDOVER_EXIT_NOT_STARTED;
        (void) execvp(argv[0], argv);
        r = -errno;
        (void) log_error_errno(r, "run %s: command '%s': %m", name, argv[0]);
        return r == -ENOENT ? HANDOVER_EXIT_NO_COMMAND : HANDOVER_EXIT_NOT_STARTED;
}
