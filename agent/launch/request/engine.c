/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <assert.h>
#include <stdarg.h>

#include "paths.h"
#include "texts.h"

#define OPTIONS_MAX 32 /* without those that there are several of */

static const struct {
        const char *name, *program;
} engines[] = {
        [ENGINE_PODMAN] = { "podman", "/usr/bin/podman" },
        [ENGINE_DOCKER] = { "docker", "/usr/bin/docker" },
};
_Static_assert(ELEMENTSOF(engines) == _ENGINE_MAX, "every engine has a name");

int engine_parse(const char *name, enum engine *ret) {
        for (size_t i = 0; i < ELEMENTSOF(engines); i++)
                if (streq(name, engines[i].name)) {
                        *ret = (enum engine) i;
                        return 0;
                }
        return -EINVAL;
}

const char *engine_name(enum engine e) {
        return engines[e].name;
}

const char *engine_program(enum engine e) {
        return engines[e].program;
}

bool engine_id_is_valid(const char *id) {
        return strspn(id, "0123456789abcdef") == ENGINE_ID_SIZE - 1 && !id[ENGINE_ID_SIZE - 1];
}

/* How much of it is the path, and no word behind it. 0: it is no mount. */
static size_t mount_path(const char *text) {
        size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@");

        if (text[0] != '/' || n < 2 || text[n - 1] == '/' || (text[n] && !streq(text + n, ":ro")))
                return 0;
        if (text[n - 1] == '.' && text[n - 2] == '/') /* "/." is the root */
                return 0;
        return strstr(text, "..") || strstr(text, "//") || strstr(text, "/./") ? 0 : n;
}

bool engine_mount_is_valid(const char *text) {
        return strlen(text) < ENGINE_MOUNT_MAX && mount_path(text) > 0;
}

/* --- The command line ---------------------------------------------------------------------------------- */

struct line {
        char **words;
        size_t n, most;
        bool failed; /* out of memory */
};

_printf_(2, 3) static void add_option(struct line *l, const char *fmt, ...) {
        va_list ap;

        assert(l->n < l->most);
        va_start(ap, fmt);
        if (!l->failed && vasprintf(&l->words[l->n], fmt, ap) < 0) {
                l->words[l->n] = NULL;
                l->failed = true;
        }
        va_end(ap);
        l->n += !l->failed;
}

/* No limit is -1. */
static void add_limit(struct line *l, const char *name, uint64_t value) {
        if (value > INT64_MAX)
                add_option(l, "--ulimit=%s=-1:-1", name);
        else
                add_option(l, "--ulimit=%s=%" PRIu64 ":%" PRIu64, name, value, value);
}

/*
 * Its events go into a file: into the journal they would be lines of the run. --replace: a client that was
 * killed leaves the record of its container, and the name with it. The limits of the unit are the client's
 * own, and are handed on.
 */
static void add_podman(struct line *l) {
        static const char *const words[] = { "--events-backend=file", "run", "--cgroups=split", "--replace",
                                             "--ulimit=host", "--systemd=false", "--http-proxy=false" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                add_option(l, "%s", words[i]);
}

static void add_docker(struct line *l, const struct engine_run *r) {
        add_option(l, "run");
        add_option(l, "--cgroup-parent=%s", r->slice);
        add_limit(l, "memlock", r->memlock);
        add_limit(l, "nofile", r->nofile);
}

/* What holds whoever's run it is. The image is here already, and nothing is fetched as root. */
static void add_common(struct line *l, const struct engine_run *r) {
        static const char *const words[] = { "--rm", "--init", "--pull=never", "--no-healthcheck",
                                             "--log-driver=none", "--network=host", "--cap-drop=ALL",
                                             "--security-opt=no-new-privileges", "--pids-limit=0" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                add_option(l, "%s", words[i]);
        add_option(l, "--name=" RUN_UNIT_PREFIX "%s", r->name);
        add_option(l, "--user=%u:%u", (unsigned) r->uid, (unsigned) r->gid);
        add_option(l, "--shm-size=%" PRIu64, r->shm);
        add_option(l, "--env-file=%s", r->variables);
        if (r->directory[0])
                add_option(l, "--workdir=%s", r->directory);
}

static void add_lists(struct line *l, const struct engine_run *r) {
        for (size_t i = 0; i < r->n_groups; i++)
                if (r->groups[i] != r->gid)
                        add_option(l, "--group-add=%u", (unsigned) r->groups[i]);
        for (size_t i = 0; r->devices && r->devices[i]; i++) /* who may mount nothing has no use for fuse */
                if (r->devices[i][0] == '/' && !streq(r->devices[i], "/dev/fuse"))
                        add_option(l, "--device=%s", r->devices[i]);
        for (size_t i = 0; r->mounts && r->mounts[i]; i++) {
                int n = (int) mount_path(r->mounts[i]);

                add_option(l, "--mount=type=bind,source=%.*s,target=%.*s%s", n, r->mounts[i], n,
                           r->mounts[i], r->mounts[i][n] ? ",readonly" : "");
        }
}

static size_t count_words(char *const *list) {
        size_t n = 0;

        while (list && list[n])
                n++;
        return n;
}

int engine_argv(const struct engine_run *r, char ***ret) {
        struct line l = { .most = OPTIONS_MAX + r->n_groups + count_words(r->devices) +
                                  count_words(r->mounts) + count_words(r->argv) };

        for (size_t i = 0; r->mounts && r->mounts[i]; i++)
                if (!engine_mount_is_valid(r->mounts[i]))
                        return -EINVAL;
        if (!engine_id_is_valid(r->image))
                return -EINVAL;
        l.words = calloc(l.most + 1, sizeof(*l.words));
        if (!l.words)
                return -ENOMEM;
        add_option(&l, "%s", engine_program(r->engine));
        if (r->engine == ENGINE_PODMAN)
                add_podman(&l);
        else
                add_docker(&l, r);
        add_common(&l, r);
        add_lists(&l, r);
        add_option(&l, "%s", r->image);
        for (size_t i = 0; r->argv[i]; i++)
                add_option(&l, "%s", r->argv[i]);
        if (l.failed) {
                (void) strings_free(l.words);
                return -ENOMEM;
        }
        *ret = l.words;
        return 0;
}
