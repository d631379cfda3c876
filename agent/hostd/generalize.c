/* SPDX-License-Identifier: Apache-2.0 */
#include "hostd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>

#include "log.h"
#include "paths.h"
#include "processes.h"

#define TRANSIENT "/run/systemd/transient" /* units of runs that have not ended */
#define MACHINE_ID "/etc/machine-id"
#define DBUS_MACHINE_ID "/var/lib/dbus/machine-id"

/* --- Removing ------------------------------------------------------------------------------------------ */

static int report_removal(int r, const char *what, const char *path) {
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return log_error_errno(r, "%s cannot be %s: %m", path, what);
        (void) printf("%s: %s\n", path, what);
        return 0;
}

static int remove_file(const struct host *h, const char *path) {
        const char *slash = strrchr(path, '/');
        _cleanup_close_ int folder = -1;
        char parent[MACHINE_PATH_MAX];
        int r;

        (void) snprintf(parent, sizeof(parent), "%.*s/", (int) (slash - path), path);
        folder = host_open_file(h, parent, O_PATH | O_DIRECTORY);
        r = folder < 0 ? folder : unlinkat(folder, slash + 1, 0) < 0 ? -errno : 0;
        return report_removal(r, "removed", path);
}

/* "" and credential:NAME are no files of the image. What a link points to (an archive of a renewer's) would
 * stay in it: it is emptied first. */
static int remove_secret(const struct host *h, const char *path) {
        char target[256];
        _cleanup_close_ int fd = -1;

        if (path[0] != '/')
                return 0;
        if (host_read_link(h, path, target, sizeof(target)) >= 0) {
                fd = host_open_file(h, path, O_WRONLY | O_TRUNC);
                if (fd < 0 && fd != -ENOENT)
                        return log_error_errno(fd, "what %s points to cannot be emptied: %m", path);
        }
        return remove_file(h, path);
}

/* flags: O_NOFOLLOW where a link may be somebody else's: it is removed then. */
static int clear_path(const struct host *h, const char *path, int flags) {
        int fd = host_open_file(h, path, O_RDONLY | O_DIRECTORY | flags);

        if (fd == -ENOTDIR || fd == -ELOOP)
                return remove_file(h, path);
        return report_removal(fd < 0 ? fd : machine_state_empty(fd), "emptied", path);
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

/* Mostly a link to the other. */
static int remove_dbus_machine_id(const struct host *h) {
        char target[256];

        return host_read_link(h, DBUS_MACHINE_ID, target, sizeof(target)) == -EINVAL
                       ? remove_file(h, DBUS_MACHINE_ID) : 0;
}

/* --- Before it ----------------------------------------------------------------------------------------- */

static int find_run(const char *name, void *userdata) {
        if (!startswith(name, RUN_UNIT_PREFIX) || !endswith(name, ".service"))
                return 0;
        name += strlen(RUN_UNIT_PREFIX);
        (void) snprintf(userdata, NAME_MAX + 1, "%.*s", (int) (strlen(name) - strlen(".service")), name);
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

static int owner_of(const struct host *h, const char *path, uid_t *ret) {
        _cleanup_close_ int fd = host_open_file(h, path, O_PATH | O_NOFOLLOW);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return fd < 0 ? fd : -errno;
        *ret = st.st_uid;
        return 0;
}

static int clear_of_owner(const struct host *h, const char *path, uid_t ours) {
        uid_t owner;

        return owner_of(h, path, &owner) == 0 && owner == ours ? clear_path(h, path, O_NOFOLLOW) : 0;
}

/* What hostd.conf puts elsewhere, and what of it was set aside. Beside a spool on a disk of the site's there
 * may be a folder "captures" of somebody else: tpu-hostd's own belong to whom its state belongs to. */
static int clear_settings_state(const struct host *h, const struct settings *s) {
        char paths[SETTINGS_STATE_MAX][MACHINE_PATH_MAX], aside[MACHINE_PATH_MAX];
        size_t n = settings_state(s, true, paths);
        int r = 0, k;
        uid_t ours;

        if (n == 0 || (owner_of(h, paths[0], &ours) < 0 && owner_of(h, PATH_HOSTD_STATE, &ours) < 0))
                return 0;
        for (size_t i = 0; i < n; i++) {
                k = clear_of_owner(h, paths[i], ours);
                r = k < 0 ? k : r;
                for (unsigned nth = 1; nth <= MACHINE_ASIDE_MOST; nth++) {
                        k = machine_state_aside_name(paths[i], nth, aside);
                        k = k < 0 ? k : clear_of_owner(h, aside, ours);
                        r = k < 0 ? k : r;
                }
        }
        return r;
}

int generalize(const struct host *h, const struct settings *s) {
        static const char *const directories[] = { PATH_HOSTD_STATE, PATH_LAUNCHD_STATE,
                                                   PATH_NETCFG_STATE };
        const char *const files[] = { s->uplink.cert_file, s->uplink.key_file,   s->api.certificate,
                                      s->api.key,          s->registry.cert_file, s->registry.key_file };
        char run[NAME_MAX + 1];
        int r, k;

        if (h->real_root && geteuid() != 0)
                return log_error_errno(EPERM, "only root may do that: sudo tpu-hostd --generalize");
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
                k = clear_path(h, directories[i], 0);
                r = k < 0 ? k : r;
        }
        k = clear_settings_state(h, s);
        r = k < 0 ? k : r;
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                k = remove_secret(h, files[i]);
                r = k < 0 ? k : r;
        }
        k = remove_dbus_machine_id(h);
        r = k < 0 ? k : r;
        k = empty_machine_id(h);
        return k < 0 ? k : r;
}
