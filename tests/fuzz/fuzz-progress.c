/* SPDX-License-Identifier: Apache-2.0 */
/* Any line: a step that is reported is within its limits. */
#include <math.h>

#include "steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct step_line s;

        if (step_line_parse((const char *) data, size, &s))
                if (s.step > STEP_MAX || !(s.seconds >= 0 && s.seconds <= STEP_SECONDS_MAX) ||
                    isinf(s.loss) || isinf(s.tflops))
                        abort();
        return 0;
}
