/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The innermost messages of a request: one metric with its points, one log record, one resource. Inside the
 * room only.
 */
#include "walk.h"

int leaf_metric(struct walk *w, const uint8_t *data, size_t len);
int leaf_log(struct walk *w, const uint8_t *data, size_t len);
int leaf_resource(struct walk *w, const uint8_t *data, size_t len, struct ingest_resource *ret);
