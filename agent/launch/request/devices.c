/* SPDX-License-Identifier: Apache-2.0 */
#include "devices.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "config.h"
#include "log.h"
#include "owners.h"
#include "paths.h"
#include "texts.h"

#define OWN_UNIT "/tpu-launchd.service"
#define DEV "/proc/1/root/dev"
#define NODES_MAX (64 + DEVICE_LIST_MAX)

/* Whether nobody holds a lock on it, by flock() or by fcntl(). */
static bool is_unlocked(int fd) {
        struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

        return flock(fd, LOCK_EX | LOCK_NB) == 0 && fcntl(fd, F_GETLK, &whole) == 0 &&
               whole.l_type == F_UNLCK;
}

/* No process has a TPU open: what is left of a lock belongs to nobody. A failure is not ours to solve:
 * libtpu will say so. */
static void remove_stale_lockfile(const struct host *h, const char *run) {
        _cleanup_close_ int dir = -1, fd = -1;
        struct stat st;

        dir = host_open_file(h, LIBTPU_LOCKFILE_DIRECTORY, O_RDONLY | O_DIRECTORY);
        if (dir < 0)
                return;
        fd = openat(dir, LIBTPU_LOCKFILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return;
        if (!is_unlocked(fd)) {
                log_warning("run %s: %s/%s is locked by a process that has no TPU open; left alone", run,
                            LIBTPU_LOCKFILE_DIRECTORY, LIBTPU_LOCKFILE);
                return;
        }
        if (unlinkat(dir, LIBTPU_LOCKFILE, 0) == 0)
                log_notice("run %s: removed %s/%s of uid %u: no process has a TPU open", run,
                           LIBTPU_LOCKFILE_DIRECTORY, LIBTPU_LOCKFILE, (unsigned) st.st_uid);
        else
                (void) log_warning_errno(errno, "run %s: the stale %s/%s cannot be removed: %m", run,
                                         LIBTPU_LOCKFILE_DIRECTORY, LIBTPU_LOCKFILE);
}

int devices_check(const struct host *h, const Run__Spec *s, const char *run, struct problem *p,
                  char *warning, size_t size) {
        _cleanup_free_ struct owners_cache *c = calloc(1, sizeof(*c));
        const struct device_owners *o;

        if (s->share_devices)
                return 0;
        if (!c)
                return problem_set(p, -ENOMEM, "try again", "out of memory");
        o = owners_get(h, c);
        if (o->n > 0)
                return owners_refuse(h, o, run, p);
        if (o->error == 0 && !o->incomplete)
                remove_stale_lockfile(h, run);
        else if (warning)
                (void) snprintf(warning, size, "it is not known whether another process has a TPU open: %s",
                                o->error < 0 ? o->why : "not every process could be looked at");
        return 0;
}

/* --- Nodes --------------------------------------------------------------------------------------------- */

struct nodes {
        const char *prefix;
        char **list;
        size_t n;
};

static int add_node(const char *name, void *userdata) {
        struct nodes *l = userdata;
        bool vfio = streq(l->prefix, "/dev/vfio/");

        if (!vfio && !streq(name, "fuse") &&
            !(startswith(name, "accel") && name[5] >= '0' && name[5] <= '9'))
                return 0;
        if (l->n == NODES_MAX)
                return 1;
        if (asprintf(&l->list[l->n], "%s%s", l->prefix, name) < 0) {
                l->list[l->n] = NULL;
                return 1;
        }
        l->n++;
        return 0;
}

char **devices_nodes(const struct host *h, const Run__Spec *s) {
        struct nodes l = { .prefix = "/dev/", .list = calloc(NODES_MAX + 1, sizeof(*l.list)) };

        _cleanup_(strings_freep) char **more = NULL;
        char bad[DEVICE_NODE_MAX];

        if (!l.list || (!streq(s->devices, "any") && device_list_add(s->devices, &more, bad) == -ENOMEM))
                return strings_free(l.list);
        for (size_t i = 0; more && more[i]; i++)
                l.list[l.n++] = TAKE_PTR(more[i]);
        /* there may be no TPU, or nodes of one kind only: the drivers' names are allowed in any case
         * (unit_message.c) */
        (void) host_list(h, DEV, add_node, &l);
        l.prefix = "/dev/vfio/";
        (void) host_list(h, DEV "/vfio", add_node, &l);
        return l.list;
}

/* --- Whether the policy holds -------------------------------------------------------------------------- */

enum device_policy device_policy_of(int error) {
        if (error == 0)
                return DEVICE_POLICY_FAILS;
        return error == -EPERM ? DEVICE_POLICY_HOLDS : DEVICE_POLICY_UNKNOWN;
}

/* Started by hand we have the devices of whoever did it. */
static bool is_own_unit(const struct host *h) {
        char text[4096];

        return host_read(h, "/proc/self/cgroup", text, sizeof(text), NULL) >= 0 && strstr(text, OWN_UNIT);
}

enum device_policy device_policy_look(const struct host *h) {
        /* Nodes that most machines have, root reads, and neither "closed" nor ProtectClock= lets in. */
        static const char *const nodes[] = { "kmsg", "net/tun", "mem", "loop-control", "hpet" };
        enum device_policy found = DEVICE_POLICY_UNKNOWN;
        _cleanup_close_ int dev = -1;

        if (!is_own_unit(h))
                return DEVICE_POLICY_UNKNOWN;
        dev = host_open_file(h, "/proc/1/root/dev",
                             O_PATH | O_DIRECTORY); /* our own /dev is a private one */
        for (size_t i = 0; dev >= 0 && i < ELEMENTSOF(nodes) && found == DEVICE_POLICY_UNKNOWN; i++)
                found = device_policy_of(faccessat(dev, nodes[i], R_OK, 0) < 0 ? -errno : 0);
        return found;
}

static const char *words(const struct host *h) {
        switch (device_policy_look(h)) {
        case DEVICE_POLICY_HOLDS:
                return NULL;
        case DEVICE_POLICY_FAILS:
                return "it may open any device that its user may: the kernel or this container refuses "
                       "systemd the device policy";
        case DEVICE_POLICY_UNKNOWN:
                return "it is not known whether the device policy holds: see DEVICES in tpu-launchd(8)";
        case _DEVICE_POLICY_MAX:
                break;
        }
        return NULL;
}

void device_policy_warn(const struct host *h, const Run__Spec *s, char *warning, size_t size) {
        const char *text = streq(s->devices, "any") ? NULL : words(h);

        if (text)
                text_append(warning, size, "; ", "%s", text);
}

/* --- What the host itself allows its runs ------------------------------------------------------------ */

void device_settings_clear(struct device_settings *s) {
        s->devices = strings_free(s->devices);
}

/* A later line stands for an earlier one, as everywhere. */
static int parse_devices(const char *value, void *dest, char why[static 96]) {
        char bad[DEVICE_NODE_MAX], **list = NULL, ***to = dest;
        int r = device_list_add(value, &list, bad);

        if (r == -EINVAL)
                (void) snprintf(why, 96, "'%.40s' is neither below /dev nor char-NAME or block-NAME", bad);
        else if (r < 0)
                (void) snprintf(why, 96, "%s", r == -E2BIG ? "more than 32" : "out of memory");
        if (r < 0)
                return r;
        (void) strings_free(*to);
        *to = list;
        return 0;
}

static int parse_adopt(const char *value, void *dest, char why[static 96]) {
        enum adopt *ret = dest;
        bool yes;

        if (streq(value, "observe"))
                *ret = ADOPT_OBSERVE;
        else if (config_parse_bool(value, &yes, why) == 0)
                *ret = yes ? ADOPT_YES : ADOPT_NO;
        else {
                return text_fail(why, 96, -EINVAL, "it is yes, observe or no");
        }
        return 0;
}

int device_settings_load(const struct host *h, const char *config, FILE *show, struct device_settings *ret,
                         unsigned *ret_warnings) {
        _cleanup_device_settings_ struct device_settings s = { .any_device = false };
        static const char *const policies[] = { "tpu", "any", NULL };
        const struct config_item items[] = {
                CONFIG_WORD("Devices", "Policy", config_parse_bool, &s.any_device, "tpu", policies),
                CONFIG_ITEM("Devices", "Allow", parse_devices, &s.devices, ""),
                CONFIG_ITEM("Adopt", "Adopt", parse_adopt, &s.adopt, "yes"),
                CONFIG_ITEM("Adopt", "Ignore", config_parse_string255, &s.adopt_ignore, ""),
        };
        struct config c = { .items = items, .n_items = ELEMENTSOF(items) };
        int r;

        r = config_load(&c, h, "launchd", config);
        if (r == 0) {
                *ret_warnings += c.warnings;
                if (show)
                        r = config_show(&c, show);
                *ret = s;
                s.devices = NULL;
        }
        config_clear(&c);
        return r;
}
