/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "io.h"
#include "proc_pid.h"

#define CONTAINER_SHOWN 12 /* digits of its id that name it to people */
#define FILE_MAX        (256 * 1024)
#define DOCKER          "/var/lib/docker/containers"
#define PODMAN          "/var/lib/containers/storage/overlay-containers"

const char *container_find(const char *control_group, const char **ret_id) {
        /* docker and podman with systemd's driver and without it, and what Kubernetes uses */
        static const struct {
                const char *before, *engine;
        } makers[] = {
                { "docker-", "docker" },
                { "/docker/", "docker" },
                { "libpod-payload-", "podman" },
                { "libpod-", "podman" },
                { "cri-containerd-", "containerd" },
                { "crio-", "cri-o" },
        };

        for (size_t i = 0; i < ELEMENTSOF(makers); i++)
                for (const char *at = strstr(control_group, makers[i].before); at;
                     at = strstr(at + 1, makers[i].before)) {
                        *ret_id = at + strlen(makers[i].before);
                        if (strspn(*ret_id, "0123456789abcdef") == CONTAINER_ID)
                                return makers[i].engine;
                }
        return NULL;
}

void container_print(const char *control_group, char *buf, size_t size) {
        const char *id, *engine = container_find(control_group, &id);

        buf[0] = '\0';
        if (engine)
                (void) snprintf(buf, size, "%s %.*s", engine, CONTAINER_SHOWN, id);
}

bool container_command(const char *container, const char *verb, char *buf, size_t size) {
        const char *id = strchr(container, ' ');

        if (!startswith(container, "docker ") && !startswith(container, "podman "))
                return false;
        (void) snprintf(buf, size, "sudo %.*s %s %s", (int) (id - container), container, verb, id + 1);
        return true;
}

/* --- Its name ------------------------------------------------------------------------------------------ */

/* With a NUL behind it; NULL: it cannot be read. To be freed. */
static char *read_text(const struct host *h, const char *path, size_t *ret_len) {
        _cleanup_close_ int fd = host_open_file(h, path, O_RDONLY);
        _cleanup_free_ char *text = fd < 0 ? NULL : calloc(1, FILE_MAX + 1);
        ssize_t n = text ? io_read_up_to(fd, text, FILE_MAX) : -1;

        if (n < 0)
                return NULL;
        *ret_len = (size_t) n;
        return TAKE_PTR(text);
}

static bool copy_name(const char *name, size_t len, char *buf, size_t size) {
        if (len == 0 || len >= size)
                return false;
        memcpy(buf, name, len);
        buf[len] = '\0';
        return true;
}

/* dockerd's own file, JSON without blanks. A quotation mark inside of a text of it has a backslash before
 * it, so that these words are nobody's text. */
static bool name_by_docker(const struct host *h, const char *id, char *buf, size_t size) {
        static const char before[] = "\"Name\":\"/";
        _cleanup_free_ char *text = NULL;
        const char *at;
        char path[160];
        size_t len;

        (void) snprintf(path, sizeof(path), DOCKER "/%.*s/config.v2.json", CONTAINER_ID, id);
        text = read_text(h, path, &len);
        at = text ? strstr(text, before) : NULL;
        at = at ? at + strlen(before) : NULL;
        return at && copy_name(at, strcspn(at, "\""), buf, size);
}

/* "conmon … -n NAME …" */
static bool name_by_conmon(const struct host *h, uint32_t pid, char *buf, size_t size) {
        _cleanup_free_ char *text = NULL;
        char path[64];
        size_t len = 0;

        (void) snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
        text = read_text(h, path, &len);
        for (size_t at = 0; at < len; at += strlen(text + at) + 1)
                if (streq(text + at, "-n") && at + 3 < len)
                        return copy_name(text + at + 3, strlen(text + at + 3), buf, size);
        return false;
}

bool container_name(const struct host *h, const char *container, const char *id, uint32_t conmon, char *buf,
                    size_t size) {
        return startswith(container, "docker ")   ? name_by_docker(h, id, buf, size)
               : startswith(container, "podman ") ? name_by_conmon(h, conmon, buf, size)
                                                  : false;
}

/* --- What it prints ------------------------------------------------------------------------------------ */

/* The group that is named as the container is; below it others may be the container's own. */
static bool is_of_root(const struct host *h, const char *control_group, const char *id) {
        static const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/systemd" };
        size_t len = (size_t) (id - control_group) + CONTAINER_ID;
        char path[PROC_PID_GROUP_MAX + 32];
        struct stat st;

        len += strcspn(control_group + len, "/");
        for (size_t i = 0; i < ELEMENTSOF(roots); i++) {
                _cleanup_close_ int fd = -1;

                (void) snprintf(path, sizeof(path), "%s%.*s", roots[i], (int) len, control_group);
                fd = host_open_file(h, path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
                if (fd >= 0)
                        return fstat(fd, &st) == 0 && st.st_uid == 0;
        }
        return false;
}

int container_open_log(const struct host *h, const char *control_group, const char **ret_form) {
        const char *id, *engine = container_find(control_group, &id);
        bool docker = engine && streq(engine, "docker");
        struct stat st;
        char path[256];
        int fd;

        if (!engine || (!docker && !streq(engine, "podman")))
                return -ENOENT;
        if (!is_of_root(h, control_group, id))
                return -EACCES;
        if (docker)
                (void) snprintf(path, sizeof(path), DOCKER "/%.64s/%.64s-json.log", id, id);
        else
                (void) snprintf(path, sizeof(path), PODMAN "/%.64s/userdata/ctr.log", id);
        fd = host_open_file(h, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                (void) close_fd(fd);
                return -ENOENT;
        }
        *ret_form = docker ? "json-file" : "k8s-file";
        return fd;
}
