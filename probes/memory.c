/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: how much is left. Its numbers are the metrics room's (probes/metrics/host_metrics.h). */
#include "probe.h"

#define AVAILABLE_WARN_PERCENT 5
#define MEMINFO_MAX (16 * 1024) /* about 1.5 KiB today */

/* "MemTotal:       754974720 kB" → bytes. -ENODATA: no such line; -EBADMSG: no number of kB. */
static int meminfo_bytes(const char *text, const char *key, uint64_t *ret) {
        size_t n = strlen(key);

        for (const char *p = text; p; p = strchr(p, '\n')) {
                unsigned long long kb;
                char *end;

                p += *p == '\n';
                if (strncmp(p, key, n) != 0 || p[n] != ':')
                        continue;
                p += n + 1;
                p += strspn(p, " ");
                if (*p < '0' || *p > '9')
                        return -EBADMSG;
                errno = 0;
                kb = strtoull(p, &end, 10);
                if (errno != 0 || !startswith(end, " kB") || kb > INT64_MAX / 1024)
                        return -EBADMSG;
                *ret = kb * 1024;
                return 0;
        }
        return -ENODATA;
}

static void format_gib(char *buf, size_t size, uint64_t bytes) {
        (void) snprintf(buf, size, "%.1f GiB", (double) bytes / (1024.0 * 1024 * 1024));
}

static void judge(uint64_t total, uint64_t available, struct finding *f) {
        uint64_t floor_bytes = total / 100 * AVAILABLE_WARN_PERCENT;
        char a[32], t[32], w[32];

        format_gib(a, sizeof(a), available);
        format_gib(t, sizeof(t), total);
        format_gib(w, sizeof(w), floor_bytes);
        finding_set(f->found, "%s of %s available", a, t);
        if (available >= floor_bytes) {
                f->verdict = VERDICT_OK;
                return;
        }
        f->verdict = VERDICT_WARN;
        finding_set(f->wanted, "at least %d %% (%s)", AVAILABLE_WARN_PERCENT, w);
        finding_set(f->source, "tpu-hostd's own floor");
        finding_set(f->reason, "the kernel will soon kill processes: the run is the largest one");
        finding_set(f->remedy, "ps -eo pid,user,rss,args --sort=-rss | head");
}

int probe_memory(const struct host *h, const struct probe_context *c, struct sink *s) {
        static const char path[] = "/proc/meminfo";
        uint64_t total, available;
        char text[MEMINFO_MAX];
        struct finding f;
        int r;

        (void) c;
        finding_init(&f, "memory.available", NULL);
        r = host_read(h, path, text, sizeof(text), NULL);
        if (r < 0)
                finding_set(f.reason, "%s cannot be read: %s", path, strerror(-r));
        else if (meminfo_bytes(text, "MemTotal", &total) < 0 ||
                 meminfo_bytes(text, "MemAvailable", &available) < 0)
                finding_set(f.reason, "%s has no usable MemTotal and MemAvailable", path);
        else if (total == 0 || available > total)
                finding_set(f.reason, "%s contradicts itself: MemAvailable is above MemTotal", path);
        else
                judge(total, available, &f);
        s->finding(s, &f);
        return 0;
}
