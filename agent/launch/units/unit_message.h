/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The StartTransientUnit message of a run. */
#include <systemd/sd-bus.h>

#include "unit.h"

#define RUN_LINES_EVERY (30 * USEC_PER_SEC)
#define RUN_LINES_MOST 30000 /* lines that the journal takes of a run within that time */

#define SYSTEMD_SERVICE "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define SYSTEMD_MANAGER "org.freedesktop.systemd1.Manager"

int unit_message_new(sd_bus *bus, const struct unit_spec *s, sd_bus_message **ret);
/* The same of the command that is started beside it: unit.h. */
int unit_message_beside(sd_bus *bus, const struct unit_spec *s, sd_bus_message **ret);
