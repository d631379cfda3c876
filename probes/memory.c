/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: how much is left. Its numbers are the metrics room's (probes/metrics/host_metrics.h). */
#include "memory.h"
#include "words.h"

#define PATH "/proc/meminfo"
#define AVAILABLE_WARN_PERCENT 5           /* check_words.def says it, too */
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

uint64_t memory_total(const struct host *h) {
        char text[MEMINFO_MAX];
        uint64_t total = 0;

        if (host_read(h, PATH, text, sizeof(text), NULL) < 0 || meminfo_bytes(text, "MemTotal", &total) < 0)
                return 0;
        return total;
}

static void format_gib(char *buf, size_t size, uint64_t bytes) {
        (void) snprintf(buf, size, "%.1f GiB", (double) bytes / (1024.0 * 1024 * 1024));
}

static void judge_memory(uint64_t total, uint64_t available, struct sink *s) {
        uint64_t floor_bytes = total / 100 * AVAILABLE_WARN_PERCENT;
        char a[32], t[32], w[32];

        format_gib(a, sizeof(a), available);
        format_gib(t, sizeof(t), total);
        format_gib(w, sizeof(w), floor_bytes);
        probe_tell(s, available >= floor_bytes ? WORDS_MEMORY : WORDS_MEMORY_LOW, NULL, w,
                   "%s of %s available", a, t);
}

int probe_memory(const struct host *h, const struct probe_context *c, struct sink *s) {
        char text[MEMINFO_MAX], why[128] = "";
        uint64_t total, available;
        int r;

        (void) c;
        r = host_read(h, PATH, text, sizeof(text), NULL);
        if (r < 0)
                (void) snprintf(why, sizeof(why), PATH " cannot be read: %s", strerror(-r));
        else if (meminfo_bytes(text, "MemTotal", &total) < 0 ||
                 meminfo_bytes(text, "MemAvailable", &available) < 0)
                (void) snprintf(why, sizeof(why), PATH " has no usable MemTotal and MemAvailable");
        else if (total == 0 || available > total)
                (void) snprintf(why, sizeof(why),
                                PATH " contradicts itself: MemAvailable is above MemTotal");
        if (why[0])
                probe_tell(s, WORDS_MEMORY_UNKNOWN, NULL, why, "%s", "");
        else
                judge_memory(total, available, s);
        return 0;
}
