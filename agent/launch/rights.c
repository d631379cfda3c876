/* SPDX-License-Identifier: Apache-2.0 */
#include "rights.h"

int rights_check(struct runs *r, const struct caller *c, enum action action, const char *name,
                 struct problem *p) {
        const struct job *j = runs_find(r, name);
        struct refusal refusal;

        /* Without a run, the question is whether one's own could be meant; remote has none, and asks about
         * what it sees. */
        if (j ? authority_decide(c, action, j->uid, j->user, &refusal) < 0 :
                !c->remote && authority_decide(c, action, c->uid, c->name, &refusal) < 0)
                return problem_set(p, -EACCES, refusal.remedy, "%s", refusal.reason);
        if (!j)
                return problem_set(p, -ENOENT, "see: tpuctl jobs", "there is no run '%.64s' on this host",
                                   name);
        return 0;
}

int rights_check_replacing(struct runs *r, const struct caller *c, const struct job *j, struct problem *p) {
        const struct job *before = j->spec.generation > 0 ? runs_find(r, j->name) : NULL;
        struct refusal refusal;

        if (!before || before->spec.generation == 0 || before->uid == j->uid ||
            authority_decide(c, ACTION_STOP, before->uid, before->user, &refusal) == 0)
                return 0;
        return problem_set(p, -EACCES, refusal.remedy, "%s", refusal.reason);
}

int rights_check_hint(const struct caller *c, struct problem *p) {
        struct refusal refusal;

        if (authority_decide(c, ACTION_HINT, c->uid, c->name, &refusal) == 0)
                return 0;
        return problem_set(p, -EACCES, refusal.remedy, "%s", refusal.reason);
}
