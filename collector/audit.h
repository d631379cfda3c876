/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Every call that acts leaves an event: who, what, when, result. */
#include "api.h"

#define TLS_NAME_TEXT 384

void audit_tell(const struct api *a, const char *method, const char *path, const char *by, const char *result, unsigned status);
