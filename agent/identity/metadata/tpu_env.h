/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the metadata server says of the slice: the attributes tpu-env and worker-network-endpoints, each in
 * both of its forms. Pure.
 *
 * tpu-env is lines "KEY: 'VALUE'" (quotes may be ", or none; a YAML mapping without nesting). Virtual
 * machines of the Cloud TPU API say WORKER_ID and ACCELERATOR_TYPE, instances of Compute Engine
 * TPU_WORKER_ID and TPU_ACCELERATOR_TYPE. worker-network-endpoints is a comma list of NAME:UID:ADDRESS, or,
 * since 2026, of bare host names. Sources: dumps of a v4-256 and a v6e-8; cloud_tpu_cluster.py of JAX, which
 * reads all four.
 *
 * Both fill an identity, which is empty before, and on failure behind it. -EBADMSG with why: it is not that
 * attribute; -ENOMEM. A value that cannot be its field's is passed over: 0 with why, else why is empty.
 */
#include "identity.h"

#define TPU_ENV_WHY_MAX   128
#define TPU_ENV_LINES_MAX 512
#define TPU_ENV_VALUE_MAX (16 * 1024)

int tpu_env_parse(const char *text, size_t len, const char *origin, struct identity *i,
                  char why[static TPU_ENV_WHY_MAX]);
int tpu_endpoints_parse(const char *text, size_t len, const char *origin, struct identity *i,
                        char why[static TPU_ENV_WHY_MAX]);
