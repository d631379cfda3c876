/* SPDX-License-Identifier: Apache-2.0 */
#include "state_file.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>

#include "crc32c.h"
#include "log.h"
#include "texts.h"

#define MAGIC "tpu-state "
#define WHAT_MAX 24

size_t state_file_head(const struct state_format *f, const void *content, size_t len,
                       char buf[static STATE_FILE_HEAD_MAX]) {
        int n = snprintf(buf, STATE_FILE_HEAD_MAX, MAGIC "%s %u %08" PRIx32 "\n", f->what, f->version,
                         crc32c(0, content, len));

        assert(n > 0 && n < STATE_FILE_HEAD_MAX && strlen(f->what) <= WHAT_MAX);
        return (size_t) n;
}

/* The version that a head names, which may be that of another program; 0: it is no head of such a file. */
static unsigned version_of(const struct state_format *f, const char *head) {
        char prefix[STATE_FILE_HEAD_MAX];
        unsigned version = 0;
        int n = snprintf(prefix, sizeof(prefix), MAGIC "%s ", f->what);

        return startswith(head, prefix) && sscanf(head + n, "%9u ", &version) == 1 ? version : 0;
}

int state_file_parse(const struct state_format *f, const char *bytes, size_t len, size_t *ret_content,
                     char why[static STATE_FILE_WHY_MAX]) {
        const char *newline = memchr(bytes, '\n', MIN(len, (size_t) STATE_FILE_HEAD_MAX - 1));
        char head[STATE_FILE_HEAD_MAX] = "", wanted[STATE_FILE_HEAD_MAX];
        size_t n = newline ? (size_t) (newline - bytes) + 1 : 0;
        unsigned version;

        memcpy(head, bytes, n);
        version = version_of(f, head);
        if (version == 0)
                return text_fail(why, STATE_FILE_WHY_MAX, -EBADMSG,
                                 "its first line is not that of a file of %s", f->what);
        if (version != f->version)
                return text_fail(why, STATE_FILE_WHY_MAX, -EPROTONOSUPPORT,
                                 "it is of version %u, and this program's is %u", version, f->version);
        (void) state_file_head(f, bytes + n, len - n, wanted);
        if (!streq(head, wanted))
                return text_fail(why, STATE_FILE_WHY_MAX, -EBADMSG,
                                 "its checksum differs: it is not what was written");
        *ret_content = n;
        return 0;
}

/* The directory of a path, to be closed, and the name in it. */
static int open_directory(int dir_fd, const char *path, const char **ret_name) {
        const char *slash = strrchr(path, '/');
        char directory[PATH_MAX];
        int fd;

        if (strlen(path) >= sizeof(directory))
                return -ENAMETOOLONG;
        (void) snprintf(directory, sizeof(directory), "%.*s",
                        slash ? (int) MAX(slash - path, (ptrdiff_t) 1) : 1, slash ? path : ".");
        fd = openat(dir_fd, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *ret_name = slash ? slash + 1 : path;
        return fd < 0 ? -errno : fd;
}

int state_file_write(int dir_fd, const char *path, const struct state_format *f, const void *content,
                     size_t len) {
        char head[STATE_FILE_HEAD_MAX];
        const struct iovec parts[] = {
                { .iov_base = head, .iov_len = state_file_head(f, content, len, head) },
                { .iov_base = (void *) (uintptr_t) content, .iov_len = len },
        };
        const char *name;
        _cleanup_close_ int fd = open_directory(dir_fd, path, &name);

        if (fd < 0)
                return fd;
        return len > f->max ? -E2BIG : durable_write_parts(fd, name, parts, ELEMENTSOF(parts), &f->options);
}

int state_file_read(int dir_fd, const char *path, const struct state_format *f, char **ret, size_t *ret_len,
                    char why[static STATE_FILE_WHY_MAX]) {
        _cleanup_free_ char *bytes = NULL;
        size_t len, at;
        int r = durable_read(dir_fd, path, STATE_FILE_HEAD_MAX + f->max, &bytes, &len);

        if (r < 0) {
                (void) snprintf(why, STATE_FILE_WHY_MAX, "%s", strerror(-r));
                return r == -E2BIG ? -EBADMSG : r;
        }
        r = state_file_parse(f, bytes, len, &at, why);
        if (r < 0)
                return r;
        memmove(bytes, bytes + at, len - at + 1); /* with the NUL */
        *ret = TAKE_PTR(bytes);
        *ret_len = len - at;
        return 0;
}

const char *state_file_set_aside(int dir_fd, const char *path, int error,
                                 char buf[static STATE_FILE_ASIDE_MAX]) {
        const char *slash = strrchr(path, '/');
        char aside[PATH_MAX];
        int n = snprintf(aside, sizeof(aside), "%s%s", path,
                         error == -EPROTONOSUPPORT ? ".other-version" : ".damaged");

        if (n < 0 || (size_t) n >= sizeof(aside) || renameat(dir_fd, path, dir_fd, aside) < 0)
                (void) snprintf(buf, STATE_FILE_ASIDE_MAX, "nothing: %s", strerror(errno));
        else
                (void) snprintf(buf, STATE_FILE_ASIDE_MAX, "%.300s",
                                slash ? aside + (slash - path) + 1 : aside);
        return buf;
}

static int refuse_state(int dir_fd, const char *path, int error, const char *why) {
        char aside[STATE_FILE_ASIDE_MAX];

        log_warning("%s cannot be used: %s; kept as %s", path, why,
                    state_file_set_aside(dir_fd, path, error, aside));
        return -ENOENT;
}

int state_file_load(int dir_fd, const char *path, const struct state_format *f, char **ret,
                    size_t *ret_len) {
        char why[STATE_FILE_WHY_MAX];
        int r = state_file_read(dir_fd, path, f, ret, ret_len, why);

        return r == -EBADMSG || r == -EPROTONOSUPPORT ? refuse_state(dir_fd, path, r, why) : r;
}

int state_file_write_json(int dir_fd, const char *path, const struct state_format *f, json_t *o) {
        _cleanup_free_ char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

        json_decref(o);
        return text ? state_file_write(dir_fd, path, f, text, strlen(text)) : -ENOMEM;
}

int state_file_load_json(int dir_fd, const char *path, const struct state_format *f, json_t **ret) {
        _cleanup_free_ char *text = NULL;
        json_error_t error;
        size_t len = 0;
        json_t *o;
        int r = state_file_load(dir_fd, path, f, &text, &len);

        if (r < 0)
                return r;
        o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
        if (!o)
                return refuse_state(dir_fd, path, -EBADMSG, error.text);
        *ret = o;
        return 0;
}
