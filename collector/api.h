/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The API for people and control planes (docs/api.md): what the store knows, as JSON. Reads only.
 */
#include "clock.h"
#include "damage.h"
#include "http.h"
#include "store.h"

/* Events of one answer stop when their texts reach this; the next call goes on behind them. */
#define API_EVENTS_BYTES ((size_t) 8 * 1024 * 1024)

struct api {
        const struct damage *damage;
        struct store *store;
        const struct clock *clock;
        const struct counters *counters;
};

/* A handler of http.h; userdata is a struct api. */
void api_handle(const struct http_request *q, struct http_reply *reply, void *userdata);
