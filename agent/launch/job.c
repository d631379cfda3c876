/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include "secret.h"
#include "state_file.h"

static const char *const state_names[] = {
        [JOB_STARTING] = "starting",
        [JOB_RUNNING] = "running",
        [JOB_WAITING] = "waiting",
        [JOB_EXITED] = "exited",
};
_Static_assert(ELEMENTSOF(state_names) == _JOB_STATE_MAX, "every state has a name");

const char *job_state_name(enum job_state s) {
        return s < _JOB_STATE_MAX ? state_names[s] : "?";
}

const char *job_shown_state(const struct job *j) {
        return j->ending ? "ending" : job_state_name(j->state);
}

const char *job_unit(const char *name, char buf[static JOB_UNIT_MAX]) {
        (void) snprintf(buf, JOB_UNIT_MAX, "%s%.41s.service", RUN_UNIT_PREFIX, name);
        return buf;
}

const char *job_slice(const char *name, char buf[static JOB_UNIT_MAX]) {
        (void) snprintf(buf, JOB_UNIT_MAX, "%s%.41s.slice", RUN_UNIT_PREFIX, name);
        for (char *p = buf + strlen(RUN_UNIT_PREFIX); *p; p++)
                if (*p == '-')
                        *p = '_';
        return buf;
}

const char *job_command(const struct job *j, char *buf, size_t size) {
        size_t n = 0;

        buf[0] = '\0';
        for (size_t i = 0; j->argv && j->argv[i] && n < size; i++) {
                int k = snprintf(buf + n, size - n, "%s%s", i ? " " : "", j->argv[i]);

                if (k < 0)
                        break;
                n += (size_t) k;
        }
        for (char *p = buf; *p; p++)
                if ((unsigned char) *p < ' ')
                        *p = ' '; /* one line, whatever the arguments hold */
        if (n >= size)
                /* no half a character */
                for (n = size - 1; n > 0 && ((unsigned char) buf[n - 1] & 0xc0) == 0x80; n--)
                        buf[n - 1] = '\0';
        return buf;
}

struct job *job_free(struct job *j) {
        if (!j)
                return NULL;
        free(j->user);
        free(j->directory);
        free(j->control_group);
        (void) strings_free(j->argv);
        (void) strings_free(j->env);
        (void) secrets_free(j->secrets);
        (void) run_spec_free(j->spec);
        free(j);
        return NULL;
}

/* --- The file ------------------------------------------------------------------------------------------ */

static const struct state_format format = {
        .what = "run", .version = 2, .max = JOB_FILE_MAX, .options = { .mode = 0600 }
};

static char *text_of(const char *text) {
        return (char *) (uintptr_t) text; /* protobuf-c's structs are not const; packing does not write */
}

static size_t count(char *const *list) {
        size_t n = 0;

        while (list && list[n])
                n++;
        return n;
}

/* Everything is borrowed from the job. */
static void describe(const struct job *j, Run__Spec *s, Run__Kept *k) {
        *s = *j->spec;
        s->name = text_of(j->name);
        s->user = j->user;
        s->directory = j->directory;
        s->argv = j->argv;
        s->n_argv = count(j->argv);
        s->env = j->env;
        s->n_env = count(j->env);
        run__kept__init(k);
        k->spec = s;
        k->id = text_of(j->id);
        k->boot_id = text_of(j->boot_id);
        k->malloc = text_of(j->malloc);
        k->intent = text_of(j->intent);
        k->slice = text_of(j->slice);
        k->worker = text_of(j->worker);
#define PUT(field, value) (k->has_##field = true, k->field = (value))
        PUT(uid, j->uid);
        PUT(generation, j->generation);
        PUT(remote, j->remote);
        PUT(started_real, j->started_real);
        PUT(started_boot, j->started_boot);
        PUT(stop_asked, j->stop_asked);
        PUT(preempted_real, j->preempted_real);
        PUT(restarts_done, j->restarts.done);
        PUT(restarts_idle, j->restarts.idle);
        PUT(step_known, j->restarts.step_known);
        PUT(best_step, j->restarts.best_step);
#undef PUT
}

int job_write(int jobs_fd, const struct job *j) {
        _cleanup_free_ uint8_t *bytes = NULL;
        Run__Spec spec;
        Run__Kept kept;

        describe(j, &spec, &kept);
        bytes = malloc(run__kept__get_packed_size(&kept) + 1);
        return bytes ? state_file_write(jobs_fd, j->name, &format, bytes, run__kept__pack(&kept, bytes))
                     : -ENOMEM;
}

static int copy_text(char *to, size_t size, const char *from) {
        if (strlen(from) >= size)
                return -EBADMSG;
        memcpy(to, from, strlen(from) + 1);
        return 0;
}

/* The environment holds more than a user may give, and names that are taken away. The user's name and home are
 * as the host has them, of any length. */
static bool is_in_bounds(const Run__Spec *s) {
        char why[RUN_WHY_MAX];

        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);

                if (k->kind != RUN_KEY_VARIABLES && !streq(k->name, "user") && !streq(k->name, "directory") &&
                    run_key_check(k, s, why) < 0)
                        return false;
        }
        return s->n_argv > 0 && s->name[0] && s->user[0] && s->directory[0];
}

static int take_texts(const Run__Kept *k, struct job *j) {
        const Run__Spec *s = k->spec;

        if (!s || !is_in_bounds(s) || copy_text(j->name, sizeof(j->name), s->name) < 0 ||
            copy_text(j->id, sizeof(j->id), k->id) < 0 ||
            copy_text(j->boot_id, sizeof(j->boot_id), k->boot_id) < 0 ||
            copy_text(j->malloc, sizeof(j->malloc), k->malloc) < 0 ||
            copy_text(j->intent, sizeof(j->intent), k->intent) < 0 ||
            copy_text(j->slice, sizeof(j->slice), k->slice) < 0 ||
            copy_text(j->worker, sizeof(j->worker), k->worker) < 0)
                return -EBADMSG;
        j->user = strdup(s->user);
        j->directory = strdup(s->directory);
        j->argv = strings_copy((const char *const *) s->argv, s->n_argv);
        j->env = strings_copy((const char *const *) s->env, s->n_env);
        return j->user && j->directory && j->argv && j->env ? 0 : -ENOMEM;
}

static int take(Run__Kept *k, struct job *j) {
        int r = take_texts(k, j);

        if (r < 0)
                return r;
        j->uid = k->uid;
        j->generation = k->generation;
        j->remote = k->remote;
        j->started_real = k->started_real;
        j->started_boot = k->started_boot;
        j->stop_asked = k->stop_asked;
        j->preempted_real = k->preempted_real;
        j->restarts = (struct restarts){ .done = k->restarts_done, .idle = k->restarts_idle,
                                         .step_known = k->step_known, .best_step = k->best_step };
        j->spec = TAKE_PTR(k->spec);
        job_drop_texts(j);
        return 0;
}

void job_drop_texts(struct job *j) {
        static const char *const above[] = { "name", "user", "directory", "argv", "env" };

        for (size_t i = 0; i < ELEMENTSOF(above); i++)
                run_key_unset(run_key_find(above[i]), j->spec);
}

int job_read(int jobs_fd, const char *name, struct job **ret) {
        _cleanup_(job_freep) struct job *j = calloc(1, sizeof(*j));
        _cleanup_free_ char *bytes = NULL;
        Run__Kept *k;
        size_t len;
        int r;

        if (!run_name_is_valid(name))
                return -EBADMSG;
        r = j ? state_file_load(jobs_fd, name, &format, &bytes, &len) : -ENOMEM;
        if (r < 0)
                return r;
        k = run__kept__unpack(NULL, len, (const uint8_t *) bytes);
        if (!k)
                return -EBADMSG;
        r = take(k, j);
        run__kept__free_unpacked(k, NULL);
        if (r == 0 && !streq(j->name, name))
                r = -EBADMSG;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(j);
        return 0;
}
