/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Screens: JSON of an agent or a collector (docs/api.md) as text for a person. Pure. */
#include <jansson.h>

#include "finding.h"

/* GET /v1/status: the verdict that the host's state stands for, and the screen. */
enum verdict status_verdict(const json_t *status);
int screen_status(json_t *status, usec_t now, FILE *out);
/* GET /v1/net, /v1/runs, /api/v1/hosts, /api/v1/runs; events: an array of /api/v1/events */
int screen_net(json_t *answer, usec_t now, FILE *out);
int screen_host_runs(json_t *answer, usec_t now, FILE *out);
int screen_fleet(json_t *answer, usec_t now, FILE *out);
int screen_runs(json_t *answer, usec_t now, FILE *out);
int screen_events(json_t *answer, usec_t now, FILE *out);
