/* SPDX-License-Identifier: Apache-2.0 */
#include "generalize.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>

#include "log.h"
#include "paths.h"
#include "processes.h"

#define DEPTH_MAX 16 /* of directories: the spool has 2 */
#define TRANSIENT "/run/systemd/transient" /* units of runs that have not ended */
#define MACHINE_ID "/etc/machine-id"
#define DBUS_MACHINE_ID "/var/lib/dbus/machine-id"

/* --- Removing ------------------------------------------------------------------------------------------ */

static int empty_directory(int fd, unsigned depth);

/* Links are removed, never followed: not all of these directories are root's. */
static int remove_entry(int dir_fd, const char *name, unsigned depth) {
        int fd, r;

        if (unlinkat(dir_fd, name, 0) == 0)
                return 0;
        if (errno != EISDIR)
                return -errno;
        if (depth == 0)
                return -ELOOP;
        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : empty_directory(fd, depth - 1);
        if (r < 0)
                return r;
        /* EBUSY: a file system of its own, which is empty now */
        return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != EBUSY ? -errno : 0;
}

/* Takes fd over. Goes on behind what it cannot remove; returns the last error. */
static int empty_directory(int fd, unsigned depth) {
        _cleanup_closedir_ DIR *dir = fdopendir(fd);
        int r = 0;

        if (!dir) {
                r = -errno;
                (void) close_fd(fd);
                return r;
        }
        for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
                bool itself = streq(e->d_name, ".") || streq(e->d_name, "..");
                int k = itself ? 0 : remove_entry(fd, e->d_name, depth);

                r = k < 0 ? k : r;
        }
        return r;
}

static int report_removal(int r, const char *what, const char *path) {
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return log_error_errno(r, "%s cannot be %s: %m", path, what);
        (void) printf("%s: %s\n", path, what);
        return 0;
}

static int empty_path(const struct host *h, const char *path) {
        int fd = host_open_file(h, path, O_RDONLY | O_DIRECTORY);

        return report_removal(fd < 0 ? fd : empty_directory(fd, DEPTH_MAX), "emptied", path);
}

/* "" and credential:NAME are no files of the image. */
static int remove_file(const struct host *h, const char *path) {
        const char *slash = strrchr(path, '/');
        _cleanup_close_ int folder = -1;
        char parent[256];
        int r;

        if (path[0] != '/')
                return 0;
        (void) snprintf(parent, sizeof(parent), "%.*s/", (int) (slash - path), path);
        folder = host_open_file(h, parent, O_PATH | O_DIRECTORY);
        r = folder < 0 ? folder : unlinkat(folder, slash + 1, 0) < 0 ? -errno : 0;
        return report_removal(r, "removed", path);
}

/* Emptied, not removed: systemd can make a new one where /etc is read-only at boot only over a file. */
static int empty_machine_id(const struct host *h) {
        _cleanup_close_ int fd = -1;
        char id[64];
        int r;

        r = host_read(h, MACHINE_ID, id, sizeof(id), NULL);
        if (r == -ENOENT || (r >= 0 && (!id[0] || streq(id, "uninitialized"))))
                return 0;
        fd = host_open_file(h, MACHINE_ID, O_WRONLY | O_TRUNC);
        return report_removal(fd < 0 ? fd : 0, "emptied", MACHINE_ID);
}

/* --- Before it ----------------------------------------------------------------------------------------- */

static int find_run(const char *name, void *userdata) {
        size_t len = strlen(name), end = strlen(".service");

        if (!startswith(name, RUN_UNIT_PREFIX) || len <= end || !streq(name + len - end, ".service"))
                return 0;
        (void) snprintf(userdata, NAME_MAX + 1, "%.*s", (int) (len - end - strlen(RUN_UNIT_PREFIX)),
                        name + strlen(RUN_UNIT_PREFIX));
        return 1;
}

static int stop_daemons(void) {
        static const char *const argv[] = { "systemctl", "stop", "tpu-hostd.socket", "tpu-hostd.service",
                                            "tpu-launchd.socket", "tpu-launchd.service",
                                            "tpu-netcfg.socket", "tpu-netcfg.service", NULL };
        struct spawn_options o = { .path = "/bin/systemctl", .argv = argv, .environment = environ, .out = -1,
                                   .error = -1 };
        int r, status = 0;
        pid_t pid;

        r = spawn_program(&o, &pid);
        if (r < 0)
                return log_error_errno(r, "%s cannot be started: %m", o.path);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return log_error_errno(errno, "%s cannot be waited for: %m", o.path);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return log_error_errno(EBUSY, "the daemons did not stop; see: systemctl status 'tpu-*'");
        return 0;
}

/* --- All of it ----------------------------------------------------------------------------------------- */

int generalize(const struct host *h, const struct settings *s) {
        const char *const directories[] = { PATH_HOSTD_STATE, PATH_LAUNCHD_STATE, PATH_NETCFG_STATE,
                                            s->spool_directory };
        const char *const files[] = { s->state_file, s->metadata_copy, s->uplink.cert_file,
                                      s->uplink.key_file, s->api.certificate, s->api.key,
                                      s->registry.cert_file, s->registry.key_file, DBUS_MACHINE_ID };
        char run[NAME_MAX + 1];
        int r, k;

        if (host_list(h, TRANSIENT, find_run, run) > 0)
                return log_error_errno(EBUSY, "run %s is in progress; end it first: tpuctl stop %s", run,
                                       run);
        if (h->real_root && sd_booted() > 0) {
                r = stop_daemons();
                if (r < 0)
                        return r;
        }
        r = 0;
        for (size_t i = 0; i < ELEMENTSOF(directories); i++) {
                k = empty_path(h, directories[i]);
                r = k < 0 ? k : r;
        }
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                k = remove_file(h, files[i]);
                r = k < 0 ? k : r;
        }
        k = empty_machine_id(h);
        return k < 0 ? k : r;
}
