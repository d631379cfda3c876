/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One call of tpu-hostd's API (docs/api.md) over its Unix socket. */
#include "http.h"

/* 0 and a new reference; -errno with problem set, its remedy naming the service when nobody answers. */
int hostd_call(const char *root, const char *method, const char *path, usec_t timeout, json_t **ret,
               struct problem *problem);
/* GET or, with an empty body, POST. */
int hostd_ask(const char *root, const char *path, bool post, usec_t timeout, json_t **ret,
              struct problem *problem);
