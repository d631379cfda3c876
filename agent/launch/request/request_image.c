/* SPDX-License-Identifier: Apache-2.0 */
#include "request_image.h"

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

#include "authority.h"
#include "devices.h"
#include "engine.h"
#include "handover.h"
#include "image.h"
#include "log.h"

static enum engine engine_of(const Run__Spec *s) {
        enum engine e;
        int r = engine_parse(s->engine, &e);

        assert(r >= 0); /* the table of keys has the same words */
        return e;
}

static bool is_there(const struct host *h, const char *path) {
        _cleanup_close_ int fd = host_open_file(h, path, O_PATH);

        return fd >= 0;
}

static int check_engine(const struct host *h, enum engine e, struct problem *p) {
        char remedy[96];

        if (!is_there(h, engine_program(e))) {
                (void) snprintf(remedy, sizeof(remedy), "sudo apt-get install %s",
                                e == ENGINE_PODMAN ? "podman catatonit" : "docker.io");
                return problem_set(p, -ENOENT, remedy, "%s is not installed on this host: there is no %s",
                                   engine_name(e), engine_program(e));
        }
        if (!is_there(h, "/sys/fs/cgroup/cgroup.controllers"))
                return problem_set(p, -ENOENT, "boot it without systemd.unified_cgroup_hierarchy=0",
                                   "this host has no control groups of version 2 alone, in which runs in "
                                   "containers lie");
        return 0;
}

static int check_docker(const struct grants *g, struct problem *p) {
        if (g->docker)
                return 0;
        return problem_set(p, -EACCES,
                           "--engine podman; or, as root of that host, in " PATH_SITE
                           "/authority.conf.d/10-container.conf: section [Container], line Docker=yes",
                           "docker may not make containers of runs on this host: no authority file "
                           "grants it");
}

static int freeze_rights(const struct grants *g, const struct target *t, struct kept_run *kept,
                         struct problem *p) {
        const char *list[ENGINE_MOUNTS_MAX];

        for (size_t i = 0; i < g->n_mounts; i++)
                list[i] = g->mounts[i];
        kept->mounts = strings_copy(list, g->n_mounts);
        kept->groups = calloc(t->n_groups + 1, sizeof(*kept->groups));
        if (!kept->mounts || !kept->groups)
                return problem_no_memory(p);
        memcpy(kept->groups, t->groups, t->n_groups * sizeof(*kept->groups));
        kept->n_groups = t->n_groups;
        kept->gid = t->gid;
        return 0;
}

int request_image_begin(const struct host *h, const char *config, const Local__RunRequest *q,
                        const struct target *t, struct kept_run *kept, struct problem *p) {
        enum engine e = engine_of(q->spec);
        struct grants g = { .n_mounts = 0 };
        int r = grants_load_containers(h, config, &g);

        if (r < 0)
                (void) log_warning_errno(r, "the authority file cannot be read, it mounts nothing now: %m");
        if (q->n_secret > 0)
                return problem_set(p, -EINVAL, "put it into a file below a directory of Mount=",
                                   "secrets are no variables of a run in a container: its engine would show "
                                   "them");
        r = e == ENGINE_DOCKER ? check_docker(&g, p) : 0;
        if (r >= 0)
                r = check_engine(h, e, p);
        return r < 0 ? r : freeze_rights(&g, t, kept, p);
}

int request_image_look(const struct host *h, const Local__RunRequest *q, struct kept_run *kept,
                       struct problem *p) {
        int r = image_find(h, engine_of(q->spec), q->spec->image, kept->image_id, p);

        if (r < 0 || !q->image_id[0] || streq(q->image_id, kept->image_id))
                return r;
        return problem_set(p, -ESTALE, "it is tried again with what the hosts have then",
                           "image %s is %.12s on this host now, and the hosts of the run agreed on another",
                           q->spec->image, kept->image_id);
}

/* As much as the host's own /dev/shm: half of its memory. */
static uint64_t shm_of_host(void) {
        long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

        return pages > 0 && size > 0 ? (uint64_t) pages / 2 * (uint64_t) size : 1024 * 1024 * 1024;
}

int request_image_argv(const struct host *h, const struct kept_run *kept, char ***ret) {
        _cleanup_(strings_freep) char **devices = devices_nodes(h, kept->spec);
        char slice[RUN_UNIT_MAX], variables[128];
        struct engine_run run = { .engine = engine_of(kept->spec),
                                  .image = kept->image_id,
                                  .name = kept->name,
                                  .slice = run_slice(kept->name, slice),
                                  .variables = handover_variables(kept->name, variables),
                                  .directory = kept->directory,
                                  .uid = kept->uid,
                                  .gid = kept->gid,
                                  .groups = kept->groups,
                                  .n_groups = kept->n_groups,
                                  .devices = devices,
                                  .mounts = kept->mounts,
                                  .shm = shm_of_host(),
                                  .memlock = kept->spec->memlock,
                                  .nofile = kept->spec->nofile,
                                  .argv = kept->argv };

        return devices ? engine_argv(&run, ret) : -ENOMEM;
}
