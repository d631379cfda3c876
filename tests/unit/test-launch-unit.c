/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd is asked for, as it goes over the bus: the message is made by sd-bus, and read back as
 * text. */
#include <sys/socket.h>

#include "devices.h"
#include "scratch.h"
#include "test.h"
#include "texts.h"
#include "unit_message.h"

struct wire {
        sd_bus *bus;
        char *text;
        size_t len;
};

/* A connection that nobody answers: messages need one to be made, and go nowhere. */
static struct wire wire_new(void) {
        struct wire w = { .bus = NULL };
        int fds[2];

        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
        ASSERT_OK(sd_bus_new(&w.bus));
        ASSERT_OK(sd_bus_set_fd(w.bus, fds[0], fds[0]));
        ASSERT_OK(sd_bus_start(w.bus));
        (void) close(fds[1]);
        return w;
}

static void wire_free(struct wire *w) {
        free(w->text);
        w->bus = sd_bus_close_unref(w->bus);
}
#define _cleanup_wire_ _cleanup_(wire_free)

static void make(struct wire *w, const struct unit_spec *s,
                 int (*new)(sd_bus *, const struct unit_spec *, sd_bus_message **)) {
        sd_bus_message *m = NULL;
        FILE *f;

        free(TAKE_PTR(w->text));
        f = open_memstream(&w->text, &w->len);
        ASSERT_TRUE(f);
        ASSERT_OK(new(w->bus, s, &m));
        ASSERT_OK(sd_bus_message_seal(m, 1, 0));
        ASSERT_OK(sd_bus_message_dump(m, f, 0));
        (void) fclose(f);
        sd_bus_message_unref(m);
}

/* The text after the property's name, within its own lines; NULL: it is not there. */
static const char *property(const struct wire *w, const char *name) {
        char quoted[64];
        const char *at;

        (void) snprintf(quoted, sizeof(quoted), "STRING \"%s\";", name);
        at = strstr(w->text, quoted);
        return at ? at + strlen(quoted) : NULL;
}

static bool has_number(const struct wire *w, const char *name, uint64_t value) {
        const char *at = property(w, name), *number = at ? strstr(at, "UINT64 ") : NULL;

        return number && strtoull(number + strlen("UINT64 "), NULL, 10) == value;
}

/* A run that prints without end: journald is told where it stops to listen. */
static void test_lines_are_bounded(void) {
        _cleanup_wire_ struct wire w = wire_new();
        Run__Spec run = RUN__SPEC__INIT;
        struct kept_run j = { .name = "a-b", .id = "0123456789abcdef0123456789abcdef",
                              .user = (char[]){ "alice" }, .spec = &run };
        struct unit_spec s = { .kept = &j };
        const char *burst;

        make(&w, &s, unit_message_new);
        burst = property(&w, "LogRateLimitBurst");
        burst = burst ? strstr(burst, "UINT32 ") : NULL;
        ASSERT_TRUE(has_number(&w, "LogRateLimitIntervalUSec", RUN_LINES_EVERY));
        ASSERT_TRUE(burst && strtoul(burst + strlen("UINT32 "), NULL, 10) == RUN_LINES_MOST);
}

/* Limits of the slice are the slice's: the service has none, and without any there is no unit beside it. */
static void test_memory(void) {
        _cleanup_wire_ struct wire w = wire_new();
        Run__Spec run = RUN__SPEC__INIT;
        struct kept_run j = { .name = "a-b", .id = "0123456789abcdef0123456789abcdef",
                              .user = (char[]){ "alice" }, .spec = &run };
        struct unit_spec s = { .kept = &j };
        const char *slice;

        make(&w, &s, unit_message_new);
        ASSERT_TRUE(!property(&w, "MemoryMax") && !property(&w, "MemoryHigh") &&
                    !property(&w, "Training run a-b and its containers"));
        ASSERT_TRUE(has_number(&w, "LimitMEMLOCK", UINT64_MAX) &&
                    has_number(&w, "LimitNOFILE", RUN_NOFILE) &&
                    has_number(&w, "LimitCORE", 0) && has_number(&w, "TimeoutStopUSec", 90 * USEC_PER_SEC));
        ASSERT_TRUE(!property(&w, "CPUAffinity") && !property(&w, "NUMAPolicy"));
        run.has_memory = true;
        run.memory = 1000;
        run.cpus = run.numa = (char[]){ "0" };
        run.core = (char[]){ "keep" };
        make(&w, &s, unit_message_new);
        ASSERT_TRUE(has_number(&w, "MemoryMax", 1000) &&
                    !property(&w, "Training run a-b and its containers"));
        ASSERT_TRUE(property(&w, "CPUAffinity") && property(&w, "NUMAPolicy") && property(&w, "NUMAMask") &&
                    has_number(&w, "LimitCORE", UINT64_MAX));
        run.has_memory = false;
        run.has_memory_total = run.has_memory_high = true;
        run.memory_total = 64ull << 30;
        run.memory_high = 60ull << 30;
        make(&w, &s, unit_message_new);
        slice = property(&w, "Training run a-b and its containers");
        ASSERT_TRUE(slice && property(&w, "MemoryMax") > slice && property(&w, "MemoryHigh") > slice);
        ASSERT_TRUE(has_number(&w, "MemoryMax", 64ull << 30) && has_number(&w, "MemoryHigh", 60ull << 30));
        make(&w, &s, unit_message_beside); /* it begins in the slice that is there */
        ASSERT_TRUE(!property(&w, "MemoryMax") && property(&w, "Slice"));
}

/* The value of the DeviceAllow property, as the dump has it, holds this entry with these rights. */
static bool allows_by(const struct wire *w, const char *node, const char *rights) {
        const char *at = property(w, "DeviceAllow"),
                *end = at ? strstr(at, "STRING \"LoadCredential\"") : NULL;
        char quoted[80];
        const char *entry;

        (void) snprintf(quoted, sizeof(quoted), "STRING \"%s\";", node);
        entry = at ? strstr(at, quoted) : NULL;
        if (!entry || (end && entry > end))
                return false;
        entry += strlen(quoted);
        (void) snprintf(quoted, sizeof(quoted), "STRING \"%s\"", rights);
        return strstr(entry, "STRING") == strstr(entry, quoted);
}

static bool allows(const struct wire *w, const char *node) {
        return allows_by(w, node, "rw");
}

/* Of a run in a container the engine's client is root's, and has the unit's control group to divide. What
 * it makes is limited as any run is. */
static void test_container(void) {
        _cleanup_wire_ struct wire w = wire_new();
        Run__Spec run = RUN__SPEC__INIT;
        struct kept_run j = { .name = "a", .id = "0123456789abcdef0123456789abcdef", .remote = true,
                              .user = (char[]){ "alice" }, .spec = &run };
        char *const nodes[] = { (char[]){ "/dev/accel0" }, NULL };
        struct unit_spec s = { .kept = &j, .devices = nodes };

        make(&w, &s, unit_message_new);
        ASSERT_TRUE(strstr(property(&w, "User"), "\"alice\"") && property(&w, "NoNewPrivileges") &&
                    !property(&w, "Delegate") && allows(&w, "/dev/accel0"));
        run.image = (char[]){ "localhost/py:1" };
        make(&w, &s, unit_message_new);
        ASSERT_TRUE(!property(&w, "User") && !property(&w, "NoNewPrivileges") && property(&w, "Delegate"));
        ASSERT_TRUE(strstr(property(&w, "DevicePolicy"), "\"closed\"") &&
                    allows_by(&w, "/dev/accel0", "rwm") && allows_by(&w, "char-vfio*", "rwm"));
        ASSERT_TRUE(has_number(&w, "LimitMEMLOCK", UINT64_MAX) &&
                    strstr(property(&w, "KillMode"), "\"mixed\""));
        /* its engine's words are in the handover, and nowhere in the unit */
        ASSERT_TRUE(!strstr(w.text, "podman") && !strstr(w.text, "localhost/py"));
}

static const char *const machine[] = { "accel0", "accel1", "accelerometer", "fuse", "kmsg", "sda", "vfio/3",
                                       "vfio/vfio" };

/* The TPU's nodes that are there, their drivers, gcsfuse's, and what the run names: nothing else. */
static void test_devices(void) {
        _cleanup_wire_ struct wire w = wire_new();
        _cleanup_scratch_ struct scratch scratch = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        Run__Spec run = RUN__SPEC__INIT;
        struct kept_run j = { .name = "a", .id = "0123456789abcdef0123456789abcdef",
                              .user = (char[]){ "alice" }, .spec = &run };
        struct unit_spec s = { .kept = &j };
        char path[64];
        char **nodes;

        for (size_t i = 0; i < ELEMENTSOF(machine); i++) {
                (void) snprintf(path, sizeof(path), "proc/1/root/dev/%s", machine[i]);
                scratch_write(&scratch, path, "");
        }
        ASSERT_OK(host_open(scratch.path, &h));
        run.devices = (char[]){ "/dev/net/tun,char-nvidia*" };
        s.devices = nodes = devices_nodes(&h, &run);
        make(&w, &s, unit_message_new);
        ASSERT_TRUE(strstr(property(&w, "DevicePolicy"), "\"closed\"") != NULL);
        ASSERT_TRUE(allows(&w, "/dev/accel0") && allows(&w, "/dev/accel1") && allows(&w, "/dev/vfio/3") &&
                    allows(&w, "/dev/vfio/vfio") && allows(&w, "/dev/fuse") && allows(&w, "char-accel*") &&
                    allows(&w, "char-vfio*") && allows(&w, "/dev/net/tun") && allows(&w, "char-nvidia*"));
        ASSERT_TRUE(!allows(&w, "/dev/kmsg") && !allows(&w, "/dev/sda") &&
                    !allows(&w, "/dev/accelerometer"));
        make(&w, &s, unit_message_beside);
        ASSERT_TRUE(allows(&w, "/dev/accel0") && !allows(&w, "/dev/kmsg"));
        run.devices = (char[]){ "any" };
        make(&w, &s, unit_message_new);
        ASSERT_TRUE(!property(&w, "DevicePolicy") && !property(&w, "DeviceAllow"));
        (void) strings_free(nodes);
}

static void test_device_lists(void) {
        static const char *const wrong[] = { "gpu", "/dev/", "/dev/../etc", "/dev/a//b", "/dev/a/", "/etc/x",
                                             "/dev/a*", "char-", "char-a/b",
                                             "/dev/a b c;", "/dev/\001" };
        char bad[DEVICE_NODE_MAX], **list = NULL;

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                ASSERT_EQ(device_list_add(wrong[i], &list, bad), -EINVAL);
        ASSERT_TRUE(!list);
        ASSERT_OK(device_list_add(" , ", &list, bad));
        ASSERT_TRUE(!list);
        ASSERT_OK(device_list_add("/dev/a,/dev/b/c", &list, bad));
        ASSERT_OK(device_list_add("block-nvme\tchar-*", &list, bad));
        ASSERT_TRUE(streq(list[0], "/dev/a") && streq(list[1], "/dev/b/c") && streq(list[2], "block-nvme") &&
                    streq(list[3], "char-*") && !list[4]);
        ASSERT_EQ(device_list_add("/dev/x,gpu", &list, bad), -EINVAL);
        ASSERT_STREQ(bad, "gpu");
        ASSERT_TRUE(!list[4]);
        for (size_t i = 4; i < DEVICE_LIST_MAX; i++)
                ASSERT_OK(device_list_add("/dev/z", &list, bad));
        ASSERT_EQ(device_list_add("/dev/z", &list, bad), -E2BIG);
        (void) strings_free(list);
}

/* EPERM is the policy's answer; all else tells nothing, or that there is none. And each is said with the
 * start. */
static void test_policy(void) {
        _cleanup_scratch_ struct scratch scratch = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        Run__Spec run = RUN__SPEC__INIT;
        char text[384] = "";

        ASSERT_EQ(device_policy_of(-EPERM), DEVICE_POLICY_HOLDS);
        ASSERT_EQ(device_policy_of(-EACCES), DEVICE_POLICY_UNKNOWN);
        ASSERT_EQ(device_policy_of(-ENOENT), DEVICE_POLICY_UNKNOWN);
        ASSERT_OK(host_open(scratch.path, &h));
        ASSERT_EQ(device_policy_look(&h), DEVICE_POLICY_UNKNOWN);
        scratch_write(&scratch, "proc/self/cgroup", "0::/system.slice/tpu-launchd.service\n");
        ASSERT_EQ(device_policy_look(&h), DEVICE_POLICY_UNKNOWN);
        device_policy_warn(&h, &run, text, sizeof(text));
        ASSERT_TRUE(startswith(text, "it is not known whether the device policy holds"));
        scratch_write(&scratch, "proc/1/root/dev/mem", "");
        ASSERT_EQ(device_policy_look(&h), DEVICE_POLICY_FAILS);
        device_policy_warn(&h, &run, text, sizeof(text));
        ASSERT_TRUE(strstr(text, "; it may open any device that its user may: the kernel or this container "
                                 "refuses") != NULL);
        scratch_write(&scratch, "proc/self/cgroup", "0::/user.slice\n");
        ASSERT_EQ(device_policy_look(&h), DEVICE_POLICY_UNKNOWN);
        run.devices = (char[]){ "any" };
        text[0] = '\0';
        device_policy_warn(&h, &run, text, sizeof(text));
        ASSERT_STREQ(text, "");
}

int main(void) {
        test_lines_are_bounded();
        test_memory();
        test_devices();
        test_container();
        test_device_lists();
        test_policy();
        return EXIT_SUCCESS;
}
