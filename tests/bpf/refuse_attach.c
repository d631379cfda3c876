/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: bpf() attaches nothing, as kernels before 5.19 say to who has no CAP_BPF
 * (kernel/bpf/syscall.c, and kernel.unprivileged_bpf_disabled). All else of syscall() goes its way.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

long syscall(long number, ...) {
        long (*real)(long, ...) = (long (*)(long, ...)) dlsym(RTLD_NEXT, "syscall");
        va_list ap;
        long a[6];

        va_start(ap, number);
        for (int i = 0; i < 6; i++)
                a[i] = va_arg(ap, long);
        va_end(ap);
        if (number == SYS_bpf && a[0] == BPF_RAW_TRACEPOINT_OPEN) {
                errno = EPERM;
                return -1;
        }
        return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
