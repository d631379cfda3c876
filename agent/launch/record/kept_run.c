/* SPDX-License-Identifier: Apache-2.0 */
#include "kept_run.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "secret.h"
#include "state_file.h"
#include "utf8.h"

static const char *const state_names[] = {
        [LAUNCH_STARTING] = "starting",
        [LAUNCH_RUNNING] = "running",
        [LAUNCH_WAITING] = "waiting",
        [LAUNCH_EXITED] = "exited",
};
_Static_assert(ELEMENTSOF(state_names) == _LAUNCH_STATE_MAX, "every state has a name");

const char *launch_state_name(enum launch_state s) {
        return s < _LAUNCH_STATE_MAX ? state_names[s] : "?";
}

bool kept_run_is_shown_to(const struct kept_run *kept, uid_t uid) {
        return !kept->only_here || uid == 0 || uid == kept->uid;
}

const char *kept_run_shown_state(const struct kept_run *kept) {
        return kept->ending ? "ending" : launch_state_name(kept->state);
}

const char *run_unit(const char *name, char buf[static RUN_UNIT_MAX]) {
        (void) snprintf(buf, RUN_UNIT_MAX, "%s%.41s.service", RUN_UNIT_PREFIX, name);
        return buf;
}

const char *run_slice(const char *name, char buf[static RUN_UNIT_MAX]) {
        (void) snprintf(buf, RUN_UNIT_MAX, "%s%.41s.slice", RUN_UNIT_PREFIX, name);
        for (char *p = buf + strlen(RUN_UNIT_PREFIX); *p; p++)
                if (*p == '-')
                        *p = '_';
        return buf;
}

const char *kept_run_variable(const struct kept_run *kept, const char *name) {
        size_t n = strlen(name);

        for (size_t i = 0; kept->env && kept->env[i]; i++)
                if (strncmp(kept->env[i], name, n) == 0 && kept->env[i][n] == '=')
                        return kept->env[i] + n + 1;
        return "";
}

bool kept_run_has_image(const struct kept_run *kept) {
        return kept->spec->image[0];
}

const char *run_command(const struct kept_run *kept, char *buf, size_t size) {
        bool follows = false;
        size_t n = 0;

        buf[0] = '\0';
        for (size_t i = 0; kept->argv && kept->argv[i] && n < size; i++) {
                size_t shown = secrets_shown(kept->argv[i], &follows);
                int k = snprintf(buf + n, size - n, "%s%.*s%s", i ? " " : "", (int) MIN(shown, size),
                                 kept->argv[i], kept->argv[i][shown] ? "****" : "");

                if (k < 0)
                        break;
                n += (size_t) k;
        }
        for (char *p = buf; *p; p++)
                if ((unsigned char) *p < ' ')
                        *p = ' '; /* one line, whatever the arguments hold */
        utf8_mend(buf); /* an argument may be no text, and what was cut may end within a character */
        return buf;
}

struct kept_run *kept_run_free(struct kept_run *kept) {
        if (!kept)
                return NULL;
        free(kept->user);
        free(kept->directory);
        free(kept->control_group);
        free(kept->held);
        (void) strings_free(kept->argv);
        (void) strings_free(kept->env);
        (void) secrets_free(kept->secrets);
        (void) strings_free(kept->mounts);
        free(kept->groups);
        (void) run_spec_free(kept->spec);
        free(kept);
        return NULL;
}

/* --- The file ------------------------------------------------------------------------------------------ */

static const struct state_format format = {
        .what = "run", .version = 2, .max = RUN_FILE_MAX, .options = { .mode = 0600 }
};

static char *text_of(const char *text) {
        return (char *) (uintptr_t) text; /* protobuf-c's structs are not const; packing does not write */
}

static size_t count_texts(char *const *list) {
        size_t n = 0;

        while (list && list[n])
                n++;
        return n;
}

/* Everything is borrowed from kept. */
static void borrow_kept(const struct kept_run *kept, Run__Spec *s, Run__Kept *k) {
        *s = *kept->spec;
        s->name = text_of(kept->name);
        s->user = kept->user;
        s->directory = kept->directory;
        s->argv = kept->argv;
        s->n_argv = count_texts(kept->argv);
        s->env = kept->env;
        s->n_env = count_texts(kept->env);
        run__kept__init(k);
        k->spec = s;
        k->id = text_of(kept->id);
        k->boot_id = text_of(kept->boot_id);
        k->malloc = text_of(kept->malloc);
        k->intent = text_of(kept->intent);
        k->slice = text_of(kept->slice);
        k->worker = text_of(kept->worker);
        k->image_id = text_of(kept->image_id);
#define PUT(field, value) (k->has_##field = true, k->field = (value))
        PUT(uid, kept->uid);
        PUT(generation, kept->generation);
        PUT(remote, kept->remote);
        PUT(started_real, kept->started_real);
        PUT(started_boot, kept->started_boot);
        PUT(stop_asked, kept->stop_asked);
        PUT(preempted_real, kept->preempted_real);
        PUT(restarts_done, kept->restarts.done);
        PUT(restarts_idle, kept->restarts.idle);
        PUT(step_known, kept->restarts.step_known);
        PUT(best_step, kept->restarts.best_step);
#undef PUT
}

int kept_run_write(int runs_fd, const struct kept_run *kept) {
        _cleanup_free_ uint8_t *bytes = NULL;
        Run__Spec spec;
        Run__Kept file;

        borrow_kept(kept, &spec, &file);
        bytes = malloc(run__kept__get_packed_size(&file) + 1);
        return bytes ? state_file_write(runs_fd, kept->name, &format, bytes, run__kept__pack(&file, bytes))
                     : -ENOMEM;
}

static int copy_text(char *to, size_t size, const char *from) {
        if (strlen(from) >= size)
                return -EBADMSG;
        memcpy(to, from, strlen(from) + 1);
        return 0;
}

/* The environment holds more than a user may give, and names that are taken away. The user's name and home
 * are as the host has them, of any length. */
static bool is_in_bounds(const Run__Spec *s) {
        char why[RUN_WHY_MAX];

        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);

                if (k->kind != RUN_KEY_VARIABLES && !streq(k->name, "user") &&
                    !streq(k->name, "directory") &&
                    run_key_check(k, s, why) < 0)
                        return false;
        }
        return s->n_argv > 0 && s->name[0] && s->user[0] && (s->directory[0] || s->image[0]);
}

static int take_texts(const Run__Kept *k, struct kept_run *kept) {
        const Run__Spec *s = k->spec;

        if (!s || !is_in_bounds(s) || copy_text(kept->name, sizeof(kept->name), s->name) < 0 ||
            copy_text(kept->id, sizeof(kept->id), k->id) < 0 ||
            copy_text(kept->boot_id, sizeof(kept->boot_id), k->boot_id) < 0 ||
            copy_text(kept->malloc, sizeof(kept->malloc), k->malloc) < 0 ||
            copy_text(kept->intent, sizeof(kept->intent), k->intent) < 0 ||
            copy_text(kept->slice, sizeof(kept->slice), k->slice) < 0 ||
            copy_text(kept->worker, sizeof(kept->worker), k->worker) < 0 ||
            copy_text(kept->image_id, sizeof(kept->image_id), k->image_id) < 0)
                return -EBADMSG;
        kept->user = strdup(s->user);
        kept->directory = strdup(s->directory);
        kept->argv = strings_copy((const char *const *) s->argv, s->n_argv);
        kept->env = strings_copy((const char *const *) s->env, s->n_env);
        return kept->user && kept->directory && kept->argv && kept->env ? 0 : -ENOMEM;
}

static int take_file(Run__Kept *k, struct kept_run *kept) {
        int r = take_texts(k, kept);

        if (r < 0)
                return r;
        kept->uid = k->uid;
        kept->generation = k->generation;
        kept->remote = k->remote;
        kept->started_real = k->started_real;
        kept->started_boot = k->started_boot;
        kept->stop_asked = k->stop_asked;
        kept->preempted_real = k->preempted_real;
        kept->restarts = (struct restarts){ .done = k->restarts_done, .idle = k->restarts_idle,
                                         .step_known = k->step_known, .best_step = k->best_step };
        kept->spec = TAKE_PTR(k->spec);
        kept_run_drop_texts(kept);
        return 0;
}

void kept_run_drop_texts(struct kept_run *kept) {
        static const char *const above[] = { "name", "user", "directory", "argv", "env" };

        for (size_t i = 0; i < ELEMENTSOF(above); i++)
                run_key_unset(run_key_find(above[i]), kept->spec);
}

int kept_run_read(int runs_fd, const char *name, struct kept_run **ret) {
        _cleanup_(kept_run_freep) struct kept_run *kept = calloc(1, sizeof(*kept));
        _cleanup_free_ char *bytes = NULL;
        Run__Kept *k;
        size_t len;
        int r;

        if (!run_name_is_valid(name))
                return -EBADMSG;
        r = kept ? state_file_load(runs_fd, name, &format, &bytes, &len) : -ENOMEM;
        if (r < 0)
                return r;
        k = run__kept__unpack(NULL, len, (const uint8_t *) bytes);
        if (!k)
                return -EBADMSG;
        r = take_file(k, kept);
        run__kept__free_unpacked(k, NULL);
        if (r == 0 && !streq(kept->name, name))
                r = -EBADMSG;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(kept);
        return 0;
}

/* --- The directories --------------------------------------------------------------------------------- */

int state_make(const struct host *h, const char *path, mode_t mode) {
        const char *name = strrchr(path, '/') + 1;
        _cleanup_close_ int dir = -1, fd = -1;
        char parent[128];

        (void) snprintf(parent, sizeof(parent), "%.*s", (int) (name - path - 1), path);
        dir = host_open_file(h, parent, O_RDONLY | O_DIRECTORY);
        if (dir < 0)
                return dir;
        if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;
        /* whatever the umask was; what cannot be written can still be read, and runs_state() says it */
        if (fchmod(fd, mode) < 0 && errno != EROFS)
                return -errno;
        return TAKE_FD(fd);
}
