/* SPDX-License-Identifier: Apache-2.0 */
/* What a run that is refused says of who holds the chips: processes as people and engines start them. */
#include "owners.h"
#include "process-tree.h"

#define ID     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DOCKER "/system.slice/docker-" ID ".scope"

static void refuse(const struct scratch *s, const char *text, const char *remedy) {
        static struct owners_cache c;
        struct clock_fixed now = { .boot = 1000 * USEC_PER_SEC, .real = 2000000000 * (usec_t) USEC_PER_SEC };
        _cleanup_host_ struct host h = HOST_NULL;
        struct problem p;

        c = (struct owners_cache){ .taken = 0 };
        ASSERT_OK(host_open(s->path, &h));
        h.clock = clock_from(&now);
        ASSERT_EQ(owners_refuse(&h, owners_get(&h, &c), "a", &p), -EBUSY);
        ASSERT_STREQ(p.text, text);
        ASSERT_STREQ(p.remedy, remedy);
}

static void of_a_container(void) {
        static const struct tree_process p = { 31, 1, .start = 40000, .control_group = DOCKER,
                                               .command = "python3 train.py --token x" };
        _cleanup_scratch_ struct scratch s = scratch_new();

        tree_add(&s, &p);
        tree_open(&s, 31, "/dev/vfio/1");
        scratch_write(&s, "etc/passwd", "root:x:0:0::/root:/bin/sh\n");
        refuse(&s,
               "run a: /dev/vfio/1 is in use by process 31 of user root (python3 train.py) in docker "
               "0123456789ab since 2033-05-18T03:23:20.000Z",
               "sudo docker stop 0123456789ab # on that host, or --share-devices");
}

static void of_a_login(void) {
        static const struct tree_process p = { 31, 1, .start = 40000,
                                               .control_group = "/user.slice/session-3.scope",
                                               .command = "python3 train.py" };
        _cleanup_scratch_ struct scratch s = scratch_new();

        tree_add(&s, &p);
        tree_open(&s, 31, "/dev/vfio/1");
        scratch_write(&s, "proc/31/stat", "31 (a) b) D 1 31 31 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 40000 0 0\n");
        scratch_write(&s, "proc/31/wchan", "vfio_pci_core_disable");
        refuse(&s,
               "run a: /dev/vfio/1 is in use by process 31 of user uid0 (python3 train.py) in "
               "session-3.scope since 2033-05-18T03:23:20.000Z; it is in state D in vfio_pci_core_disable, "
               "where no signal ends it",
               "tpuctl run --replace, on that host: kill 31, or --share-devices");
}

static void of_a_run(void) {
        static const struct tree_process p = { 31, 1, .start = 40000,
                                               .control_group = "/tpu.slice/tpu-run.slice/tpu-run-b.slice/"
                                                                "tpu-run-b.service",
                                               .command = "python3 train.py" };
        _cleanup_scratch_ struct scratch s = scratch_new();

        tree_add(&s, &p);
        tree_open(&s, 31, "/dev/vfio/1");
        refuse(&s,
               "run a: /dev/vfio/1 is in use by process 31 of uid 0 (python3 train.py) in tpu-run-b.service",
               "tpuctl stop b, or --share-devices");
}

TEST_MAIN(of_a_container, of_a_login, of_a_run)
