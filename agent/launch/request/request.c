/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <fcntl.h>
#include <assert.h>
#include <systemd/sd-id128.h>

#include "devices.h"
#include "engine.h"
#include "environment.h"
#include "log.h"
#include "paths.h"
#include "image.h"
#include "request_world.h"
#include "secret.h"
#include "io.h"

/* systemd.exec(5): what a system service finds as its PATH. */
#define SERVICE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* --- Who, where, what ---------------------------------------------------------------------------------- */

/* error: of getpwnam_r(3), which has several words for "there is none". -ESRCH: there is none; -EAGAIN: who
 * should know does not answer. */
static int refuse_user(const char *user, int error, struct problem *p) {
        char remedy[128];

        (void) snprintf(remedy, sizeof(remedy), "getent passwd %.64s", user);
        if (error != 0 && error != ENOENT && error != ESRCH)
                return problem_set(p, -EAGAIN, remedy, "user %.64s cannot be looked up on this host: %s",
                                   user, strerror(error));
        return problem_set(p, -ESRCH, remedy, "user %.64s is not known on this host", user);
}

static int set_user(const Run__Spec *s, const struct who *w, struct kept_run *kept, struct problem *p) {
        if (!w->target.found)
                return refuse_user(s->user[0] ? s->user : w->caller.name, w->target.error, p);
        kept->uid = w->target.uid;
        kept->user = strdup(w->target.name);
        return kept->user ? 0 : problem_no_memory(p);
}

/* 1, 0, or -errno when it cannot be seen from here (a network file system that keeps root out). */
static int exists(const struct host *h, const char *path, int flags) {
        _cleanup_close_ int fd = host_open_file(h, path, O_PATH | flags);

        if (fd >= 0)
                return 1;
        return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
}

static int set_directory(const struct host *h, const Run__Spec *s, const char *home, struct kept_run *kept,
                         struct problem *p) {
        const char *directory = s->directory;

        if (directory[0] == '\0')
                directory = home[0] == '/' && exists(h, home, O_DIRECTORY) != 0 ? home : "/";
        else if (exists(h, directory, O_DIRECTORY) == 0)
                return problem_set(p, -ENOENT, "create it, or name another",
                                   "directory %.256s does not exist", directory);
        kept->directory = strdup(directory);
        return kept->directory ? 0 : problem_no_memory(p);
}

static const char *path_of(const struct kept_run *kept) {
        for (size_t i = 0; kept->env[i]; i++)
                if (startswith(kept->env[i], "PATH="))
                        return kept->env[i] + 5;
        return SERVICE_PATH;
}

/* Whether dir (len bytes; relative to the run's directory) holds the command. */
static int is_in(const struct host *h, const struct kept_run *kept, const char *dir, size_t len) {
        _cleanup_free_ char *path = NULL;
        bool absolute = len > 0 ? dir[0] == '/' : kept->argv[0][0] == '/';
        int n;

        n = asprintf(&path, "%s%s%.*s/%s", absolute ? "" : kept->directory, absolute ? "" : "/", (int) len,
                     dir, kept->argv[0]);
        if (n < 0) {
                path = NULL;
                return -ENOMEM;
        }
        return exists(h, path, 0);
}

/* A command that surely does not exist is said at once; one that may only be visible to its user is left to
 * the start. */
static int check_command(const struct host *h, const struct kept_run *kept, struct problem *p) {
        if (strchr(kept->argv[0], '/')) {
                if (is_in(h, kept, "", 0) != 0)
                        return 0;
                return problem_set(p, -ENOENT, "check the spelling and --directory",
                                   "command %.256s does not exist", kept->argv[0]);
        }
        for (const char *dir = path_of(kept);; dir++) {
                size_t len = strcspn(dir, ":");

                if (is_in(h, kept, dir, len) != 0)
                        return 0;
                dir += len;
                if (*dir == '\0')
                        break;
        }
        return problem_set(p, -ENOENT, "give its whole path, or set PATH",
                           "command '%.128s' is in none of the directories %.160s", kept->argv[0],
                           path_of(kept));
}

/* --- All ----------------------------------------------------------------------------------------------- */

static int set_label(const char *from, const char *what, char to[static RUN_LABEL_SIZE], struct problem *p) {
        for (const char *c = from; *c; c++)
                if (*c < ' ' || *c > '~')
                        return problem_set(p, -EINVAL, "use printable ASCII",
                                           "the %s of the run is not printable ASCII", what);
        if (strlen(from) >= RUN_LABEL_SIZE)
                return problem_set(p, -EINVAL, "give a shorter one",
                                   "the %s of the run is longer than %d bytes", what, RUN_LABEL_SIZE - 1);
        memcpy(to, from, strlen(from) + 1);
        return 0;
}

static int set_intent(const Local__RunRequest *q, struct kept_run *kept, struct problem *p) {
        int r;

        if (q->generation > INT64_MAX)
                return problem_set(p, -ERANGE, "generations count from 1", "there is no generation %" PRIu64,
                                   q->generation);
        if (q->generation > 0 && !q->spec->name[0])
                return problem_set(p, -EINVAL, "give the run a name", "a run by intent has a name");
        if (q->generation > 0 && q->spec->restarts > 0)
                return problem_set(p, -EINVAL, "leave restarts out: a new generation starts it again",
                                   "a run by intent is not restarted by its host");
        kept->generation = q->generation;
        r = set_label(q->intent, "intent", kept->intent, p);
        if (r == 0)
                r = set_label(q->slice, "slice", kept->slice, p);
        return r == 0 ? set_label(q->worker, "worker", kept->worker, p) : r;
}

int request_take_spec(const Local__RunRequest *q, struct kept_run *kept, struct problem *p) {
        char why[RUN_WHY_MAX];
        int r;

        if (!q->spec)
                return problem_set(p, -EINVAL, "tpuctl run -- COMMAND",
                                   "a run was asked for without saying which");
        r = run_spec_check(q->spec, RUN_HERE | RUN_SLICES, why);
        if (r < 0)
                return problem_set(p, r, "see: tpuctl run --help", "%s", why);
        (void) snprintf(kept->name, sizeof(kept->name), "%s", q->spec->name);
        r = set_intent(q, kept, p);
        if (r < 0)
                return r;
        kept->spec = run_spec_copy(q->spec);
        kept->argv = kept->spec ? strings_copy((const char *const *) q->spec->argv, q->spec->n_argv) : NULL;
        if (!kept->argv)
                return problem_no_memory(p);
        kept_run_drop_texts(kept);
        return 0;
}

/* remote is no user to run as: it names one. */
static int decide_start(const Local__RunRequest *q, const struct who *w, struct problem *p) {
        const char *user = q->spec ? q->spec->user : "";
        const struct caller *c = &w->caller;
        bool named = c->remote && user[0];

        if (named && !w->target.found)
                return refuse_user(user, w->target.error, p);
        return authority_decide(c, ACTION_START, named ? w->target.uid : c->uid, named ? user : c->name, p);
}

/* The host's own word, as it is now: frozen into the run. A file that cannot be read allows nothing. */
static int add_settings(const struct host *h, const char *config, Run__Spec *s, struct problem *p) {
        _cleanup_device_settings_ struct device_settings host = { .any_device = false };
        const struct run_key *k = run_key_find("devices");
        char text[DEVICE_LIST_MAX * DEVICE_NODE_MAX + 8], why[RUN_WHY_MAX];
        unsigned warnings = 0;
        size_t n;
        int r;

        r = device_settings_load(h, config, NULL, &host, &warnings);
        if (r < 0)
                (void) log_warning_errno(
                        r, "the configuration launchd cannot be read, it allows no more devices now: %m");
        if (streq(s->devices, "any") || (!host.any_device && !host.devices))
                return 0;
        n = (size_t) snprintf(text, sizeof(text), "%s", host.any_device ? "any" : s->devices);
        for (size_t i = 0; !host.any_device && host.devices[i] && n < sizeof(text); i++)
                n += (size_t) snprintf(text + n, sizeof(text) - n, ",%s", host.devices[i]);
        if (n >= sizeof(text))
                return problem_set(p, -E2BIG, "name less; see: tpu-launchd --show-config",
                                   "more than %d devices", DEVICE_LIST_MAX);
        r = run_key_set_text(k, s, text);
        if (r < 0)
                return problem_no_memory(p);
        r = run_key_check(k, s, why);
        return r < 0 ? problem_set(p, -E2BIG, "name less; see: tpu-launchd --show-config", "%s", why) : 0;
}

bool request_has_systemd(const struct host *h) {
        _cleanup_close_ int fd = host_open_file(h, "/run/systemd/system", O_PATH | O_DIRECTORY);

        return fd >= 0;
}

void request_result_clear(struct request_result *r) {
        r->kept = kept_run_free(r->kept);
        r->conflicts = strings_free(r->conflicts);
}

int request_begin(const struct host *h, const char *identity_config, const Local__RunRequest *q,
                  const struct who *w, struct request_result *ret, struct problem *p) {
        _cleanup_(kept_run_freep) struct kept_run *kept = calloc(1, sizeof(*kept));
        sd_id128_t id;
        int r;

        /* First of all, and on nobody's account in particular: who may start nothing learns nothing about
         * this host. */
        r = decide_start(q, w, p);
        if (r < 0)
                return r;
        if (!kept)
                return problem_no_memory(p);
        if (!request_has_systemd(h))
                return problem_set(p, -EOPNOTSUPP,
                                   "start it on a machine that systemd has booted; in a container: start "
                                   "the container on the TPU VM with tpuctl run",
                                   "runs are not started where systemd is not the first process: each run "
                                   "is a service of systemd's");
        r = request_take_spec(q, kept, p);
        if (r < 0)
                return r;
        kept->remote = w->caller.remote;
        r = set_user(q->spec, w, kept, p);
        if (r < 0)
                return r;
        r = authority_decide(&w->caller, ACTION_START, kept->uid, kept->user, p);
        if (r >= 0)
                r = secrets_from_request(q, &kept->secrets, p);
        if (r >= 0 && kept_run_has_image(kept))
                r = request_image_begin(h, identity_config, q, &w->target, kept, p);
        if (r >= 0)
                r = add_settings(h, identity_config, kept->spec, p);
        if (r < 0)
                return r;
        if (sd_id128_randomize(&id) < 0)
                return problem_no_memory(p);
        (void) sd_id128_to_string(id, kept->id);
        (void) host_boot_id(h, kept->boot_id); /* empty when unreadable: then the unit alone decides */
        *ret = (struct request_result){ .kept = TAKE_PTR(kept) };
        return 0;
}

/* --- In the child -------------------------------------------------------------------------------------- */

static int look_at_run(const struct host *h, const struct request_look *l, char ***ret_conflicts,
                       struct problem *p) {
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        bool image = kept_run_has_image(l->kept);
        int r = image ? request_image_look(h, l->request, l->kept, p) : 0;

        if (r < 0)
                return r;
        /* the site's file: whoever's run it is */
        r = identity_load(h, l->identity_config, &identity);
        if (r < 0)
                return problem_set(p, r, "see: tpuctl identity",
                                   "the identity of this host cannot be read: %s", strerror(-r));
        r = who_become(l->target);
        if (r < 0)
                return problem_set(p, r, "see: journalctl -b -u tpu-launchd",
                                   "user %.64s cannot be taken on: %s", l->target->name, strerror(-r));
        if (image) /* directory and command are inside */
                l->kept->directory = strdup(l->request->spec->directory);
        r = image ? (l->kept->directory ? 0 : problem_no_memory(p))
                  : set_directory(h, l->request->spec, l->target->home, l->kept, p);
        if (r >= 0)
                r = request_environment(h, &identity, l->request, l->kept, ret_conflicts, p);
        return r < 0 || image ? r : check_command(h, l->kept, p);
}

int request_look(int fd, const void *data) {
        Local__Looked looked = LOCAL__LOOKED__INIT;
        Local__Error error = LOCAL__ERROR__INIT;
        const struct request_look *l = data;
        _cleanup_host_ struct host h = HOST_NULL;
        struct problem p = { 0 };
        char **conflicts = NULL;
        uint8_t *bytes;
        int r = host_open(l->host->real_root ? NULL : l->host->root, &h);

        if (r < 0)
                return r;
        r = look_at_run(&h, l, &conflicts, &p);
        if (r < 0) {
                error = (Local__Error){ .base = error.base, .code = -r, .text = p.text, .remedy = p.remedy };
                looked.error = &error;
        } else {
                looked.directory = l->kept->directory;
                looked.malloc = l->kept->malloc;
                looked.image_id = l->kept->image_id;
                looked.env = l->kept->env;
                while (looked.env[looked.n_env])
                        looked.n_env++;
                looked.conflict = conflicts;
                while (conflicts[looked.n_conflict])
                        looked.n_conflict++;
        }
        bytes = malloc(local__looked__get_packed_size(&looked) + 1);
        return bytes ? io_write_all(fd, bytes, local__looked__pack(&looked, bytes)) : -ENOMEM;
}

/* --- Behind it ----------------------------------------------------------------------------------------- */

static int take_looked(const Local__Looked *l, struct request_result *ret, struct problem *p) {
        struct kept_run *kept = ret->kept;

        if (l->error && environment_text_is_valid(l->error->text) &&
            environment_text_is_valid(l->error->remedy))
                return problem_set(p, l->error->code > 0 ? -l->error->code : -EIO, l->error->remedy, "%s",
                                   l->error->text);
        if (l->error || strlen(l->malloc) >= sizeof(kept->malloc) ||
            (kept_run_has_image(kept) ? !engine_id_is_valid(l->image_id) : !l->directory[0]))
                return problem_set(p, -EBADMSG, "see: journalctl -b -u tpu-launchd",
                                   "what was found out about the run cannot be read");
        kept->directory = strdup(l->directory);
        memcpy(kept->malloc, l->malloc, strlen(l->malloc) + 1);
        if (kept_run_has_image(kept))
                memcpy(kept->image_id, l->image_id, ENGINE_ID_SIZE);
        kept->env = strings_copy((const char *const *) l->env, l->n_env);
        ret->conflicts = strings_copy((const char *const *) l->conflict, l->n_conflict);
        return kept->directory && kept->env && ret->conflicts ? 0 : problem_no_memory(p);
}

int request_finish(const char *answer, size_t len, struct request_result *ret, struct problem *p) {
        Local__Looked *l = local__looked__unpack(NULL, len, (const uint8_t *) answer);
        int r;

        if (!l)
                return problem_no_memory(p);
        r = take_looked(l, ret, p);
        local__looked__free_unpacked(l, NULL);
        return r;
}
