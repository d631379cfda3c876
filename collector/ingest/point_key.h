/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A series as its sender names it, as bytes: cheap to make, and different series have different ones. Inside
 * the room only. Pure.
 */
#include "otlp.pb-c.h"

#include "base.h"

#define POINT_KEY_MAX 1024

struct point_key {
        uint8_t bytes[POINT_KEY_MAX];
        size_t len;
        bool full;
};

void point_key_begin(struct point_key *k, const char *service, const char *name);
/* Adds one attribute as it was sent: bytes that need not be understood to name a series. */
void point_key_add_encoded(struct point_key *k, const void *data, size_t len);
/* Returns the length, or 0 when it is too long or a value is neither text, bool nor number. */
size_t point_key_end(struct point_key *k, Otlp__KeyValue *const *attributes, size_t n);
