/* SPDX-License-Identifier: Apache-2.0 */
#include "owners.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "clock.h"
#include "holders.h"
#include "io.h"
#include "paths.h"
#include "proc_pid.h"
#include "secret.h"
#include "utf8.h"

struct look {
        const struct host *h;
        struct device_owners *out;
        unsigned fds;
        uint32_t pid; /* of the process being looked at */
        int dir_fd;      /* its fd directory */
};

static bool is_number(const char *s) {
        return s[0] && s[strspn(s, "0123456789")] == '\0';
}

#define VENDOR_GOOGLE 0x1ae0
#define IOMMU_GROUPS "/sys/kernel/iommu_groups"

struct group_look {
        const struct host *h;
        const char *group;
        unsigned devices, google;
};

static int visit_group_device(const char *name, void *userdata) {
        struct group_look *g = userdata;
        uint64_t vendor = 0;
        char path[160];

        (void) snprintf(path, sizeof(path), IOMMU_GROUPS "/%.10s/devices/%.32s/vendor", g->group, name);
        g->devices++;
        g->google += host_read_u64(g->h, path, &vendor) == 0 && vendor == VENDOR_GOOGLE;
        return 0;
}

/* Another device that a virtual machine or a network program has taken by vfio is no TPU. A group that sysfs
 * does not show is taken for one. */
static bool group_is_tpu(const struct host *h, const char *group) {
        struct group_look g = { h, group, 0, 0 };
        char path[96];

        (void) snprintf(path, sizeof(path), IOMMU_GROUPS "/%.10s/devices", group);
        (void) host_list(h, path, visit_group_device, &g);
        return g.devices == 0 || g.google > 0;
}

/* "/dev/accel0", "/dev/vfio/12"; not /dev/vfio/vfio, which belongs to no chip. */
static bool is_tpu_node(const struct host *h, const char *path) {
        if (startswith(path, "/dev/vfio/"))
                return is_number(path + strlen("/dev/vfio/")) &&
                       group_is_tpu(h, path + strlen("/dev/vfio/"));
        return startswith(path, "/dev/accel") && is_number(path + strlen("/dev/accel"));
}

/* Its control group, where that is a *.service or *.scope. */
static void read_unit(const struct host *h, uint32_t pid, char *ret, size_t size) {
        char group[PROC_PID_GROUP_MAX];
        const char *name;

        proc_pid_group(h, pid, group);
        name = strrchr(group, '/');
        if (name && (strstr(name, ".service") || strstr(name, ".scope")))
                (void) snprintf(ret, size, "%s", name + 1);
}

/* Program and first argument of /proc/PID/cmdline (NUL between words, which host_read() refuses). */
static void read_command(const struct host *h, uint32_t pid, char *ret, size_t size) {
        _cleanup_close_ int fd = -1;
        char path[64], text[512];
        const char *name, *argument;
        bool follows = false;
        size_t shown;
        ssize_t n;

        (void) snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
        fd = host_open_file(h, path, O_RDONLY);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 2);
        if (n <= 0)
                return;
        text[n] = text[n + 1] = '\0';
        name = strrchr(text, '/');
        name = name ? name + 1 : text;
        argument = text + strlen(text) + 1;
        shown = secrets_shown(argument, &follows);
        (void) snprintf(ret, size, "%.40s %.*s%s", name, (int) MIN(shown, 40U), argument,
                        argument[shown] ? "****" : "");
        for (char *p = ret; *p; p++)
                if (*p == '\t' || *p == '\n')
                        *p = ' ';
        (void) utf8_scrub(ret, strlen(ret));
}

static void add_owner(struct look *l, const char *device) {
        struct device_owners *o = l->out;
        struct device_owner *w;
        struct stat st;

        for (size_t i = 0; i < o->n; i++)
                if (o->owners[i].pid == l->pid && streq(o->owners[i].device, device))
                        return;
        if (o->n == DEVICE_OWNERS_MAX) {
                o->incomplete = true;
                return;
        }
        w = &o->owners[o->n++];
        *w = (struct device_owner){ .pid = l->pid };
        (void) snprintf(w->device, sizeof(w->device), "%s", device);
        if (fstat(l->dir_fd, &st) == 0)
                w->uid = st.st_uid;
        read_unit(l->h, l->pid, w->unit, sizeof(w->unit));
        read_command(l->h, l->pid, w->command, sizeof(w->command));
}

/* The first of a socket's processes; systemd keeps those that it hands on. */
static void add_listener(struct look *l, uint64_t inode) {
        for (size_t i = 0; i < l->out->n_ports; i++) {
                struct port_owner *p = &l->out->ports[i];

                if (p->inode != inode || p->pid > 1)
                        continue;
                p->pid = l->pid;
                read_unit(l->h, l->pid, p->unit, sizeof(p->unit));
                read_command(l->h, l->pid, p->command, sizeof(p->command));
        }
}

/* One system call a file: a host has tens of thousands open. */
static void look_into_process(struct look *l) {
        _cleanup_closedir_ DIR *d = fdopendir(l->dir_fd);
        const struct dirent *e;

        if (!d) {
                l->dir_fd = close_fd(l->dir_fd);
                return;
        }
        while ((e = readdir(d))) {
                char target[32];
                ssize_t n;

                if (e->d_name[0] == '.')
                        continue;
                if (++l->fds > OWNERS_FDS_MAX) {
                        l->out->incomplete = true;
                        return;
                }
                n = readlinkat(l->dir_fd, e->d_name, target, sizeof(target));
                if (n <= 0 || (size_t) n >= sizeof(target))
                        continue; /* closed meanwhile, or longer than any of ours */
                target[n] = '\0';
                if (is_tpu_node(l->h, target))
                        add_owner(l, target);
                else if (startswith(target, "socket:["))
                        add_listener(l, strtoull(target + strlen("socket:["), NULL, 10));
        }
}

/* 1: enough was seen. */
static int visit_process(struct look *l, const char *name) {
        char path[64];

        if (!is_number(name) || strlen(name) > 10)
                return 0;
        (void) snprintf(path, sizeof(path), "/proc/%s/fd", name);
        l->dir_fd = host_open_file(l->h, path, O_RDONLY | O_DIRECTORY);
        if (l->dir_fd < 0) {
                l->out->incomplete |= l->dir_fd != -ENOENT && l->dir_fd != -ESRCH; /* it ended meanwhile */
                return 0;
        }
        l->pid = (uint32_t) strtoul(name, NULL, 10);
        look_into_process(l);
        return l->fds > OWNERS_FDS_MAX;
}

#define TCP_LISTENS 0x0a /* include/net/tcp_states.h */

/* Of the host's own network, in which this process is not. Listeners are the first lines (Linux,
 * net/ipv4/tcp_ipv4.c). */
static void find_listeners(struct look *l, const char *path) {
        _cleanup_fclose_ FILE *f = NULL;
        char line[320];

        if (host_open_stream(l->h, path, &f) < 0)
                return; /* no IPv6, say */
        while (fgets(line, sizeof(line), f) && l->out->n_ports < PORT_OWNERS_MAX) {
                unsigned port, state, uid;
                uint64_t inode;

                if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F:] %x %*s %*s %*s %u %*u %" SCNu64, &port,
                           &state, &uid, &inode) != 4)
                        continue; /* the heading */
                if (state != TCP_LISTENS)
                        return;
                if (port_is_of_runs(port))
                        l->out->ports[l->out->n_ports++] = (struct port_owner){ .port = (uint16_t) port,
                                                                                 .uid = uid,
                                                                                 .inode = inode };
        }
}

/* As many as there are: whoever makes thousands hides nobody. */
static int visit_all(struct look *l) {
        _cleanup_closedir_ DIR *d = NULL;
        const struct dirent *e;
        int r = io_directory(host_open_file(l->h, "/proc", O_RDONLY | O_DIRECTORY), &d);

        if (r < 0)
                return r;
        do {
                errno = 0;
                e = readdir(d);
        } while (e && visit_process(l, e->d_name) == 0);
        return e ? 0 : -errno;
}

const struct device_owners *owners_get(const struct host *h, struct owners_cache *c) {
        struct look l = { .h = h, .out = &c->owners };
        usec_t now = host_now(h);
        int r;

        if (c->taken != 0 && now >= c->taken && now - c->taken < OWNERS_KEEP)
                return &c->owners;
        c->owners = (struct device_owners){ 0 };
        find_listeners(&l, "/proc/1/net/tcp");
        find_listeners(&l, "/proc/1/net/tcp6");
        r = visit_all(&l);
        if (r < 0) {
                c->owners = (struct device_owners){ .error = r };
                (void) snprintf(c->owners.why, sizeof(c->owners.why), "/proc cannot be listed: %s",
                                strerror(-r));
        }
        c->taken = MAX(now, (usec_t) 1);
        return &c->owners;
}

/* --- The refusal of a run ------------------------------------------------------------------------------ */

#define OR_BESIDE ", or --share-devices"

/* The group that this process is of; NULL: a run of ours has it, or it has just ended. */
static const struct holder_group *find_group(const struct holder_group *all, size_t n, uint32_t pid) {
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < all[i].n_pids; k++)
                        if (all[i].pids[k] == pid)
                                return &all[i];
        return NULL;
}

/* Where it stands, of a process in state D; "" of others. */
static void print_stuck(const struct host *h, uint32_t pid, char *buf, size_t size) {
        char path[64], wait[64] = "";
        struct proc_pid_stat s;

        if (proc_pid_stat_read(h, pid, &s) < 0 || s.state != 'D')
                return;
        (void) snprintf(path, sizeof(path), "/proc/%u/wchan", pid);
        (void) host_read(h, path, wait, sizeof(wait), NULL); /* or it is not shown */
        (void) snprintf(buf, size, "; it is in state D%s%.40s, where no signal ends it",
                        wait[0] ? " in " : "", wait);
}

static void print_place(const struct host *h, const struct holder_group *g, char *buf, size_t size) {
        char since[CLOCK_TEXT_MAX];
        usec_t now = host_now(h);

        (void) clock_text(host_now_real(h) - (now - MIN(now, g->started_boot)), since);
        (void) snprintf(buf, size, "%s%.60s since %s", g->container[0] || g->unit[0] ? " in " : "",
                        g->container[0] ? g->container : g->unit, since);
}

static void print_remedy(const struct device_owner *o, const struct holder_group *g, char *buf,
                         size_t size) {
        int unit = (int) strcspn(o->unit, ".");
        char stop[160];

        if (startswith(o->unit, RUN_UNIT_PREFIX))
                (void) snprintf(buf, size, "tpuctl stop %.*s" OR_BESIDE,
                                unit - (int) strlen(RUN_UNIT_PREFIX), o->unit + strlen(RUN_UNIT_PREFIX));
        else if (g && container_command(g->container, "stop", stop, sizeof(stop)))
                (void) snprintf(buf, size, "%s # on that host" OR_BESIDE, stop);
        else
                (void) snprintf(buf, size, "tpuctl run --replace, on that host: kill %u" OR_BESIDE, o->pid);
}

int owners_refuse(const struct host *h, const struct device_owners *o, const char *run, struct problem *p) {
        const struct device_owner *first = &o->owners[0];
        _cleanup_free_ struct holder_group *all = calloc(HOLDER_GROUPS_MAX, sizeof(*all));
        char place[160] = "", stuck[128] = "", user[64], remedy[200];
        const struct holder_group *g;
        size_t left_out;

        assert(o->n > 0);
        g = all ? find_group(all, holders_group(h, o, all, &left_out), first->pid) : NULL;
        print_stuck(h, first->pid, stuck, sizeof(stuck));
        print_remedy(first, g, remedy, sizeof(remedy));
        if (g)
                print_place(h, g, place, sizeof(place));
        else if (first->unit[0])
                (void) snprintf(place, sizeof(place), " in %s", first->unit);
        if (g)
                (void) snprintf(user, sizeof(user), "user %s", g->user);
        else
                (void) snprintf(user, sizeof(user), "uid %u", first->uid);
        return problem_set(p, -EBUSY, remedy, "run %s: %s is in use by process %u of %s (%s)%s%s", run,
                           first->device, first->pid, user, first->command, place, stuck);
}
