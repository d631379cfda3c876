/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_of.h"

bool machine_of(const struct host *h, const struct probe_context *c, struct machine_type *ret) {
        if (!c->machine)
                return c->machine_type && machine_type(h, c->machine_type, ret) == 0;
        if (c->machine->chips == 0)
                return false;
        *ret = *c->machine;
        return true;
}
