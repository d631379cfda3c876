/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes in place of the file that names a machine: what is taken fits, and any two are judged. */
#include <assert.h>

#include "machine_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct machine_state s = { 0 };
        struct machine_ids now = { .machine = "m", .instance = "1", .boot = "b" };
        int r = machine_state_parse((const char *) data, size, &s);

        assert(r == 0 || r == -EBADMSG || r == -ENOMEM);
        assert(strlen(s.of.host) < sizeof(s.of.host) && strlen(s.found_instance) < sizeof(s.found_instance));
        assert(machine_state_judge(&s.of, &now, true) != MACHINE_OPEN);
        assert(machine_state_judge(&s.of, &s.of, false) != MACHINE_OTHERS);
        return 0;
}
