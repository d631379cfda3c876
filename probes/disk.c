/* SPDX-License-Identifier: Apache-2.0 */
/* Room on the file systems that the host and the agent write to: bytes and inodes. */
#include "emit.h"
#include "host_stat.h"
#include "paths.h"

#define WARN_PERCENT 5
#define FAIL_PERCENT 1

static const char *const places[] = { "/", PATH_HOSTD_STATE };

/* OpenTelemetry semantic conventions 1.44, system.filesystem.*. */
static const struct metric metric_limit = { "system.filesystem.limit", "By", "Size of a file system",
                                            SAMPLE_GAUGE };
static const struct metric metric_available = { "tpu.filesystem.available", "By",
                                                "What users may still write to a file system",
                                                SAMPLE_GAUGE };

static enum verdict judge_share(uint64_t all, uint64_t available) {
        if (available < all / 100 * FAIL_PERCENT)
                return VERDICT_FAIL;
        return available < all / 100 * WARN_PERCENT ? VERDICT_WARN : VERDICT_OK;
}

static void explain(struct finding *f, const char *place, const char *option, const char *order) {
        if (f->verdict == VERDICT_OK)
                return;
        finding_set(f->wanted, "at least %d %%", WARN_PERCENT);
        finding_set(f->source, "tpu-hostd's own floor; below %d %% the host is unfit", FAIL_PERCENT);
        finding_set(f->reason, "logs, checkpoints and the agent's own records will soon fail to be written");
        finding_set(f->remedy, "du -x %s --max-depth=2 %s | sort %s | tail", option, place, order);
}

static void check_bytes(const char *place, const struct host_space *v, struct sink *s) {
        struct finding f;

        finding_init(&f, "disk.space", place);
        f.verdict = judge_share(v->bytes, v->bytes_available);
        finding_set(f.found, "%.1f of %.1f GiB free", (double) v->bytes_available / (1 << 30),
                    (double) v->bytes / (1 << 30));
        explain(&f, place, "-h", "-h");
        s->finding(s, &f);
        if (v->bytes <= INT64_MAX) {
                emit_int(s, &metric_limit, (int64_t) v->bytes, "system.filesystem.mountpoint", place, NULL,
                         NULL);
                emit_int(s, &metric_available, (int64_t) v->bytes_available, "system.filesystem.mountpoint",
                         place, NULL, NULL);
        }
}

static void check_inodes(const char *place, const struct host_space *v, struct sink *s) {
        struct finding f;

        if (v->files == 0)
                return; /* btrfs and others have no such limit */
        finding_init(&f, "disk.inodes", place);
        f.verdict = judge_share(v->files, v->files_free);
        finding_set(f.found, "%.1f %% free", 100.0 * (double) v->files_free / (double) v->files);
        explain(&f, place, "--inodes", "-n");
        s->finding(s, &f);
}

static void unknown(const char *place, const char *why, struct sink *s) {
        struct finding f;

        finding_init(&f, "disk.space", place);
        finding_set(f.reason, "its file system does not say how full it is: %s", why);
        finding_set(f.remedy, "df -h %s", place);
        s->finding(s, &f);
}

static int run(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct host_space seen[ELEMENTSOF(places)];
        size_t n = 0;

        (void) c;
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                struct host_space v;
                bool again = false;
                int r = host_space(h, places[i], &v);

                if (r == -ENOENT || (r == -EACCES && i > 0))
                        continue; /* not installed, or not ours to see: "/" is always there */
                if (r < 0 || v.bytes == 0 || v.bytes_available > v.bytes || v.files_free > v.files) {
                        unknown(places[i], r < 0 ? strerror(-r) : "its numbers contradict each other", s);
                        continue;
                }
                for (size_t k = 0; k < n; k++)
                        again |= seen[k].device == v.device;
                if (again)
                        continue;
                seen[n++] = v;
                check_bytes(places[i], &v, s);
                check_inodes(places[i], &v, s);
        }
        return 0;
}

const struct probe probe_disk = {
        .name = "disk",
        .summary = "free space and inodes of / and of the agent's directory",
        .group = GROUP_HOST,
        .interval = 120 * USEC_PER_SEC,
        .timeout = 2 * USEC_PER_SEC,
        .blocks = true,
        .varies = true,
        .run = run,
};
