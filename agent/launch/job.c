/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include "device_list.h"
#include "json_fields.h"
#include "secret.h"
#include "state_file.h"

#define SIGNAL_MAX 64 /* of Linux on x86-64 (signal(7)) */

static const char *const state_names[] = {
        [JOB_STARTING] = "starting",
        [JOB_RUNNING] = "running",
        [JOB_WAITING] = "waiting",
        [JOB_EXITED] = "exited",
};
_Static_assert(ELEMENTSOF(state_names) == _JOB_STATE_MAX, "every state has a name");

bool job_name_is_valid(const char *name) {
        size_t n = strlen(name);

        return n >= 1 && n <= JOB_NAME_MAX && name[0] != '-' &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

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
        run_spec_clear(&j->spec);
        free(j);
        return NULL;
}

/* --- The file ------------------------------------------------------------------------------------------ */

#define FIELD(...) JSON_FIELD(struct job, __VA_ARGS__)
static const struct json_field fields[] = {
        FIELD(WORD, "name", name),
        FIELD(WORD, "id", id),
        FIELD(WORD, "boot_id", boot_id),
        FIELD(WORD, "framework", framework),
        FIELD(TEXT, "malloc", malloc),
        FIELD(NUMBER, "uid", uid, .max = UINT32_MAX - 1),
        FIELD(STRING, "user", user),
        FIELD(STRING, "directory", directory),
        FIELD(LIST, "argv", argv, .max = JOB_ARGV_MAX),
        FIELD(LIST, "env", env, .max = JOB_ENV_MAX),
        FIELD(NUMBER, "started_real_usec", started_real),
        FIELD(NUMBER, "started_boot_usec", started_boot),
        FIELD(FLAG, "stop_asked", stop_asked),
        FIELD(NUMBER, "preempted_real_usec", preempted_real),
        FIELD(NUMBER, "restarts_done", restarts.done),
        FIELD(NUMBER, "restarts_idle", restarts.idle),
        FIELD(FLAG, "step_known", restarts.step_known),
        FIELD(NUMBER, "best_step", restarts.best_step),
        FIELD(NUMBER, "generation", spec.generation),
        FIELD(TEXT, "intent", spec.intent),
        FIELD(TEXT, "slice", spec.slice),
        FIELD(TEXT, "worker", spec.worker),
        FIELD(LIMIT, "memlock", spec.memlock),
        FIELD(LIMIT, "nofile", spec.nofile),
        FIELD(LIMIT, "memory_max", spec.memory_max),
        FIELD(LIMIT, "memory_total", spec.memory_total),
        FIELD(LIMIT, "memory_high", spec.memory_high),
        FIELD(TEXT, "cpus", spec.cpus),
        FIELD(TEXT, "numa", spec.numa),
        FIELD(FLAG, "keep_core", spec.keep_core),
        FIELD(NUMBER, "grace_usec", spec.grace, .min = 1, .max = SPEC_GRACE_MAX),
        FIELD(NUMBER, "restarts", spec.restarts, .max = SPEC_RESTARTS_MAX),
        FIELD(NUMBER, "preempt_signal", spec.preempt_signal, .max = SIGNAL_MAX),
        FIELD(LIST, "preempt_argv", spec.preempt_argv, .max = SPEC_PREEMPT_ARGV_MAX),
        FIELD(FLAG, "share_devices", spec.share_devices),
        FIELD(FLAG, "any_device", spec.any_device),
        FIELD(LIST, "devices", spec.devices, .max = DEVICE_LIST_MAX),
        FIELD(FLAG, "remote", spec.remote),
};

static const struct state_format format = {
        .what = "run", .version = 1, .max = JOB_FILE_MAX, .options = { .mode = 0600 }
};

json_t *job_to_json(const struct job *j) {
        return json_fields_pack(fields, ELEMENTSOF(fields), j);
}

int job_from_json(const json_t *o, struct job **ret) {
        _cleanup_(job_freep) struct job *j = calloc(1, sizeof(*j));
        int r;

        if (!j)
                return -ENOMEM;
        r = json_fields_take(o, fields, ELEMENTSOF(fields), j);
        if (r < 0)
                return r;
        if (!j->argv || !job_name_is_valid(j->name))
                return -EBADMSG;
        if (!j->env)
                j->env = strings_copy(NULL, 0);
        if (!j->env)
                return -ENOMEM;
        *ret = TAKE_PTR(j);
        return 0;
}

int job_write(int jobs_fd, const struct job *j) {
        return state_file_write_json(jobs_fd, j->name, &format, job_to_json(j));
}

int job_read(int jobs_fd, const char *name, struct job **ret) {
        _cleanup_(job_freep) struct job *j = NULL;
        json_t *o;
        int r;

        if (!job_name_is_valid(name))
                return -EBADMSG;
        r = state_file_load_json(jobs_fd, name, &format, &o);
        if (r < 0)
                return r;
        r = job_from_json(o, &j);
        json_decref(o);
        if (r == 0 && !streq(j->name, name))
                r = -EBADMSG;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(j);
        return 0;
}
