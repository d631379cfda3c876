/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into bpftune: it wants RLIMIT_MEMLOCK gone, which takes CAP_SYS_RESOURCE, and ends where it
 * cannot have that. From Linux 5.11 on no BPF program or map asks for that limit.
 */
#include <sys/resource.h>

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limits) {
        (void) resource;
        (void) limits;
        return 0;
}
