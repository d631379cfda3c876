/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * POST /registry/v1/sync at the agents' port (docs/registry.md): between HTTP and the registry. Errors are
 * {"error", "remedy"}.
 */
#include "http_server.h"
#include "registry.h"

#define SYNC_PORT_PATH "/registry/v1/sync"

/* True: this collector does not lead, and the reply says so (421, 503). */
bool sync_port_elsewhere(struct registry *r, struct http_reply *reply);
void sync_port_handle(struct registry *r, const struct http_request *q, struct http_reply *reply);
/* registry_options.answer: call is a struct http_call. */
void sync_port_answer(void *call, unsigned status, struct registry_body *body, void *userdata);
