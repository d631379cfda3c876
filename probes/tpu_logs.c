/* SPDX-License-Identifier: Apache-2.0 */
/* libtpu's own logs, which nobody rotates: they have filled disks (marin-community/marin#2078). */
#include <sys/stat.h>

#include "probe.h"
#include "host_stat.h"

#define PATH "/tmp/tpu_logs"
#define SIZE_WARN ((uint64_t) 4 << 30)
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
        r = host_stat(w->h, path,
                      &st); /* a symlink (tpu_driver.INFO) stands for a file that is counted itself */
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

static void judge(uint64_t bytes, bool more, struct finding *f) {
        finding_set(f->found, "%s%.1f GiB", more ? "at least " : "", (double) bytes / (1 << 30));
        f->verdict = VERDICT_OK;
        if (bytes < SIZE_WARN)
                return;
        f->verdict = VERDICT_WARN;
        finding_set(f->wanted, "below %u GiB", (unsigned) (SIZE_WARN >> 30));
        finding_set(f->source, "tpu-hostd's own limit; marin-community/marin#2078: such logs filled a disk");
        finding_set(f->reason, "libtpu never deletes its logs");
        finding_set(f->remedy, "find " PATH " -type f -mtime +1 -delete; or run with TPU_LOG_DIR=disabled");
}

int probe_tpu_logs(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct host_stat tmp;
        struct finding f;
        uint64_t bytes = 0;
        unsigned files = 0;
        bool more = false;
        struct walk w = { h, PATH, 0, &files, &bytes, &more };
        int r;

        (void) c;
        finding_init(&f, "tpu_logs", NULL);
        r = host_list(h, PATH, visit, &w);
        if (r == -E2BIG)
                more = true; /* thousands of files in one directory: their sizes are not worth the time */
        if (r >= 0 || r == -E2BIG) {
                judge(bytes, more, &f);
                if (r == -E2BIG) {
                        f.verdict = VERDICT_WARN;
                        finding_set(f.reason, "more than %d files in one directory", HOST_LIST_MAX);
                        finding_set(f.remedy, "find " PATH " -type f -mtime +1 -delete");
                }
                put_int(s, METRIC_LOGS_SIZE, (int64_t) MIN(bytes, (uint64_t) INT64_MAX), NULL, NULL, NULL);
        } else if (r == -ENOENT && host_stat(h, "/tmp", &tmp) == 0) {
                f.verdict = VERDICT_OK;
                finding_set(f.found, "none");
        } else
                finding_set(f.reason, PATH " cannot be read: %s", strerror(-r));
        s->finding(s, &f);
        return 0;
}
