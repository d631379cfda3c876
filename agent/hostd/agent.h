/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tpu-hostd: its parts on their bus (part.h, bus.h), from start to end. */
#include <systemd/sd-event.h>

#include "settings.h"

struct agent;

/*
 * Starts everything. When this returns, every probe that does not block has run, and the workers of the
 * others have been started. e, h and config_file are borrowed, settings are copied. What fails is logged
 * with what to do; -errno then.
 */
int agent_new(sd_event *e, const struct host *h, const char *config_file, const struct settings *s,
              struct agent **ret);
/* On a signal: leave.h. */
void agent_stop(struct agent *a);
/* Ends all parts. */
struct agent *agent_free(struct agent *a);
DEFINE_CLEANUP(struct agent *, agent_free)
/* SIGHUP: identity, wanted values and the settings that can change are read again. */
void agent_reload(struct agent *a);
