/* SPDX-License-Identifier: Apache-2.0 */
#include "job_environment.h"

#include "local.pb-c.h"
#include "secret_name.h"
#include "wire_text.h"

bool variable_is_secret(const char *assignment) {
        return name_is_secret(assignment, strcspn(assignment, "="));
}

/* Nobody but root and the run's user, whatever the authority file grants: a value may be anything. */
static int check_rights(const struct job *j, const struct caller *c, const char *name, struct problem *p) {
        if (c->uid != 0 && (!j || c->uid != j->uid || c->remote))
                return problem_set(p, -EACCES, "as root, or as the user of the run",
                                   "user %s may not see the environment of run %.64s", c->name, name);
        if (!j)
                return problem_set(p, -ENOENT, "see: tpuctl jobs", "there is no run '%.64s' on this host",
                                   name);
        return 0;
}

bool job_environment_is_anothers(const struct runs *r, const struct caller *c, const char *name) {
        const struct job *j = runs_find(r, name);

        return j && j->uid != c->uid;
}

int job_environment_answer(const struct runs *r, struct frame_peer *peer, const struct caller *c,
                           const char *name, struct problem *p) {
        Local__EnvironmentReply reply = LOCAL__ENVIRONMENT_REPLY__INIT;
        const struct job *j = runs_find(r, name);
        char **shown, **hidden;
        size_t n = 0;
        int k = check_rights(j, c, name, p);

        if (k < 0)
                return k;
        while (j->env && j->env[n])
                n++;
        shown = calloc(n + 1, sizeof(*shown));
        hidden = calloc(n + 1, sizeof(*hidden));
        for (size_t i = 0; shown && hidden && i < n && k == 0; i++)
                if (!variable_is_secret(j->env[i]))
                        shown[reply.n_env++] = j->env[i];
                else {
                        hidden[reply.n_hidden] = strndup(j->env[i], strcspn(j->env[i], "="));
                        k = hidden[reply.n_hidden] ? 0 : -ENOMEM;
                        reply.n_hidden += k == 0;
                }
        reply.name = wire_text(j->name);
        reply.generation = j->spec.generation;
        reply.env = shown;
        reply.hidden = hidden;
        if (!shown || !hidden || k < 0)
                k = problem_set(p, -ENOMEM, "try again", "out of memory");
        else
                (void) frame_peer_send(peer, LOCAL__KIND__KIND_ENVIRONMENT_REPLY,
                                       &reply.base); /* who is gone needs none */
        for (size_t i = 0; i < reply.n_hidden; i++)
                free(hidden[i]);
        free(hidden);
        free(shown);
        return k;
}
