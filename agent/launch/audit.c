/* SPDX-License-Identifier: Apache-2.0 */
#include "audit.h"

#include "journal.h"

#define FIELD_MAX 512

void audit(const struct caller *c, enum action a, const char *name, const char *detail, int result,
           const char *reason) {
        char message[FIELD_MAX * 2], fields[9][FIELD_MAX];
        const char *list[ELEMENTSOF(fields)];
        const char *word = result < 0 ? "refused" : "accepted";

        (void) snprintf(message, sizeof(message), "%s of run %s asked for by %s (uid %u, pid %d): %s%s%s",
                        action_name(a), name[0] ? name : "(to be named)", c->name, (unsigned) c->uid,
                        (int) c->pid, word, result < 0 ? ": " : "", result < 0 ? reason : "");
        (void) snprintf(fields[0], FIELD_MAX, "TPU_EVENT=tpu.launch.asked");
        (void) snprintf(fields[1], FIELD_MAX, "TPU_ACTION=%s", action_name(a));
        (void) snprintf(fields[2], FIELD_MAX, "TPU_JOB=%s", name);
        (void) snprintf(fields[3], FIELD_MAX, "TPU_DETAIL=%s", detail);
        (void) snprintf(fields[4], FIELD_MAX, "TPU_BY=%s", c->name);
        (void) snprintf(fields[5], FIELD_MAX, "TPU_BY_UID=%u", (unsigned) c->uid);
        (void) snprintf(fields[6], FIELD_MAX, "TPU_BY_PID=%d", (int) c->pid);
        (void) snprintf(fields[7], FIELD_MAX, "TPU_RESULT=%s", word);
        (void) snprintf(fields[8], FIELD_MAX, "TPU_REASON=%s", result < 0 ? reason : "");
        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                list[i] = fields[i];
        /* without a journal it went to standard error */
        (void) journal_event(result == -EACCES ? LOG_WARNING : LOG_NOTICE, AUDIT_MESSAGE_ID, message, list,
                             ELEMENTSOF(fields));
}
