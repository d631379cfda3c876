/* SPDX-License-Identifier: Apache-2.0 */
/* Which holders of chips are one run, and what it is called: process trees as people, engines and schedulers
 * make them. */
#include "holders.h"
#include "owners.h"
#include "process-tree.h"

#define SESSION   "/user.slice/user-1000.slice/session-3.scope"
#define DOCKER_ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_ID  "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define DOCKER    "/system.slice/docker-" DOCKER_ID ".scope"

struct groups {
        struct holder_group all[HOLDER_GROUPS_MAX];
        size_t n, left_out;
};

static void look(const struct scratch *s, struct groups *ret) {
        static struct owners_cache c;
        _cleanup_host_ struct host h = HOST_NULL;

        c = (struct owners_cache){ .taken = 0 };
        ASSERT_OK(host_open(s->path, &h));
        ret->n = holders_group(&h, owners_get(&h, &c), ret->all, &ret->left_out);
}

static void add_all(const struct scratch *s, const struct tree_process *all, size_t n) {
        for (size_t i = 0; i < n; i++)
                tree_add(s, &all[i]);
        scratch_write(s, "etc/passwd", "root:x:0:0::/root:/bin/sh\n");
}

/* torchrun gives each rank a session of its own; an ssh without a terminal. */
static void ranks_of_one_launcher(void) {
        static const struct tree_process all[] = {
                { 10, 1, .start = 1000, .control_group = SESSION, .command = "sshd: alice" },
                { 11, 10, .start = 1010, .control_group = SESSION, .command = "bash -c ./go" },
                { 12, 11, 11, 11, 0, 1020, SESSION, "python3 /usr/bin/torchrun" },
                { 13, 12, .start = 1030, .control_group = SESSION, .command = "python3 /srv/Train_X.py" },
                { 14, 12, .start = 1040, .control_group = SESSION, .command = "python3 /srv/Train_X.py" },
        };
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct groups g;

        add_all(&s, all, ELEMENTSOF(all));
        tree_open(&s, 13, "/dev/accel0");
        tree_open(&s, 14, "/dev/accel1");
        tree_open(&s, 14, "/dev/accel0");
        look(&s, &g);
        ASSERT_EQ(g.n, 1);
        ASSERT_EQ(g.all[0].main_pid, 12);
        ASSERT_EQ(g.all[0].start_ticks, 1020);
        ASSERT_EQ(g.all[0].n_pids, 2);
        ASSERT_STREQ(g.all[0].devices, "/dev/accel0 /dev/accel1");
        ASSERT_STREQ(g.all[0].unit, "session-3.scope");
        ASSERT_STREQ(g.all[0].name, "root-train-x");
}

/* Two panes of tmux: shells with terminals in one scope. Each pane's job is a run of its own. */
static void panes_of_a_terminal(void) {
        static const struct tree_process all[] = {
                { 20, 1, .start = 1, .control_group = SESSION, .command = "tmux: server" },
                { 21, 20, 21, 21, 34816, 2, SESSION, "-bash" },
                { 22, 20, 22, 22, 34817, 3, SESSION, "-bash" },
                { 23, 21, 23, 21, 34816, 4, SESSION, "python3 a.py" },
                { 24, 22, 24, 22, 34817, 5, SESSION, "python3 a.py" },
                { 25, 24, 24, 22, 34817, 6, SESSION, "python3 a.py" }, /* a child in the job's group */
        };
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct groups g;

        add_all(&s, all, ELEMENTSOF(all));
        tree_open(&s, 23, "/dev/accel0");
        tree_open(&s, 24, "/dev/accel1");
        tree_open(&s, 25, "/dev/accel1");
        look(&s, &g);
        ASSERT_EQ(g.n, 2);
        ASSERT_EQ(g.all[0].main_pid, 23);
        ASSERT_EQ(g.all[1].main_pid, 24);
        ASSERT_EQ(g.all[1].n_pids, 2);
        ASSERT_STREQ(g.all[0].name, "root-a");
        ASSERT_STREQ(g.all[1].name, "root-a-24"); /* never two of one name */
}

/* docker run -it: Python leads the session at the terminal, and its children are of its process group. */
static void containers(void) {
        static const struct tree_process all[] = {
                { 30, 1, .start = 1, .control_group = "/system.slice/docker.service", .command = "shim" },
                { 31, 30, 31, 31, 34816, 2, DOCKER, "python3 train.py" },
                { 32, 31, 31, 31, 34816, 3, DOCKER, "python3 train.py" },
                { 33, 1, .start = 4,
                  .control_group = "/machine.slice/libpod-" OTHER_ID ".scope/container",
                  .command = "python3 train.py" },
        };
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct groups g;

        add_all(&s, all, ELEMENTSOF(all));
        tree_open(&s, 31, "/dev/vfio/1");
        tree_open(&s, 32, "/dev/vfio/2");
        tree_open(&s, 33, "/dev/vfio/3");
        look(&s, &g);
        ASSERT_EQ(g.n, 2);
        ASSERT_EQ(g.all[0].main_pid, 31);
        ASSERT_STREQ(g.all[0].container, "docker 0123456789ab");
        ASSERT_STREQ(g.all[0].name, "docker-0123456789ab");
        ASSERT_STREQ(g.all[1].container, "podman fedcba987654");
}

/* What the site called it, wherever it can be known. Words of the environment that look alike are none. */
static void names_of_containers(void) {
        static const struct tree_process all[] = {
                { 30, 1, .start = 1, .control_group = "/system.slice/docker.service", .command = "shim" },
                { 31, 30, .start = 2, .control_group = DOCKER, .command = "python3 train.py" },
                { 33, 1, .start = 3, .control_group = "/machine.slice/libpod-conmon-" OTHER_ID ".scope",
                  .command = "conmon -c " OTHER_ID " -n Pre_Train -l k8s-file:/x" },
                { 34, 33, .start = 4, .control_group = "/machine.slice/libpod-" OTHER_ID ".scope/container",
                  .command = "catatonit -- python3 train.py" },
                { 35, 34, .start = 5, .control_group = "/machine.slice/libpod-" OTHER_ID ".scope/container",
                  .command = "python3 train.py" },
        };
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct groups g;

        add_all(&s, all, ELEMENTSOF(all));
        scratch_write(&s, "var/lib/docker/containers/" DOCKER_ID "/config.v2.json",
                      "{\"Config\":{\"Env\":[\"A=\\\"Name\\\":\\\"/no\"]},\"Name\":\"/trainer.1\",\"X\":1}");
        tree_open(&s, 31, "/dev/vfio/1");
        tree_open(&s, 35, "/dev/vfio/3");
        look(&s, &g);
        ASSERT_EQ(g.n, 2);
        ASSERT_STREQ(g.all[0].name, "trainer-1");
        ASSERT_STREQ(g.all[1].name, "pre-train");
        ASSERT_EQ(g.all[1].main_pid, 35);
}

/* A user with a control group of its own names one below it as another's container is named. */
static void logs_of_others(void) {
        static const char log[] = "var/lib/docker/containers/" DOCKER_ID "/" DOCKER_ID "-json.log";
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        const char *form = "";
        char path[512];
        int fd;

        scratch_write(&s, log, "{}\n");
        scratch_write(&s, "sys/fs/cgroup" DOCKER "/inner/x", "");
        scratch_path(&s, "sys/fs/cgroup" DOCKER, path);
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_EQ(container_open_log(&h, SESSION, &form), -ENOENT);
        ASSERT_EQ(container_open_log(&h, SESSION DOCKER, &form), -EACCES); /* there is none */
        if (getuid() == 0) {
                fd = container_open_log(&h, DOCKER "/inner", &form);
                ASSERT_TRUE(fd >= 0);
                ASSERT_STREQ(form, "json-file");
                (void) close_fd(fd);
                ASSERT_OK(chown(path, 1000, 1000));
        }
        ASSERT_EQ(container_open_log(&h, DOCKER, &form), -EACCES);
        ASSERT_EQ(container_open_log(&h, DOCKER "/inner", &form), -EACCES);
}

/* A service of somebody else, a Slurm job, and a run of ours, which is left out. */
static void units_and_jobs(void) {
        static const struct tree_process all[] = {
                { 40, 1, .start = 1, .control_group = "/system.slice/trainer.service",
                  .command = "/opt/bin/trainer" },
                { 41, 1, .start = 2, .control_group = "/system.slice/slurmstepd.scope/job_7/step_0/task_0",
                  .command = "slurmstepd" },
                { 42, 41, .start = 3,
                  .control_group = "/system.slice/slurmstepd.scope/job_7/step_0/task_1",
                  .command = "python3 t.py" },
                { 43, 1, .start = 4,
                  .control_group = "/tpu.slice/tpu-run.slice/tpu-run-a.slice/tpu-run-a.service",
                  .command = "python3 t.py" },
        };
        static const char environ[] = "HOME=/x\0SLURM_JOB_ID=7\0SLURM_JOB_ID_X=9\0SECRET=s";
        _cleanup_scratch_ struct scratch s = scratch_new();
        char path[512];
        struct groups g;
        FILE *f;

        add_all(&s, all, ELEMENTSOF(all));
        scratch_path(&s, "proc/42/environ", path);
        f = fopen(path, "we");
        ASSERT_TRUE(f && fwrite(environ, 1, sizeof(environ), f) == sizeof(environ));
        ASSERT_OK(fclose(f));
        tree_open(&s, 40, "/dev/accel0");
        tree_open(&s, 42, "/dev/accel1");
        tree_open(&s, 43, "/dev/accel2");
        look(&s, &g);
        ASSERT_EQ(g.n, 2);
        ASSERT_STREQ(g.all[0].name, "trainer");
        ASSERT_STREQ(g.all[1].name, "slurm-7");
        ASSERT_EQ(g.all[1].main_pid, 42);
}

/* A device of another vendor that somebody has by vfio is no TPU. */
static void other_devices(void) {
        static const struct tree_process p = { 50, 1, .start = 1, .control_group = "/a.service",
                                               .command = "qemu" };
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct groups g;

        add_all(&s, &p, 1);
        scratch_write(&s, "sys/kernel/iommu_groups/9/devices/0000:00:05.0/vendor", "0x8086\n");
        scratch_write(&s, "sys/kernel/iommu_groups/8/devices/0000:00:06.0/vendor", "0x1ae0\n");
        tree_open(&s, 50, "/dev/vfio/9");
        look(&s, &g);
        ASSERT_EQ(g.n, 0);
        tree_open(&s, 50, "/dev/vfio/8");
        look(&s, &g);
        ASSERT_EQ(g.n, 1);
        ASSERT_STREQ(g.all[0].devices, "/dev/vfio/8");
}

/* Hostile: names of any bytes, a parent that is its own child, more groups than there is room for. */
static void hostile(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        char name[HOLDER_NAME_MAX + 1], container[80];
        struct groups g;

        holder_name_of("--A..B__c \xff/../", name);
        ASSERT_STREQ(name, "a-b-c");
        holder_name_of("////", name);
        ASSERT_STREQ(name, "");
        container_print("/docker/0123/x", container, sizeof(container));
        ASSERT_STREQ(container, "");
        for (unsigned i = 0; i < HOLDER_GROUPS_MAX + 3; i++) {
                tree_add(&s, &(struct tree_process){ 100 + i, 100 + i, .start = i, .control_group = "/x",
                                                     .command = "\x1b[2J" });
                tree_open(&s, 100 + i, "/dev/accel0");
        }
        look(&s, &g);
        ASSERT_EQ(g.n, HOLDER_GROUPS_MAX);
        ASSERT_EQ(g.left_out, 3);
        ASSERT_TRUE(g.all[0].name[0] != '\0' && !strchr(g.all[0].name, '\x1b'));
}

TEST_MAIN(ranks_of_one_launcher, panes_of_a_terminal, containers, names_of_containers, logs_of_others,
          units_and_jobs, other_devices, hostile)
