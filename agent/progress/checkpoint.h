/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The last whole checkpoint of a run, as its log tells of it. Only a line that says that a save is done
 * makes one whole: that it was begun, or has failed, does not, and of a save in the background its last line
 * counts. Nothing is looked for on any disk.
 *
 * The words are those of rhythm.h:
 *   MaxText   "Saved a checkpoint at step 40." (checkpointing.py, print_save_message())
 *   Orbax     "Finished saving checkpoint (finalized tmp dir) to `gs://b/run/checkpoints/2000`."
 *   Megatron  "  successfully saved checkpoint from iteration      20 to /kept [ t 1/1, p 1/1 ]"
 *   others    "saved checkpoint to /gs/run/400.pt", "checkpoint saved: step 40"
 * Hugging Face's Trainer says only that it begins ("Saving model checkpoint to …"): nothing is whole by it.
 *
 * A path comes from a line of the run, so it is foreign text. It is shown where the command of the run is,
 * which names such a directory as a rule: to whoever may ask this host's agent. It does not leave the host.
 * A URL with '@' or '?' is not kept, for it may hold a secret.
 *
 * Pure, of fixed size; lines are hostile input.
 */
#include "base.h"

#define CHECKPOINT_PATH_MAX 255u /* bytes; a longer one is left out: cut, it would name another place */

enum checkpoint_sign {
        CHECKPOINT_SIGN_NONE,
        CHECKPOINT_BEGINS,
        CHECKPOINT_FAILS,
        CHECKPOINT_WHOLE,
};

struct checkpoint_line {
        enum checkpoint_sign sign;
        int64_t step;     /* by its words, else by the end of its path; -1: it does not say */
        const char *path; /* in the line; NULL: it has none */
        size_t path_len;
};

/* False: the line says nothing of a save; that one was restored or deleted is nothing. */
bool checkpoint_line_parse(const char *line, size_t len, struct checkpoint_line *ret);

struct checkpoint {
        usec_t at_real; /* when it became whole; 0: none was seen */
        usec_t took;    /* 0: not known, its beginning was not reported */
        int64_t step;   /* -1: not known */
        char path[CHECKPOINT_PATH_MAX + 1]; /* valid UTF-8; empty: not known */
        bool went_back; /* since then the run made steps from an older one, or from none */
        usec_t begun_at;                /* a save in progress, boot clock; 0: none */
        int64_t begun_step, begun_seen; /* as its line says, and as steps were by then; -1: not known */
};

/* Any line of the run. seen: its last step, -1: not known. at and at_real: one instant of both clocks. */
void checkpoint_take(struct checkpoint *c, const char *line, size_t len, int64_t seen, usec_t at,
                     usec_t at_real);
/* The first step of a start, or one that goes back. */
void checkpoint_resumed(struct checkpoint *c, uint64_t step);
/* Another start of the run: a save in progress will not become whole. */
void checkpoint_restart(struct checkpoint *c);
/* How many steps would be lost now; -1: not known. seen: as above. */
int64_t checkpoint_steps_since(const struct checkpoint *c, int64_t seen);
