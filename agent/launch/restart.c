/* SPDX-License-Identifier: Apache-2.0 */
#include "restart.h"

static bool made_progress(const struct restarts *done, const struct exit_record *end, usec_t lived) {
        if (end->step_known && (!done->step_known || end->last_step > done->best_step))
                return true;
        return lived >= RESTART_LIVED && !end->step_known && !done->step_known;
}

static usec_t pause_after(uint32_t idle) {
        usec_t pause = RESTART_FIRST;

        for (uint32_t i = 0; i < idle && pause < RESTART_PAUSE_MAX; i++)
                pause *= 2;
        return MIN(pause, RESTART_PAUSE_MAX);
}

void restart_decide(const struct restarts *done, uint32_t max, const struct exit_record *end,
                    enum cause cause, usec_t lived, struct restart_decision *ret) {
        struct restart_decision d = { .next = *done };
        bool progress = made_progress(done, end, lived);

        if (end->step_known && (!done->step_known || end->last_step > done->best_step)) {
                d.next.step_known = true;
                d.next.best_step = end->last_step;
        }
        d.next.idle = progress ? 0 : done->idle + 1;
        d.next.done = done->done + 1;
        if (max == 0 || !cause_is_worth_a_restart(cause))
                ;
        else if (done->done >= max)
                (void) snprintf(d.words, sizeof(d.words), "not restarted: all %u restarts are done",
                                max);
        else if (d.next.idle >= RESTART_NO_PROGRESS)
                (void) snprintf(d.words, sizeof(d.words),
                                "not restarted: %u starts in a row made no progress",
                                (unsigned) d.next.idle);
        else {
                d.again = true;
                d.pause = pause_after(d.next.idle);
                (void) snprintf(d.words, sizeof(d.words), "restart %u of %u follows", d.next.done, max);
        }
        *ret = d;
}
