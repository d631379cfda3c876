/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The local frames of tpu-launchd (proto/local.proto, kinds 20 to 39): each is checked against the caller's
 * credentials (authority.h), done by the runs (runs.h), and answered, be it with KIND_ERROR. When the
 * answers come:
 *
 *   RUN      when the command has been executed, or could not be
 *   RUN_LIST at once
 *   STOP     when the run is gone: up to its grace (90 s by default) later
 *   CAPTURE  when tpu-stack is done: within 5 s
 *   OWNERS   at once, to anyone
 *   LINES    when they have been read, which may have to wait for one: lines.h
 *
 * A connection waits for one answer at a time. A caller that goes away changes nothing for the run it asked
 * for.
 */
#include "frame.h"
#include "host.h"
#include "runs.h"

struct launch_api;

/* runs is attached by api_attach(). identity_config: --config or NULL, borrowed. */
int api_new(sd_event *e, const struct host *h, const char *identity_config, struct launch_api **ret);
void api_attach(struct launch_api *a, struct runs *r);
/* For frame_server_new() and runs_new(), with the api as userdata. */
extern const struct frame_handlers api_frame_handlers;
extern const struct runs_events api_runs_events;
/* After the frame server and the runs. */
struct launch_api *api_free(struct launch_api *a);
DEFINE_CLEANUP(struct launch_api *, api_free)
