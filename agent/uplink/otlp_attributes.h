/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Attributes as OTLP has them, in memory of an arena; bytes are only pointed to. -ENOMEM. */
#include "arena.h"
#include "otlp.h"
#include "otlp.pb-c.h"

/* At least what they take when encoded. */
size_t otlp_attributes_bytes(const struct otlp_attribute *a, size_t n);
int otlp_value_make(struct arena *arena, const struct otlp_attribute *a, Otlp__AnyValue *ret);
/* *ret is NULL for none. */
int otlp_attributes_make(struct arena *arena, const struct otlp_attribute *a, size_t n, Otlp__KeyValue ***ret);
