/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "json_fields.h"
#include "state_file.h"

#define DEPTH_MAX 8 /* of directories in one another: a spool has two */

/* --- Whose it is --------------------------------------------------------------------------------------- */

static bool both_known(const char *a, const char *b) {
        return *a && *b;
}

enum machine_whose machine_state_judge(const struct machine_ids *of, const struct machine_ids *now,
                                       bool certain) {
        bool other_id = both_known(of->machine, now->machine) && !streq(of->machine, now->machine);

        if (both_known(of->boot, now->boot) && streq(of->boot, now->boot))
                return MACHINE_OURS;
        if (both_known(of->instance, now->instance))
                return streq(of->instance, now->instance) ? MACHINE_OURS : MACHINE_OTHERS;
        if (!certain && (of->instance[0] || other_id))
                return MACHINE_OPEN;
        return other_id ? MACHINE_OTHERS : MACHINE_OURS;
}

/* --- The file ------------------------------------------------------------------------------------------ */

static const struct state_format format = {
        .what = "machine", .version = 1, .max = MACHINE_STATE_MAX, .options = { .mode = 0600 }
};

static const struct json_field fields[] = {
        JSON_FIELD(struct machine_state, WORD, "machine_id", of.machine),
        JSON_FIELD(struct machine_state, WORD, "instance_id", of.instance),
        JSON_FIELD(struct machine_state, WORD, "boot_id", of.boot),
        JSON_FIELD(struct machine_state, TEXT, "host", of.host),
        JSON_FIELD(struct machine_state, WORD, "found_boot_id", found_boot),
        JSON_FIELD(struct machine_state, WORD, "found_instance_id", found_instance),
};

static int take_json(const json_t *o, struct machine_state *ret) {
        struct machine_state s = { 0 };
        int r = json_fields_take(o, fields, ELEMENTSOF(fields), &s);

        if (r == 0)
                *ret = s;
        return r;
}

int machine_state_parse(const char *text, size_t len, struct machine_state *ret) {
        json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        int r = o ? take_json(o, ret) : -EBADMSG;

        json_decref(o);
        return r;
}

int machine_state_read(const char *path, struct machine_state *ret) {
        json_t *o = NULL;
        int r = state_file_load_json(AT_FDCWD, path, &format, &o);

        if (r == 0)
                r = take_json(o, ret);
        json_decref(o);
        return r == -EBADMSG ? -ENOENT : r;
}

int machine_state_write(const char *path, const struct machine_state *s) {
        return state_file_write_json(AT_FDCWD, path, &format,
                                     json_fields_pack(fields, ELEMENTSOF(fields), s));
}

/* --- Set aside ----------------------------------------------------------------------------------------- */

int machine_state_aside_name(const char *path, unsigned n, char ret[static MACHINE_PATH_MAX]) {
        char mark = n > MACHINE_ASIDE_BESIDE ? '/' : '.';
        unsigned nth = n > MACHINE_ASIDE_BESIDE ? n - MACHINE_ASIDE_BESIDE : n;
        int k = nth > 1 ? snprintf(ret, MACHINE_PATH_MAX, "%s%c" MACHINE_ASIDE "-%u", path, mark, nth)
                        : snprintf(ret, MACHINE_PATH_MAX, "%s%c" MACHINE_ASIDE, path, mark);

        return k >= 0 && k < MACHINE_PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* rename(2), also of a directory in a lower layer of an overlay (EXDEV): one by one what is in it. */
static int move_at(int from_fd, const char *from, int to_fd, const char *to, unsigned depth) {
        _cleanup_closedir_ DIR *d = NULL;
        _cleanup_close_ int fd = -1;
        const struct dirent *e;
        int r = renameat(from_fd, from, to_fd, to) < 0 ? -errno : 0;

        if (r != -EXDEV || depth >= DEPTH_MAX)
                return r;
        fd = openat(from_fd, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        d = fd < 0 ? NULL : fdopendir(fd);
        if (!d)
                return r;
        fd = mkdirat(to_fd, to, 0700) < 0 ? -1 : openat(to_fd, to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? -errno : 0;
        while (r == 0 && (e = readdir(d)))
                if (!streq(e->d_name, ".") && !streq(e->d_name, ".."))
                        r = move_at(dirfd(d), e->d_name, fd, e->d_name, depth + 1);
        return r == 0 && unlinkat(from_fd, from, AT_REMOVEDIR) < 0 ? -errno : r;
}

static int move_inside(const char *path, const char *to) {
        _cleanup_closedir_ DIR *d = opendir(path);
        _cleanup_close_ int fd = -1;
        const struct dirent *e;
        int r = 0;

        if (!d || mkdir(to, 0700) < 0)
                return -errno;
        fd = open(to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        while (r == 0 && (e = readdir(d)))
                if (!streq(e->d_name, ".") && !streq(e->d_name, "..") &&
                    !startswith(e->d_name, MACHINE_ASIDE) && !streq(e->d_name, "lost+found"))
                        r = move_at(dirfd(d), e->d_name, fd, e->d_name, 1);
        return r;
}

/* The first name from number n on that is free. */
static int set_aside_as(const char *path, unsigned n, unsigned last, char ret[static MACHINE_PATH_MAX]) {
        int r = -EEXIST;

        for (; r == -EEXIST && n <= last; n++) {
                r = machine_state_aside_name(path, n, ret);
                if (r == 0 && faccessat(AT_FDCWD, ret, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                        r = -EEXIST;
                else if (r == 0)
                        r = n > MACHINE_ASIDE_BESIDE ? move_inside(path, ret)
                                                     : move_at(AT_FDCWD, path, AT_FDCWD, ret, 0);
        }
        return r;
}

int machine_state_set_aside(const char *path, char ret[static MACHINE_PATH_MAX]) {
        int r = set_aside_as(path, 1, MACHINE_ASIDE_BESIDE, ret);

        if (r == -EBUSY || r == -EACCES || r == -EPERM || r == -EROFS) {
                int k = set_aside_as(path, MACHINE_ASIDE_BESIDE + 1, MACHINE_ASIDE_MOST, ret);

                r = k == -ENOTDIR ? r : k;
        }
        if (r < 0)
                ret[0] = '\0';
        return r == -ENOENT ? 0 : r;
}

/* --- Removed ------------------------------------------------------------------------------------------- */

static int remove_at(int dir_fd, const char *name, unsigned depth);

static int empty_directory(int fd, unsigned depth) {
        _cleanup_closedir_ DIR *d = fdopendir(fd);
        const struct dirent *e;
        int first = 0, r;

        if (!d) {
                (void) close(fd);
                return -ENOMEM;
        }
        while ((e = readdir(d))) {
                if (streq(e->d_name, ".") || streq(e->d_name, ".."))
                        continue;
                r = remove_at(dirfd(d), e->d_name, depth + 1);
                first = first < 0 ? first : r;
        }
        return first;
}

static int remove_at(int dir_fd, const char *name, unsigned depth) {
        int fd, r;

        if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM) /* Linux, and POSIX */
                return -errno;
        if (depth >= DEPTH_MAX)
                return -ELOOP;
        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = empty_directory(fd, depth);
        /* EBUSY: a file system of its own, which is empty now */
        if (r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != EBUSY)
                r = -errno;
        return r;
}

int machine_state_remove(const char *path) {
        return remove_at(AT_FDCWD, path, 0);
}

int machine_state_empty(int fd) {
        return empty_directory(fd, 0);
}
