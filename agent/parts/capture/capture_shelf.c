/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "capture_shelf.h"
#include "io.h"
#include "texts.h"

#define SUFFIX      ".capture"
#define TIME_DIGITS 20

static bool is_ours(const char *name) {
        size_t n = strlen(name);

        return n > TIME_DIGITS + sizeof(SUFFIX) && n < SHELF_NAME_MAX &&
               strspn(name, "0123456789") == TIME_DIGITS && name[TIME_DIGITS] == '-' &&
               streq(name + n - (sizeof(SUFFIX) - 1), SUFFIX);
}

static int only_ours(const struct dirent *d) {
        return is_ours(d->d_name);
}

static void names_free(struct dirent **names, int n) {
        for (int i = 0; i < n; i++)
                free(names[i]);
        free(names);
}

int capture_shelf_visit(const char *directory, bool (*visit)(const char *name, void *userdata),
                        void *userdata) {
        struct dirent **names;
        int n = scandir(directory, &names, only_ours, alphasort);

        if (n < 0)
                return errno == ENOENT ? 0 : -errno;
        for (int i = 0; i < n; i++)
                if (!visit(names[i]->d_name, userdata))
                        break;
        names_free(names, n);
        return 0;
}

int capture_shelf_parse(const char *name, usec_t *ret_taken, unsigned *ret_round,
                        char ret_episode[static 64]) {
        const char *round = name + TIME_DIGITS + 1, *end = name + strlen(name) - (sizeof(SUFFIX) - 1),
                   *episode;
        char *stop;

        if (!is_ours(name))
                return -EINVAL;
        *ret_round = (unsigned) strtoul(round, &stop, 10);
        episode = stop + 1;
        if (*stop != '-' || episode >= end || end - episode >= 64)
                return -EINVAL;
        *ret_taken = strtoull(name, NULL, 10);
        (void) snprintf(ret_episode, 64, "%.*s", (int) (end - episode), episode);
        return 0;
}

static bool is_of(const char *name, void *userdata) {
        const char **wanted = userdata;
        char episode[64];
        unsigned round;
        usec_t taken;

        if (capture_shelf_parse(name, &taken, &round, episode) < 0 || !streq(episode, *wanted))
                return true;
        *wanted = NULL;
        return false;
}

bool capture_shelf_has(const char *directory, const char *episode) {
        const char *wanted = episode;

        (void) capture_shelf_visit(directory, is_of, &wanted); /* what cannot be read is not known */
        return !wanted;
}

/* What a crash left of a write; there is one writer, and none is at work now. */
static int only_left_over(const struct dirent *d) {
        return d->d_name[0] == '.' && d->d_name[1] >= '0' && d->d_name[1] <= '9';
}

static void remove_oldest(const char *directory, int fd) {
        struct dirent **names;
        int n = scandir(directory, &names, only_left_over, alphasort);

        for (int i = 0; i < n; i++)
                (void) unlinkat(fd, names[i]->d_name, 0); /* tried again with the next one */
        if (n >= 0)
                names_free(names, n);
        n = scandir(directory, &names, only_ours, alphasort);

        if (n < 0)
                return;
        for (int i = 0; i + SHELF_KEPT < n; i++)
                (void) unlinkat(fd, names[i]->d_name, 0); /* tried again with the next one */
        names_free(names, n);
}

int capture_shelf_put(const char *directory, usec_t taken, unsigned round, const char *episode,
                      const void *data, size_t len, char ret_name[static SHELF_NAME_MAX]) {
        const struct durable_options lazy = { .mode = 0600, .lazy = true };
        const struct iovec part = { .iov_base = (void *) (uintptr_t) data, .iov_len = len };
        _cleanup_close_ int fd = -1;
        int r;

        (void) snprintf(ret_name, SHELF_NAME_MAX, "%020" PRIu64 "-%u-%.63s" SUFFIX, taken, round, episode);
        if (!name_is_for_registry(episode))
                return -EINVAL;
        if (mkdir(directory, 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;
        r = durable_write_parts(fd, ret_name, &part, 1, &lazy);
        remove_oldest(directory, fd);
        return r;
}

int capture_shelf_read(const char *directory, const char *name, size_t max, uint8_t **ret, size_t *ret_len) {
        _cleanup_close_ int fd = -1;
        char *data;
        int r;

        if (!is_ours(name) || strchr(name, '/'))
                return -ENOENT;
        fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? -errno : durable_read(fd, name, max, &data, ret_len);
        if (r < 0)
                return r;
        *ret = (uint8_t *) data;
        return 0;
}
