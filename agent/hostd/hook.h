/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The site's hook: a command that is run once for an event, in a process of its own that is killed, with all
 * that it started, at its timeout. No shell: the command is split at blanks; the event's fields are in its
 * environment. Calls wait for each other, each after a random delay; past a rate, or HOOK_QUEUE_MAX that
 * wait, they are held: not run at all. So they are while a part of the slice is out of service already, or
 * the collector that should tell does not answer (hook_brake.h, asked in the command's own process before
 * the command is). At most once: what waits when the agent ends is not run.
 */
#include <systemd/sd-event.h>

#include "base.h"

#define HOOK_QUEUE_MAX 32

struct hook_options {
        char command[256]; /* absolute path and words; empty: there is no hook */
        char events[256];  /* names, blanks between */
        usec_t timeout, jitter;
        uint32_t per_minute;
        char collector[256]; /* base URL of its API; empty: the fleet is not asked */
        uint32_t brake;      /* percent of the slice */
};

enum hook_result { HOOK_DONE, HOOK_FAILED, HOOK_HELD };

struct hook;
/*
 * program: this program, for --hook. ended: how a call ended, and why not well. event is the call's, valid
 * until it returns.
 */
int hook_new(sd_event *e, const char *program,
             void (*ended)(enum hook_result r, const char *event, const char *why, void *userdata),
             void *userdata, struct hook **ret);
/* Kills a command that runs. */
struct hook *hook_free(struct hook *h);
DEFINE_CLEANUP(struct hook *, hook_free)

/* Whether event is one of the hook's. */
bool hook_wants(const struct hook_options *o, const char *event);
/*
 * Runs it later, or tells at once that it is held. environment: NULL-terminated "KEY=value", taken over (the
 * list and its texts), also on failure. now: boot clock. -ENOMEM.
 */
int hook_offer(struct hook *h, const struct hook_options *o, const char *event, char **environment,
               usec_t now);
