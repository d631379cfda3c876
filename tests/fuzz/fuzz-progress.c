/* SPDX-License-Identifier: Apache-2.0 */
/* Any line: a step that is reported is within its limits, and what is kept of a checkpoint is text. */
#include <math.h>

#include "checkpoint.h"
#include "steps.h"
#include "utf8.h"

static void checkpoint(const char *line, size_t size) {
        struct checkpoint c = { .step = -1 };
        struct checkpoint_line l;

        if (!checkpoint_line_parse(line, size, &l))
                return;
        if (l.step > (int64_t) STEP_MAX || l.step < -1 ||
            (l.path && (l.path < line || l.path + l.path_len > line + size)))
                abort();
        for (usec_t at = 1; at < 3; at++)
                checkpoint_take(&c, line, size, 7, at, at);
        if (!utf8_is_text(c.path) || checkpoint_steps_since(&c, 7) > 7)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct step_line s;

        checkpoint((const char *) data, size);
        if (step_line_parse((const char *) data, size, &s))
                if (s.step > STEP_MAX || !(s.seconds >= 0 && s.seconds <= STEP_SECONDS_MAX) ||
                    isinf(s.loss) || isinf(s.tflops))
                        abort();
        return 0;
}
