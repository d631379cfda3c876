/* SPDX-License-Identifier: Apache-2.0 */
#include "rights.h"

#include "environment.h"

#define REFUSALS_EVERY (60 * USEC_PER_SEC)

int rights_check(struct runs *r, const struct caller *c, enum action action, const char *name,
                 struct problem *p) {
        const struct kept_run *kept = runs_find(r, name);
        int k = 0;

        if (kept && !kept_run_is_shown_to(kept, c->uid))
                kept = NULL;
        /* Without a run, the question is whether one's own could be meant; remote has none, and asks about
         * what it sees. */
        if (kept)
                k = authority_decide(c, action, kept->uid, kept->user, p);
        else if (!c->remote)
                k = authority_decide(c, action, c->uid, c->name, p);
        return k < 0 || kept ? k : no_such_run(r, name, p);
}

int rights_check_replacing(struct runs *r, const struct caller *c, const struct kept_run *kept,
                           struct problem *p) {
        const struct kept_run *before = kept->name[0] ? runs_find(r, kept->name) : NULL;

        if (!before || before->uid == kept->uid ||
            authority_decide(c, ACTION_STOP, before->uid, before->user, p) == 0)
                return 0;
        if (kept->generation == 0 || before->generation == 0)
                return problem_set(p, -EEXIST, "choose another name",
                                   "%s is the name of a run of user %.64s, whose record is kept", kept->name,
                                   before->user);
        return -EACCES;
}

/* --- The record ---------------------------------------------------------------------------------------- */

void asked_note(struct asked *k, enum action action, const char *name, const char *detail) {
        k->action = action;
        (void) snprintf(k->name, sizeof(k->name), "%s", run_name_is_valid(name) ? name : "");
        (void) snprintf(k->detail, sizeof(k->detail), "%.64s",
                        environment_text_is_valid(detail) ? detail : "");
}

/* Its own; else one that was quiet for a minute; else the last, which others have, too. */
static struct refusals_of *refusals_find(struct refusals *all, usec_t now, uid_t uid) {
        struct refusals_of *quiet = NULL;

        for (size_t i = 0; i < REFUSAL_USERS; i++) {
                struct refusals_of *of = &all->of[i];

                if (of->since > 0 && of->uid == uid)
                        return of;
                if (!quiet && (of->since == 0 || now - of->since >= REFUSALS_EVERY))
                        quiet = of;
        }
        if (quiet)
                *quiet = (struct refusals_of){ .uid = uid };
        return quiet ? quiet : &all->of[REFUSAL_USERS - 1];
}

/* Whether it is recorded; how many before it were not. */
static bool count_refusal(struct refusals *all, usec_t now, uid_t uid, unsigned *ret_left_out) {
        struct refusals_of *of = refusals_find(all, now, uid);

        if (of->since == 0 || now - of->since >= REFUSALS_EVERY) {
                of->since = MAX(now, (usec_t) 1);
                of->n = 0;
        }
        if (of->n >= REFUSALS_A_MINUTE) {
                of->left_out++;
                return false;
        }
        of->n++;
        *ret_left_out = of->left_out;
        of->left_out = 0;
        return true;
}

void asked_record(struct refusals *all, usec_t now, const struct caller *c, const struct asked *k,
                  int result, const char *reason) {
        unsigned left_out = 0;
        char text[512];

        if (k->action == ACTION_LIST || (k->action == ACTION_LINES && result != -EACCES))
                return;
        if (result < 0 && c->uid != 0 && !count_refusal(all, now, c->uid, &left_out))
                return;
        (void) snprintf(text, sizeof(text), "%s", reason);
        if (left_out > 0)
                (void) snprintf(text, sizeof(text), "%s; %u refusals before it have no record", reason,
                                left_out);
        audit(c, k->action, k->name, k->detail, result, text);
}
