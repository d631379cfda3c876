/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <jansson.h>

#include "durable.h"
#include "secret.h"

#define JOB_VERSION 1

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

int job_write(int jobs_fd, const struct job *j) {
        _cleanup_free_ char *text = NULL;
        json_t *o;

        o = json_pack(
                "{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:I, s:I, s:o, s:o, s:b, s:I}",
                "version", JOB_VERSION, "name", j->name, "id", j->id, "boot_id", j->boot_id, "framework",
                j->framework, "malloc", j->malloc, "uid", (json_int_t) j->uid, "user", j->user, "directory",
                j->directory, "argv", strings_to_json(j->argv), "env", strings_to_json(j->env),
                "started_real_usec", (json_int_t) j->started_real, "started_boot_usec",
                (json_int_t) j->started_boot, "spec", run_spec_to_json(&j->spec), "restarts",
                restarts_to_json(&j->restarts), "stop_asked", (int) j->stop_asked, "preempted_real_usec",
                (json_int_t) j->preempted_real);
        if (!o)
                return -ENOMEM;
        text = json_dumps(o, JSON_COMPACT);
        json_decref(o);
        if (!text)
                return -ENOMEM;
        if (strlen(text) > JOB_FILE_MAX)
                return -E2BIG;
        return durable_write(jobs_fd, j->name, text, strlen(text), 0600);
}

static int copy_text(const char *from, char *to, size_t size) {
        if (strlen(from) >= size)
                return -EBADMSG;
        memcpy(to, from, strlen(from) + 1);
        return 0;
}

static int parse(json_t *o, const char *name, struct job *j) {
        const char *own, *id, *boot_id, *framework, *malloc_note, *user, *directory;
        json_int_t uid, real, boot, preempted;
        json_t *argv, *env, *spec, *restarts;
        int version, stop_asked, r;

        if (json_unpack(o, "{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:I, s:I, s:o, s:o, s:b, s:I}",
                        "version", &version, "name", &own, "id", &id, "boot_id", &boot_id, "framework",
                        &framework, "malloc", &malloc_note, "uid", &uid, "user", &user, "directory", &directory,
                        "argv", &argv, "env", &env, "started_real_usec", &real, "started_boot_usec", &boot,
                        "spec", &spec, "restarts", &restarts, "stop_asked", &stop_asked,
                        "preempted_real_usec", &preempted) < 0)
                return -EBADMSG;
        if (version < 1 || !streq(own, name) || uid < 0 || uid >= UINT32_MAX || real < 0 || boot < 0 ||
            preempted < 0)
                return -EBADMSG;
        if (copy_text(name, j->name, sizeof(j->name)) < 0 || copy_text(id, j->id, sizeof(j->id)) < 0 ||
            copy_text(boot_id, j->boot_id, sizeof(j->boot_id)) < 0 ||
            copy_text(framework, j->framework, sizeof(j->framework)) < 0 ||
            copy_text(malloc_note, j->malloc, sizeof(j->malloc)) < 0)
                return -EBADMSG;
        j->uid = (uid_t) uid;
        j->started_real = (usec_t) real;
        j->started_boot = (usec_t) boot;
        j->user = strdup(user);
        j->directory = strdup(directory);
        j->argv = strings_from_json(argv, JOB_ARGV_MAX);
        j->env = strings_from_json(env, JOB_ENV_MAX);
        if (!j->user || !j->directory || !j->argv || !j->env)
                return -EBADMSG;
        j->stop_asked = stop_asked;
        j->preempted_real = (usec_t) preempted;
        r = run_spec_from_json(spec, &j->spec);
        return r < 0 ? r : restarts_from_json(restarts, &j->restarts);
}

int job_read(int jobs_fd, const char *name, struct job **ret) {
        _cleanup_(job_freep) struct job *j = NULL;
        _cleanup_free_ char *text = NULL;
        size_t len;
        json_t *o;
        int r;

        if (!job_name_is_valid(name))
                return -EBADMSG;
        r = durable_read(jobs_fd, name, JOB_FILE_MAX, &text, &len);
        if (r < 0)
                return r == -E2BIG ? -EBADMSG : r;
        j = calloc(1, sizeof(*j));
        if (!j)
                return -ENOMEM;
        o = json_loadb(text, len, 0, NULL);
        if (!o)
                return -EBADMSG;
        r = parse(o, name, j);
        json_decref(o);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(j);
        return 0;
}
