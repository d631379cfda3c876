/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_rotate.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include "open_folder.h"

#define FILES_MAX 4096 /* more than that are left for the next time */
#define NAME_SIZE 128

struct own_file {
        char name[NAME_SIZE];
        uint64_t size;
        usec_t written;
};

static int by_age(const void *a, const void *b) {
        const struct own_file *x = a, *y = b;

        return (x->written > y->written) - (x->written < y->written);
}

/* True: it is one of the caller's own. */
static bool read_entry(int dir, const char *names, const char *name, struct own_file *ret) {
        struct stat st;

        if (strlen(name) >= NAME_SIZE || fnmatch(names, name, FNM_PERIOD) != 0 ||
            fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 || !S_ISREG(st.st_mode) ||
            st.st_uid != geteuid() || st.st_mtim.tv_sec < 0)
                return false;
        (void) snprintf(ret->name, sizeof(ret->name), "%s", name);
        ret->size = (uint64_t) st.st_size;
        ret->written = (usec_t) st.st_mtim.tv_sec * USEC_PER_SEC;
        return true;
}

static int list(int dir, const char *names, struct own_file *ret, size_t *ret_n) {
        int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_closedir_ DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
        const struct dirent *e;
        size_t n = 0;

        if (!d) {
                int r = -errno;

                (void) close_fd(copy);
                return r;
        }
        while (n < FILES_MAX && (e = readdir(d)))
                n += read_entry(dir, names, e->d_name, &ret[n]);
        *ret_n = n;
        return 0;
}

int stack_rotate(const struct host *h, const char *folder, const char *names, uint64_t keep,
                 usec_t now_real) {
        _cleanup_free_ struct own_file *files = NULL;
        _cleanup_close_ int dir = -1;
        char missing[NAME_SIZE];
        uint64_t bytes = 0;
        size_t n = 0;
        int r, deleted = 0;

        if (h->real_root && !folder_is_local(h, folder))
                return -EREMOTE; /* it might hang, and the run with it */
        r = open_folder(h, folder, &dir, missing, sizeof(missing));
        if (r < 0)
                return r;
        files = malloc(FILES_MAX * sizeof(*files));
        r = files ? list(dir, names, files, &n) : -ENOMEM;
        if (r < 0)
                return r;
        qsort(files, n, sizeof(*files), by_age);
        for (size_t i = 0; i < n; i++)
                bytes += MIN(files[i].size, UINT64_MAX - bytes);
        for (size_t i = 0; i < n && bytes > keep && files[i].written + STACK_ROTATE_AGE < now_real; i++)
                if (unlinkat(dir, files[i].name, 0) == 0) {
                        bytes -= files[i].size;
                        deleted++;
                }
        return deleted;
}
