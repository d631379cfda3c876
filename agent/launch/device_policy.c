/* SPDX-License-Identifier: Apache-2.0 */
#include "device_policy.h"

#include <fcntl.h>

#include "paths.h"

#define OWN_UNIT "/tpu-launchd.service"

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

void device_policy_warn(const struct host *h, const struct run_spec *s, char *warning, size_t size) {
        const char *text = s->any_device ? NULL : words(h);
        size_t n = strlen(warning);

        if (text && n < size)
                (void) snprintf(warning + n, size - n, "%s%s", n > 0 ? "; " : "", text);
}
