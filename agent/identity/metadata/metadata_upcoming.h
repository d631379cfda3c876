/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * instance/upcoming-maintenance?alt=json: a maintenance of the host's machine that is planned, days ahead as a rule. Its keys
 * are written windowStartTime (Cloud TPU, "View maintenance notifications") or window_start_time (Compute Engine, "Monitor and plan
 * for a host maintenance event"); nothing planned is {}, {"error": "no notifications have been received yet, try again later"} or NONE.
 * Pure.
 */
#include "base.h"

#define METADATA_UPCOMING_MAX 256

/* Whether one is planned; then text is one printable line of it: "SCHEDULED, PENDING, 2026-12-01T19:00:01Z to …". */
bool metadata_upcoming_parse(const char *value, char text[static METADATA_UPCOMING_MAX]);
