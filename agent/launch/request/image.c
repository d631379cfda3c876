/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

#include "authority.h"
#include "devices.h"
#include "engine.h"
#include "handover.h"
#include "io.h"
#include "json_text.h"
#include "log.h"

#define NAME_MAX_BYTES 320 /* with what a registry adds */
#define LIST_MAX (4 * 1024 * 1024) /* a kilobyte or two each */
#define CONFIG_MAX (64 * 1024)
#define PODMAN_STORE "/var/lib/containers/storage"
#define DOCKER_STORE "/var/lib/docker/image"

/* --- Names --------------------------------------------------------------------------------------------- */

/* The length of what stands before tag and digest. */
static size_t repository_of(const char *name) {
        size_t digest = strcspn(name, "@");
        const char *slash = memrchr(name, '/', digest);

        slash = slash ? slash : name;
        return (size_t) (slash - name) + strcspn(slash, ":@");
}

static void full_name(const char *registry, const char *name, char ret[static NAME_MAX_BYTES]) {
        (void) snprintf(ret, NAME_MAX_BYTES, "%s%s%s", registry, name,
                        name[repository_of(name)] ? "" : ":latest");
}

static int copy_id(const char *from, char ret[static ENGINE_ID_SIZE]) {
        const char *id = startswith(from, "sha256:") ? from + strlen("sha256:") : from;

        if (!engine_id_is_valid(id))
                return -EBADMSG;
        memcpy(ret, id, ENGINE_ID_SIZE);
        return 0;
}

/* --- podman -------------------------------------------------------------------------------------------- */

/* By one of its names, or by a repository of its names and its digest. */
static bool is_named(const json_t *image, const char *full) {
        const char *digest = strchr(full, '@');
        size_t n = repository_of(full), i;
        const json_t *name;

        json_array_foreach(json_object_get(image, "names"), i, name) {
                const char *text = json_string_value(name);

                if (!text)
                        continue;
                if (streq(text, full) ||
                    (digest && streq(json_text_of(image, "digest"), digest + 1) &&
                     repository_of(text) == n && strncmp(text, full, n) == 0))
                        return true;
        }
        return false;
}

static int find_in_podman(const json_t *list, const char *name, char ret[static ENGINE_ID_SIZE]) {
        static const char *const registries[] = { "", "localhost/", "docker.io/library/", "docker.io/" };
        char full[NAME_MAX_BYTES];
        const json_t *image;
        size_t i;

        if (!json_is_array(list))
                return -EBADMSG;
        for (size_t r = 0; r < ELEMENTSOF(registries); r++) {
                full_name(registries[r], name, full);
                json_array_foreach(list, i, image)
                        if (is_named(image, full))
                                return copy_id(json_text_of(image, "id"), ret);
        }
        return -ENOENT;
}

/* --- docker -------------------------------------------------------------------------------------------- */

/* Its own registry is not said there. */
static const char *short_name(const char *name) {
        if (!startswith(name, "docker.io/"))
                return name;
        name += strlen("docker.io/");
        return startswith(name, "library/") ? name + strlen("library/") : name;
}

static int find_in_docker(const json_t *list, const char *name, char ret[static ENGINE_ID_SIZE]) {
        json_t *repositories = json_object_get(list, "Repositories"), *names;
        char full[NAME_MAX_BYTES];
        const char *repository;

        if (!json_is_object(repositories))
                return -EBADMSG;
        full_name("", short_name(name), full);
        json_object_foreach(repositories, repository, names) {
                const char *id = json_string_value(json_object_get(names, full));

                if (id)
                        return copy_id(id, ret);
        }
        return -ENOENT;
}

/* --- Lists --------------------------------------------------------------------------------------------- */

int image_of_list(enum engine e, const char *text, size_t len, const char *name,
                  char ret[static ENGINE_ID_SIZE]) {
        json_t *list = json_loadb(text, len, 0, NULL);
        int r;

        if (!list)
                return -EBADMSG;
        r = e == ENGINE_PODMAN ? find_in_podman(list, name, ret) : find_in_docker(list, name, ret);
        json_decref(list);
        return r;
}

bool image_store(const char *text, char *ret, size_t size) {
        for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                const char *at = line + strspn(line, " \t");
                size_t n;

                if (!startswith(at, "graphroot"))
                        continue;
                at += strlen("graphroot");
                at += strspn(at, " \t");
                if (*at != '=')
                        continue;
                at += 1 + strspn(at + 1, " \t");
                n = *at == '"' ? strcspn(at + 1, "\"\n") : 0;
                if (n == 0 || at[1] != '/' || at[1 + n] != '"' || n >= size)
                        continue;
                memcpy(ret, at + 1, n);
                ret[n] = '\0';
                return true;
        }
        return false;
}

static int read_list(const struct host *h, const char *path, char **ret, size_t *ret_len) {
        _cleanup_close_ int fd = host_open_file(h, path, O_RDONLY);

        return fd < 0 ? fd : io_read_whole(fd, LIST_MAX, ret, ret_len);
}

static void find_store(const struct host *h, char *ret, size_t size) {
        _cleanup_free_ char *text = malloc(CONFIG_MAX);

        if (!text || host_read(h, "/etc/containers/storage.conf", text, CONFIG_MAX, NULL) < 0 ||
            !image_store(text, ret, size))
                (void) snprintf(ret, size, PODMAN_STORE);
}

static int refuse_missing(enum engine e, const char *name, struct problem *p) {
        char remedy[256];

        (void) snprintf(remedy, sizeof(remedy), "sudo %s pull %s # on that host", engine_name(e), name);
        return problem_set(p, -ENOENT, remedy, "image %s is not among those that %s has on this host", name,
                           engine_name(e));
}

int image_find(const struct host *h, enum engine e, const char *name, char ret[static ENGINE_ID_SIZE],
               struct problem *p) {
        static const char *const drivers[] = { "overlay", "vfs" };
        char store[256] = DOCKER_STORE, path[320], remedy[160];
        int r = -ENOENT;

        if (e == ENGINE_PODMAN)
                find_store(h, store, sizeof(store));
        for (size_t i = 0; i < ELEMENTSOF(drivers) && r == -ENOENT; i++) {
                _cleanup_free_ char *text = NULL;
                size_t len = 0;

                if (e == ENGINE_PODMAN)
                        (void) snprintf(path, sizeof(path), "%s/%s-images/images.json", store, drivers[i]);
                else
                        (void) snprintf(path, sizeof(path), "%s/%s%s/repositories.json", store, drivers[i],
                                        i == 0 ? "2" : "");
                r = read_list(h, path, &text, &len);
                r = r < 0 ? r : image_of_list(e, text, len, name, ret);
        }
        if (r >= 0)
                return 0;
        if (r == -ENOENT)
                return refuse_missing(e, name, p);
        (void) snprintf(remedy, sizeof(remedy), "sudo %s images", engine_name(e));
        return problem_set(p, r, remedy, "the images of %s cannot be read from %.250s: %s", engine_name(e),
                           path, strerror(-r));
}

/* --- A run in a container --------------------------------------------------------------------------- */

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
