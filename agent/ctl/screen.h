/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The screens of tpuctl: JSON of an agent or a collector (docs/api.md) as text for a person. The JSON is
 * foreign input: what is missing or of the wrong type shows as "-". now is the real clock, for ages.
 */
#include <jansson.h>

#include "base.h"
#include "finding.h"

#define HOST_SILENT_SECONDS \
        60 /* agents push metrics every 10 s unless told otherwise: six missed in a row */

/* The text of o[key]: a string as it is, a number or boolean in decimal; "" when missing. buf is used for
 * numbers. */
#define FIELD_TEXT_MAX 32
const char *field_text(const json_t *o, const char *key, char buf[static FIELD_TEXT_MAX]);

/* Seconds from the RFC 3339 UTC time o[key] until now; NAN when there is none. */
double field_age(const json_t *o, const char *key, usec_t now);
/* Seconds from now until it, negative when it has passed; NAN when there is none. */
double field_left(const json_t *o, const char *key, usec_t now);

/* GET /v1/status: the verdict that the host's state stands for, and the screen. */
enum verdict status_verdict(const json_t *status);
void screen_status(const json_t *status, usec_t now, FILE *out);
/* One order: "WORD by root until …: reason". Nothing when it is null. */
void screen_order(const char *word, const json_t *order, FILE *out);
/* What is ordered, as lines of a status; silences with their checks. label: of the lines. */
void screen_orders(const json_t *status, const char *label, FILE *out);
/* GET /v1/net: the sentence, the ways, the balance of NICs. */
enum verdict net_verdict(const json_t *answer);
int screen_net(const json_t *answer, usec_t now, FILE *out);
/* GET /v1/jobs */
int screen_jobs(const json_t *answer, usec_t now, FILE *out);
/* GET /api/v1/runs: the runs over slices, each with whom it waits for. */
int screen_runs(const json_t *answer, usec_t now, FILE *out);
/* GET /api/v1/hosts, and a line of sums. A host that has been silent for long is shown as that, not in its
 * last known state. */
int screen_fleet(const json_t *answer, FILE *out);
/* events: an array of GET /api/v1/events' */
int screen_events(const json_t *events, FILE *out);
/* The same as one line without columns, for events that come one by one. */
int screen_event_line(const json_t *e, FILE *out);
