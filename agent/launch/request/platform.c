/* SPDX-License-Identifier: Apache-2.0 */
#include "platform.h"

#include <fcntl.h>

#define OS_RELEASE_MAX 8192
#define CGROUP_MAX 4096

static bool is_id(const char *line, const char *id) {
        size_t n = strcspn(line, "\n"), len = strlen(id);
        const char *value = line + strlen("ID=");
        bool quoted;

        if (!startswith(line, "ID="))
                return false;
        quoted = *value == '"' || *value == '\'';
        n -= strlen("ID=") + (quoted ? 2 : 0);
        return n == len && strncmp(value + quoted, id, len) == 0;
}

static bool os_is(const struct host *h, const char *id) {
        char text[OS_RELEASE_MAX];

        if (host_read(h, "/etc/os-release", text, sizeof(text), NULL) < 0 &&
            host_read(h, "/usr/lib/os-release", text, sizeof(text), NULL) < 0)
                return false;
        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (is_id(line, id))
                        return true;
        }
        return false;
}

static bool is_pod(const struct host *h, const char *service_host) {
        char text[CGROUP_MAX];

        return (service_host && service_host[0]) ||
               (host_read(h, "/proc/self/cgroup", text, sizeof(text), NULL) >= 0 &&
                strstr(text, "kubepods"));
}

bool platform_has_systemd(const struct host *h) {
        _cleanup_close_ int fd = host_open_file(h, "/run/systemd/system", O_PATH | O_DIRECTORY);

        return fd >= 0;
}

int platform_check(const struct host *h, const char *service_host, struct problem *p) {
        if (is_pod(h, service_host))
                return problem_set(p, -EOPNOTSUPP,
                                   "start it as the cluster does (for example as a JobSet); on a TPU VM "
                                   "without "
                                   "Kubernetes: tpuctl run",
                                   "runs are not started inside a Kubernetes pod: the pod's processes and "
                                   "devices are the kubelet's");
        if (os_is(h, "cos"))
                return problem_set(p, -EOPNOTSUPP,
                                   "use an image with systemd and a package manager, as Debian or Ubuntu (a "
                                   "TPU VM's own)",
                                   "runs are not started on Container-Optimized OS: everything there runs "
                                   "in containers that others keep");
        if (!platform_has_systemd(h))
                return problem_set(p, -EOPNOTSUPP,
                                   "start it on a machine that systemd has booted; in a container: start "
                                   "the container on the TPU VM with tpuctl run",
                                   "runs are not started where systemd is not the first process: each run "
                                   "is a service of systemd's");
        return 0;
}
