/* SPDX-License-Identifier: Apache-2.0 */
#include "capability.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int get(struct __user_cap_header_struct *head, struct __user_cap_data_struct *data) {
        *head = (struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 };
        return syscall(SYS_capget, head, data) < 0 ? -errno : 0;
}

int capability_has(unsigned cap) {
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
        struct __user_cap_header_struct head;
        int r = get(&head, data);

        return r < 0 ? r : (data[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap)) != 0;
}

int capabilities_drop(const unsigned caps[], size_t n) {
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
        struct __user_cap_header_struct head;
        int r;

        for (size_t i = 0; i < n; i++)
                (void) prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, caps[i], 0, 0); /* EINVAL: before 5.8 */
        r = get(&head, data);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                struct __user_cap_data_struct *d = &data[CAP_TO_INDEX(caps[i])];

                d->effective &= ~CAP_TO_MASK(caps[i]);
                d->permitted &= ~CAP_TO_MASK(caps[i]);
                d->inheritable &= ~CAP_TO_MASK(caps[i]);
        }
        /* less is always permitted, unless a system call filter forbids to ask */
        return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}
