/* SPDX-License-Identifier: Apache-2.0 */
/* Who has the chips open: a /proc of a test's own, looked at as tpu-launchd does. */
#include <fcntl.h>

#include "owners.h"
#include "scratch.h"

static void add_process(const struct scratch *s, unsigned pid, const char *group, const char *command,
                        size_t len) {
        char path[512], name[64];
        FILE *f;

        (void) snprintf(name, sizeof(name), "proc/%u/cgroup", pid);
        scratch_write(s, name, group);
        (void) snprintf(name, sizeof(name), "proc/%u/cmdline", pid);
        scratch_path(s, name, path);
        f = fopen(path, "w");
        ASSERT_TRUE(f && fwrite(command, 1, len, f) == len);
        ASSERT_OK(fclose(f));
}

static void add_fd(const struct scratch *s, unsigned pid, unsigned fd, const char *target) {
        char name[64];

        (void) snprintf(name, sizeof(name), "proc/%u/fd/%u", pid, fd);
        scratch_link(s, name, target);
}

static const struct device_owners *look(const struct scratch *s, struct owners_cache *c, usec_t boot) {
        static struct clock_fixed now;
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(s->path, &h));
        now.boot = boot;
        h.clock = clock_from(&now);
        return owners_get(&h, c);
}

static void found(void) {
        static const char train[] = "/usr/bin/python3\0train.py\0--token=secret", odd[] = "\033[2J\xff\n";
        _cleanup_scratch_ struct scratch s = scratch_new();
        static struct owners_cache c;
        const struct device_owners *o;

        add_process(&s, 812, "1:name=systemd:/tpu.slice/tpu-run-a.slice/tpu-run-a.service\n0::/x\n", train,
                    sizeof(train));
        add_fd(&s, 812, 3, "/dev/vfio/17");
        add_fd(&s, 812, 4, "/dev/vfio/17"); /* once is enough */
        add_fd(&s, 812, 5, "/dev/vfio/vfio");
        add_fd(&s, 812, 6, "/dev/null");
        add_fd(&s, 812, 7, "socket:[1234]");
        add_fd(&s, 812, 8, "/dev/accelerate/0");
        add_fd(&s, 812, 9, "/dev/vfio/");
        add_fd(&s, 812, 10, "/home/someone/a/very/long/path/dev/accel0");
        add_process(&s, 9, "0::/user.slice/session-1.scope\n", odd, sizeof(odd));
        add_fd(&s, 9, 3, "/dev/accel0");
        scratch_write(&s, "proc/self/fd/x", "");
        scratch_write(&s, "proc/77/status", ""); /* it ended: no fd */
        o = look(&s, &c, 10);
        ASSERT_EQ(o->error, 0);
        ASSERT_TRUE(!o->incomplete);
        ASSERT_EQ(o->n, 2);
        ASSERT_EQ(o->owners[0].pid, 812); /* in strcmp order: "812" < "9" */
        ASSERT_STREQ(o->owners[0].device, "/dev/vfio/17");
        ASSERT_STREQ(o->owners[0].unit, "tpu-run-a.service");
        ASSERT_STREQ(o->owners[0].command, "python3 train.py"); /* and no further argument */
        ASSERT_STREQ(o->owners[1].device, "/dev/accel0");
        ASSERT_STREQ(o->owners[1].unit, "session-1.scope");
        ASSERT_TRUE(!strchr(o->owners[1].command, '\033') && !strchr(o->owners[1].command, '\xff'));
}

/* Listeners come first in the kernel's list; systemd keeps the socket that it hands on. */
static void ports(void) {
        static const char head[] = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "
                                   "retrnsmt   uid  timeout inode\n",
                          of[] = "   0: %s 00000000:0000 %s 00000000:00000000 00:00000000 00000000  1000 "
                                 "       0 %u 1 0000000000000000 100 0 0 10 0\n";
        _cleanup_scratch_ struct scratch s = scratch_new();
        static struct owners_cache c;
        const struct device_owners *o;
        char text[1024];
        size_t n = 0;

        n += (size_t) snprintf(text + n, sizeof(text) - n, "%s", head);
        n += (size_t) snprintf(text + n, sizeof(text) - n, of, "0100007F:211C", "0A", 77); /* 8476 */
        n += (size_t) snprintf(text + n, sizeof(text) - n, of, "00000000:0016", "0A", 78);
        n += (size_t) snprintf(text + n, sizeof(text) - n, of, "00000000:2117", "01", 79); /* connected */
        scratch_write(&s, "proc/1/net/tcp", text);
        n = (size_t) snprintf(text, sizeof(text), "%s", head);
        (void) snprintf(text + n, sizeof(text) - n, of, "00000000000000000000000000000000:20EF", "0A", 80);
        scratch_write(&s, "proc/1/net/tcp6", text); /* 8431 */
        add_process(&s, 1, "0::/init.scope\n", "init", 5);
        add_fd(&s, 1, 3, "socket:[77]");
        add_process(&s, 20, "0::/system.slice/web.service\n", "web\0-p\0 8476", 11);
        add_fd(&s, 20, 3, "socket:[77]");
        add_fd(&s, 20, 4, "socket:[78]");
        add_fd(&s, 20, 5, "socket:[79]");
        o = look(&s, &c, 10);
        ASSERT_EQ(o->n, 0); /* no chip */
        ASSERT_EQ(o->n_ports, 2);
        ASSERT_EQ(o->ports[0].port, 8476);
        ASSERT_EQ(o->ports[0].pid, 20);
        ASSERT_EQ(o->ports[0].uid, 1000);
        ASSERT_STREQ(o->ports[0].unit, "web.service");
        ASSERT_STREQ(o->ports[0].command, "web -p");
        ASSERT_EQ(o->ports[1].port, 8431);
        ASSERT_EQ(o->ports[1].pid, 0); /* of another network, or not seen */
}

/* Whoever asks how often: a second's worth of looking at most. */
static void kept(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        static struct owners_cache c;

        scratch_write(&s, "proc/1/x", "");
        ASSERT_EQ(look(&s, &c, 5 * USEC_PER_SEC)->n, 0);
        add_process(&s, 9, "", "x", 2);
        add_fd(&s, 9, 3, "/dev/accel0");
        ASSERT_EQ(look(&s, &c, 5 * USEC_PER_SEC + OWNERS_KEEP - 1)->n, 0);
        ASSERT_EQ(look(&s, &c, 5 * USEC_PER_SEC + OWNERS_KEEP)->n, 1);
}

static void bounds(void) {
        _cleanup_scratch_ struct scratch s = scratch_new(), none = scratch_new();
        _cleanup_scratch_ struct scratch many = scratch_new();
        static struct owners_cache c, empty, of_many;
        const struct device_owners *o;

        for (unsigned i = 0; i < DEVICE_OWNERS_MAX + 1; i++)
                add_fd(&s, 1 + i, 3, "/dev/accel0");
        o = look(&s, &c, 1);
        ASSERT_EQ(o->n, DEVICE_OWNERS_MAX);
        ASSERT_TRUE(o->incomplete);
        for (unsigned i = 0; i < 4200; i++) { /* whoever makes processes hides nobody */
                char name[64];

                (void) snprintf(name, sizeof(name), "proc/%u/fd/0", 100000 + i);
                scratch_link(&many, name, "/dev/null");
        }
        add_fd(&many, 99, 3, "/dev/accel0");
        o = look(&many, &of_many, 1);
        ASSERT_EQ(o->n, 1);
        ASSERT_FALSE(o->incomplete || o->error < 0);
        o = look(&none, &empty, 1);
        ASSERT_EQ(o->error, -ENOENT);
        ASSERT_TRUE(o->why[0] != '\0');
}

/* Real descriptors: this process has a device open that is no chip, and a link that looks like one is a
 * file. */
static void real_proc(void) {
        static struct owners_cache c;
        _cleanup_host_ struct host h = HOST_NULL;
        const struct device_owners *o;

        ASSERT_OK(host_open(NULL, &h));
        o = owners_get(&h, &c);
        ASSERT_EQ(o->error, 0);
        for (size_t i = 0; i < o->n; i++)
                ASSERT_TRUE(o->owners[i].pid != (uint32_t) getpid());
}

TEST_MAIN(found, ports, kept, bounds, real_proc)
