/* SPDX-License-Identifier: Apache-2.0 */
#include "restart.h"

json_t *restarts_to_json(const struct restarts *r) {
        return json_pack("{s:I, s:I, s:b, s:I}", "done", (json_int_t) r->done, "idle", (json_int_t) r->idle,
                         "step_known", (int) r->step_known, "best_step", (json_int_t) r->best_step);
}

int restarts_from_json(const json_t *o, struct restarts *ret) {
        json_int_t done, idle, best;
        int known;

        if (json_unpack((json_t *) (uintptr_t) o, "{s:I, s:I, s:b, s:I}", "done", &done, "idle", &idle,
                        "step_known", &known, "best_step", &best) < 0 ||
            done < 0 || done > UINT32_MAX || idle < 0 || idle > UINT32_MAX || best < 0)
                return -EBADMSG;
        *ret = (struct restarts){ .done = (uint32_t) done, .idle = (uint32_t) idle, .step_known = known,
                                  .best_step = (uint64_t) best };
        return 0;
}

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
                (void) snprintf(d.words, sizeof(d.words), "not started again: all %u restarts are done",
                                max);
        else if (d.next.idle >= RESTART_NO_PROGRESS)
                (void) snprintf(d.words, sizeof(d.words),
                                "not started again: %u starts in a row made no progress",
                                (unsigned) d.next.idle);
        else {
                d.again = true;
                d.pause = pause_after(d.next.idle);
                (void) snprintf(d.words, sizeof(d.words), "restart %u of %u follows", d.next.done, max);
        }
        *ret = d;
}
