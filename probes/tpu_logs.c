/* SPDX-License-Identifier: Apache-2.0 */
/* libtpu's own logs, which nobody rotates: they have filled disks (marin-community/marin#2078). */
#include <sys/stat.h>

#include "host_stat.h"
#include "words.h"

#define PATH "/tmp/tpu_logs"
#define SIZE_WARN ((uint64_t) 4 << 30) /* check_words.def says it, too */
#define DEPTH_MAX 4
#define FILES_MAX 10000

struct walk {
        const struct host *h;
        const char *dir;
        unsigned depth, *files;
        uint64_t *bytes;
        bool *more; /* not all was counted */
};

static int visit(const char *name, void *userdata) {
        struct walk *w = userdata;
        char path[512];
        struct host_stat st;
        int r;

        if (++*w->files > FILES_MAX) {
                *w->more = true;
                return 1;
        }
        if (snprintf(path, sizeof(path), "%s/%s", w->dir, name) >= (int) sizeof(path)) {
                *w->more = true;
                return 0;
        }
        /* a symlink (tpu_driver.INFO) stands for a file that is counted itself */
        r = host_stat(w->h, path, &st);
        if (r < 0) {
                *w->more |= r != -ENOENT; /* just deleted, or a link to nowhere */
                return 0;
        }
        if (S_ISDIR(st.mode)) {
                struct walk below = *w;

                below.dir = path;
                below.depth++;
                if (below.depth >= DEPTH_MAX || host_list(w->h, path, visit, &below) < 0)
                        *w->more = true;
        } else if (S_ISREG(st.mode)) {
                char target[8];

                if (host_read_link(w->h, path, target, sizeof(target)) == -EINVAL)
                        *w->bytes += st.size;
        }
        return 0;
}

int probe_tpu_logs(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct host_stat tmp;
        uint64_t bytes = 0;
        unsigned files = 0;
        bool more = false;
        struct walk w = { h, PATH, 0, &files, &bytes, &more };
        int r = host_list(h, PATH, visit, &w);

        (void) c;
        if (r == -ENOENT && host_stat(h, "/tmp", &tmp) == 0) {
                probe_tell(s, WORDS_LOGS, NULL, NULL, "none");
                return 0;
        }
        if (r < 0 && r != -E2BIG) {
                probe_tell(s, WORDS_LOGS_UNREADABLE, NULL, strerror(-r), "%s", "");
                return 0;
        }
        /* Thousands of files in one directory: their sizes are not worth the time. */
        more |= r == -E2BIG;
        probe_tell(s,
                   r == -E2BIG       ? WORDS_LOGS_MANY :
                   bytes < SIZE_WARN ? WORDS_LOGS :
                                       WORDS_LOGS_BIG,
                   NULL, NULL, "%s%.1f GiB", more ? "at least " : "", (double) bytes / (1 << 30));
        put_int(s, METRIC_LOGS_SIZE, (int64_t) MIN(bytes, (uint64_t) INT64_MAX), NULL, NULL, NULL);
        return 0;
}
