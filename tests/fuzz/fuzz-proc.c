/* SPDX-License-Identifier: Apache-2.0 */
/* A host whose every file of /proc, /sys and its control groups holds the same bytes: each number that comes
 * out is finite, each text printable and whole. The files are links to one file that stays open, as on a
 * real host. */
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "host_metrics.h"

#define RUN "sys/fs/cgroup/tpu.slice/tpu-run.slice/tpu-run-a.slice/"

static const char *const links[] = {
        "proc/stat", "proc/pressure/cpu", "proc/pressure/io", "proc/meminfo", "proc/vmstat", "proc/net/dev",
        "proc/net/softnet_stat",
        "proc/net/snmp", "proc/net/netstat", "proc/net/stat/nf_conntrack",
        "proc/sys/net/netfilter/nf_conntrack_max",
        "proc/diskstats", "sys/devices/system/cpu/online", "sys/block/sda",
        "sys/fs/cgroup/cgroup.controllers", RUN "cpu.stat",
        RUN "memory.current", RUN "memory.stat", RUN "memory.events", RUN "pids.current", RUN "io.stat",
        RUN "cpu.pressure",
};

static char root[] = "/tmp/tpu-hostd-fuzz-XXXXXX";
static struct host host = HOST_NULL;
static struct host_metrics *metrics;
static int file = -1;

static void must(bool ok) {
        if (!ok)
                abort();
}

static void at(const char *name, char path[static 512]) {
        (void) snprintf(path, 512, "%s/%s", root, name);
        for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
                *p = 0;
                must(mkdir(path, 0755) == 0 || errno == EEXIST);
                *p = '/';
        }
}

static void remove_all(void) {
        char path[512];

        metrics = host_metrics_free(metrics);
        host_close(&host);
        for (size_t i = 0; i < ELEMENTSOF(links); i++) {
                at(links[i], path);
                (void) unlink(path);
                /* folders that are empty now */
                for (char *slash; (slash = strrchr(path, '/')) > path + strlen(root);) {
                        *slash = 0;
                        (void) rmdir(path);
                }
        }
        at("data", path);
        (void) unlink(path);
        (void) rmdir(root);
}

static void set_up(void) {
        char path[512];

        must(mkdtemp(root) != NULL);
        at("data", path);
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        must(file >= 0);
        for (size_t i = 0; i < ELEMENTSOF(links); i++) {
                at(links[i], path);
                must(symlink("/data", path) == 0);
        }
        must(host_open(root, &host) == 0 && host_metrics_new(&host, &metrics) == 0);
        must(atexit(remove_all) == 0);
}

static void take_finding(struct sink *s, const struct finding *f) {
        (void) s;
        (void) f;
        abort();
}

static void take_sample(struct sink *s, const struct sample *m) {
        (void) s;
        must(m->is_int ? m->i >= 0 : isfinite(m->d) && m->d >= 0);
        for (size_t i = 0; i < ELEMENTSOF(m->keys); i++) {
                must(!m->keys[i] == !m->values[i]);
                if (m->values[i])
                        must(strlen(m->values[i]) < 64);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct sink s = { .finding = take_finding, .sample = take_sample };

        if (!metrics)
                set_up();
        must(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t) size);
        host_metrics_look(metrics, 1, &s);
        host_metrics_look_at_run(metrics, "a", NULL, &s);
        return 0;
}
