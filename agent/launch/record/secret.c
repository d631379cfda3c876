/* SPDX-License-Identifier: Apache-2.0 */
#include "secret.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "io.h"
#include "environment.h"
#include "texts.h"

char **secrets_free(char **l) {
        for (size_t i = 0; l && l[i]; i++) {
                explicit_bzero(l[i], strlen(l[i]));
                free(l[i]);
        }
        free(l);
        return NULL;
}

static bool is_variable(const char *name) {
        size_t n = strlen(name);

        return n > 0 && n < 256 && (name[0] < '0' || name[0] > '9') &&
               strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static bool is_given(const Local__RunRequest *q, const char *name) {
        size_t n = strlen(name);

        for (size_t i = 0; q->spec && i < q->spec->n_env; i++)
                if (strncmp(q->spec->env[i], name, n) == 0 && q->spec->env[i][n] == '=')
                        return true;
        return false;
}

static int take_secret(const Local__RunRequest *q, const Local__Secret *s, char **ret, struct problem *p) {
        /* ld.so reads these before main(): a run's own, but not by this path */
        if (!is_variable(s->name) || startswith(s->name, "LD_"))
                return problem_set(p, -EINVAL, "letters, digits and '_', and not LD_…",
                                   "'%.64s' cannot be the name of a secret variable", s->name);
        if (is_given(q, s->name))
                return problem_set(p, -EINVAL, "leave one of them out",
                                   "variable %.64s is given twice, once as a secret", s->name);
        if (!environment_text_is_valid(s->value))
                return problem_set(p, -EINVAL, "UTF-8 text only",
                                   "the secret %.64s holds bytes that are no text", s->name);
        if (asprintf(ret, "%s=%s", s->name, s->value) < 0) {
                *ret = NULL;
                return problem_set(p, -ENOMEM, "try again", "out of memory");
        }
        return 0;
}

int secrets_from_request(const Local__RunRequest *q, char ***ret, struct problem *p) {
        size_t bytes = 0;
        char **l;
        int r = 0;

        if (q->n_secret == 0) {
                *ret = NULL;
                return 0;
        }
        if (q->n_secret > SECRETS_MAX)
                return problem_set(p, -E2BIG, "put them into a file", "more than %d secrets", SECRETS_MAX);
        l = calloc(q->n_secret + 1, sizeof(*l));
        if (!l)
                return problem_set(p, -ENOMEM, "try again", "out of memory");
        for (size_t i = 0; i < q->n_secret && r == 0; i++) {
                r = take_secret(q, q->secret[i], &l[i], p);
                bytes += r == 0 ? strlen(l[i]) + 1 : 0;
        }
        if (r == 0 && bytes > SECRETS_SIZE_MAX)
                r = problem_set(p, -E2BIG, "put them into a file",
                                "the secrets are longer than %d bytes together", SECRETS_SIZE_MAX);
        if (r < 0) {
                (void) secrets_free(l);
                return r;
        }
        *ret = l;
        return 0;
}

int secrets_write(int secrets_fd, const char *name, char *const *secrets) {
        _cleanup_close_ int fd = -1;

        secrets_remove(secrets_fd, name);
        fd = openat(secrets_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
        if (fd < 0)
                return -errno;
        for (size_t i = 0; secrets[i]; i++) {
                ssize_t n = write(fd, secrets[i], strlen(secrets[i]) + 1);

                if (n < 0 || (size_t) n != strlen(secrets[i]) + 1) {
                        int r = n < 0 ? -errno : -ENOSPC;

                        secrets_remove(secrets_fd, name);
                        return r;
                }
        }
        return 0;
}

bool secrets_exist(int secrets_fd, const char *name) {
        return faccessat(secrets_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void secrets_remove(int secrets_fd, const char *name) {
        /* there may be none; what stays is gone with the boot */
        (void) unlinkat(secrets_fd, name, 0);
}

size_t secrets_shown(const char *argument, bool *ret_follows) {
        size_t dashes = strspn(argument, "-"), len = strcspn(argument + dashes, "=");
        bool is_value = *ret_follows && dashes == 0, names = name_is_secret(argument + dashes, len);
        bool has_value = argument[dashes + len] == '=';

        *ret_follows = !is_value && names && dashes > 0 && !has_value;
        if (is_value)
                return 0;
        return names && has_value ? dashes + len + 1 : strlen(argument);
}

int secrets_enter(void) {
        const char *directory = getenv("CREDENTIALS_DIRECTORY");
        _cleanup_close_ int dir = -1;
        _cleanup_free_ char *buf = NULL;
        size_t len;
        int r;

        if (!directory)
                return 0;
        dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return -errno;
        r = durable_read(dir, SECRETS_CREDENTIAL, SECRETS_SIZE_MAX, &buf, &len);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (size_t at = 0; at < len; at += strlen(buf + at) + 1)
                if (!strchr(buf + at, '=') || putenv(buf + at) != 0)
                        return -EBADMSG;
        (void) TAKE_PTR(buf); /* the environment points into it */
        return 0;
}
