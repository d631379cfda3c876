/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <fcntl.h>
#include <pwd.h>
#include <assert.h>
#include <systemd/sd-id128.h>

#include "allocator.h"
#include "device_list.h"
#include "device_settings.h"
#include "environment.h"
#include "log.h"
#include "paths.h"
#include "platform.h"
#include "request_world.h"
#include "secret.h"

#define LOOKUP_SIZE 65536
/* systemd.exec(5): what a system service finds as its PATH. */
#define SERVICE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static int no_memory(struct problem *p) {
        return problem_set(p, -ENOMEM, "try again; see tpuctl check", "out of memory");
}

/* --- Who, where, what ---------------------------------------------------------------------------------- */

static int set_user(const Run__Spec *s, const struct caller *c, struct kept_run *kept, char **ret_home,
                    struct problem *p) {
        _cleanup_free_ char *buf = malloc(LOOKUP_SIZE);
        struct passwd pw, *found = NULL;
        int r;

        if (!buf)
                return no_memory(p);
        r = s->user[0] ? getpwnam_r(s->user, &pw, buf, LOOKUP_SIZE, &found) :
                         getpwuid_r(c->uid, &pw, buf, LOOKUP_SIZE, &found);
        if (!found)
                return problem_set(p, -ESRCH, "name a user that 'getent passwd' shows",
                                   "user %.64s is not known on this host%s%s",
                                   s->user[0] ? s->user : c->name, r ? ": " : "", r ? strerror(r) : "");
        kept->uid = pw.pw_uid;
        kept->user = strdup(pw.pw_name);
        *ret_home = strdup(pw.pw_dir ? pw.pw_dir : "/");
        return kept->user && *ret_home ? 0 : no_memory(p);
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
        return kept->directory ? 0 : no_memory(p);
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
                     dir,
                     kept->argv[0]);
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

/* --- Environment --------------------------------------------------------------------------------------- */

static int add_conflict(char **conflicts, const struct environment_entry *e) {
        int name = (int) strcspn(e->assignment, "=");
        size_t n;

        for (n = 0; conflicts[n]; n++)
                ;
        if (asprintf(&conflicts[n], "%.*s: %s", name, e->assignment, e->conflict) < 0) {
                conflicts[n] = NULL;
                return -ENOMEM;
        }
        return 0;
}

/* The environment's assignments and the allocator's, in one list; the allocator's LD_PRELOAD stands for the
 * user's. */
static int freeze(const struct environment *e, struct allocator_choice *c, struct kept_run *kept,
                  char **conflicts) {
        size_t n = 0;

        kept->env = calloc(e->n + 3, sizeof(*kept->env));
        if (!kept->env)
                return -ENOMEM;
        for (size_t i = 0; i < e->n; i++) {
                if (e->entries[i].conflict && add_conflict(conflicts, &e->entries[i]) < 0)
                        return -ENOMEM;
                if (c->preload && startswith(e->entries[i].assignment, "LD_PRELOAD="))
                        continue;
                kept->env[n] = strdup(e->entries[i].assignment);
                if (!kept->env[n++])
                        return -ENOMEM;
        }
        if (c->preload)
                kept->env[n++] = TAKE_PTR(c->preload);
        if (c->threshold)
                kept->env[n++] = TAKE_PTR(c->threshold);
        for (n = 0; c->conflict && conflicts[n]; n++)
                ;
        if (c->conflict)
                conflicts[n] = TAKE_PTR(c->conflict);
        memcpy(kept->malloc, c->note, sizeof(kept->malloc));
        return 0;
}
_Static_assert(sizeof(((struct kept_run *) 0)->malloc) == ALLOCATOR_NOTE_MAX,
               "kept_run holds the whole note");

static int set_allocator(const struct host *h, const Run__Spec *s, const struct environment *e,
                         struct allocator_choice *ret, struct problem *p) {
        enum allocator wanted;
        int r;

        r = allocator_parse(s->malloc, &wanted);
        assert(r >= 0); /* the table of keys has the same words */
        r = allocator_choose(h, wanted, e, ret);
        if (r == -ENOMEM)
                return no_memory(p);
        if (r < 0)
                return problem_set(p, r, "apt-get install libgoogle-perftools4, or --malloc glibc", "%s",
                                   ret->note);
        return 0;
}

/* What the user set, and the keys that are variables. The texts are in pool then. */
static int user_variables(const Run__Spec *s, const char **list, char **pool, size_t *ret_n) {
        size_t n = 0, held = 0;

        for (; n < s->n_env; n++)
                list[n] = s->env[n];
        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);

                if (!k->variable || !run_key_given(k, s))
                        continue;
                if (asprintf(&pool[held], "%s=%s", k->variable, run_key_text(k, s)) < 0) {
                        pool[held] = NULL;
                        return -ENOMEM;
                }
                list[n++] = pool[held++];
        }
        *ret_n = n;
        return 0;
}

static int build_environment(const struct identity *i, const Local__RunRequest *q, enum framework f,
                             struct environment *ret, struct problem *p) {
        _cleanup_request_world_ struct request_world world = { 0 };
        const Run__Spec *s = q->spec;
        _cleanup_free_ const char **list = calloc(s->n_env + RUN_KEYS_MAX, sizeof(*list));
        _cleanup_(strings_freep) char **pool = calloc(RUN_KEYS_MAX + 1, sizeof(*pool));
        char why[ENVIRONMENT_WHY_MAX] = "";
        struct environment_options o = { .framework = f, .user = list };
        int r = list && pool ? user_variables(s, list, pool, &o.n_user) : -ENOMEM;

        if (r == 0 && q->world && q->world->n_slice > 0) {
                r = request_world_view(q, &world, p);
                if (r < 0)
                        return r;
                o.gang = &world.gang;
        }
        if (q->world && q->world->interfaces[0])
                o.interfaces = q->world->interfaces;
        if (r == 0)
                r = environment_build(i, &o, ret, why);
        if (r == -ENOMEM)
                return no_memory(p);
        return r < 0 ? problem_set(p, r, "see: tpuctl identity, tpuctl env", "%s", why) : 0;
}

static int set_environment(const struct host *h, const char *identity_config, const Local__RunRequest *q,
                           struct kept_run *kept, char ***ret_conflicts, struct problem *p) {
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        _cleanup_allocator_choice_ struct allocator_choice choice = { 0 };
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        enum framework f;
        int r = framework_parse(q->spec->framework, &f);

        assert(r >= 0); /* the table of keys has the same words */
        r = identity_load(h, identity_config, &identity);
        if (r < 0)
                return problem_set(p, r, "see: tpuctl identity",
                                   "the identity of this host cannot be read: %s", strerror(-r));
        if (q->world)
                r = request_world_facts(q->world, &identity, p);
        if (r >= 0)
                r = build_environment(&identity, q, f, &e, p);
        if (r >= 0)
                r = set_allocator(h, q->spec, &e, &choice, p);
        if (r < 0)
                return r;
        *ret_conflicts = calloc(e.n + 2, sizeof(**ret_conflicts));
        if (!*ret_conflicts || freeze(&e, &choice, kept, *ret_conflicts) < 0)
                return no_memory(p);
        return 0;
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
                return no_memory(p);
        kept_run_drop_texts(kept);
        return 0;
}

static int fill(const struct host *h, const char *identity_config, const Local__RunRequest *q,
                const struct caller *c, struct kept_run *kept, char ***ret_conflicts, struct problem *p) {
        _cleanup_free_ char *home = NULL;
        struct refusal refusal;
        int r = request_take_spec(q, kept, p);

        if (r < 0)
                return r;
        kept->remote = c->remote;
        r = set_user(q->spec, c, kept, &home, p);
        if (r < 0)
                return r;
        if (authority_decide(c, ACTION_START, kept->uid, kept->user, &refusal) < 0)
                return problem_set(p, -EACCES, refusal.remedy, "%s", refusal.reason);
        r = set_directory(h, q->spec, home, kept, p);
        if (r >= 0)
                r = set_environment(h, identity_config, q, kept, ret_conflicts, p);
        if (r >= 0)
                r = secrets_from_request(q, &kept->secrets, p);
        return r < 0 ? r : check_command(h, kept, p);
}

/* remote is no user to run as: it names one. Whether that user exists is answered only where it is
 * granted. */
static int decide_start(const Local__RunRequest *q, const struct caller *c, struct refusal *ret) {
        const char *user = q->spec ? q->spec->user : "";
        struct passwd pw, *found = NULL;
        char buf[4096];

        if (!c->remote)
                return authority_decide(c, ACTION_START, c->uid, c->name, ret);
        if (user[0])
                (void) getpwnam_r(user, &pw, buf, sizeof(buf),
                                  &found); /* unknown is refused like any other */
        return authority_decide(c, ACTION_START, found ? pw.pw_uid : c->uid, user, ret);
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
                return no_memory(p);
        r = run_key_check(k, s, why);
        return r < 0 ? problem_set(p, -E2BIG, "name less; see: tpu-launchd --show-config", "%s", why) : 0;
}

int request_build(const struct host *h, const char *identity_config, const Local__RunRequest *q,
                  const struct caller *c, struct request_result *ret, struct problem *p) {
        _cleanup_(kept_run_freep) struct kept_run *kept = calloc(1, sizeof(*kept));
        char **conflicts = NULL;
        struct refusal refusal;
        sd_id128_t id;
        int r;

        /* First of all, and on nobody's account in particular: who may start nothing learns nothing about
         * this host. */
        if (decide_start(q, c, &refusal) < 0)
                return problem_set(p, -EACCES, refusal.remedy, "%s", refusal.reason);
        if (!kept)
                return no_memory(p);
        r = platform_check(h, h->real_root ? getenv("KUBERNETES_SERVICE_HOST") : NULL, p);
        if (r < 0)
                return r;
        r = fill(h, identity_config, q, c, kept, &conflicts, p);
        if (r >= 0)
                r = add_settings(h, identity_config, kept->spec, p);
        if (r >= 0)
                r = sd_id128_randomize(&id);
        if (r < 0) {
                (void) strings_free(conflicts);
                return r;
        }
        (void) sd_id128_to_string(id, kept->id);
        (void) host_boot_id(h, kept->boot_id); /* empty when unreadable: then the unit alone decides */
        ret->kept = TAKE_PTR(kept);
        ret->conflicts = conflicts;
        return 0;
}
