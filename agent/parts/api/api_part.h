/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that answers callers: the query API on the Unix socket, and over TCP where [Api] of hostd.conf
 * names certificates (docs/api.md, docs/openapi-agent.yaml). It serves the calls of all parts. Its own:
 * /healthz, /metrics, and GET of /v1/status, /v1/checks and /v1/events. Checks: "api.listen",
 * "api.certificate": what is wrong with the API is a WARN, and makes no host unfit for runs.
 */
#include "part.h"

extern const struct part api_part;
