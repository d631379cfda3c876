/* SPDX-License-Identifier: Apache-2.0 */
/* Any record of /dev/kmsg: what is parsed lies inside it, and a fault has a name. */
#include "kernel_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *text = (const char *) data;
        struct kmsg_record r;
        enum kernel_fault f;

        if (kmsg_parse(text, size, &r) < 0)
                return 0;
        if (r.level > 7 || r.text < text || r.len > size || r.text + r.len > text + size)
                abort();
        f = kernel_fault_of(&r);
        if (f != _KERNEL_FAULT_MAX && (!kernel_fault_name(f)[0] || !kernel_fault_meaning(f)[0]))
                abort();
        return 0;
}
