/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include <fcntl.h>
#include <jansson.h>

#include "io.h"
#include "json_text.h"

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
