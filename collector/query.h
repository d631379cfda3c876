/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The parameters of GET /api/v1/events, checked: an unknown one, one given twice, a number out of range are
 * errors that name it.
 */
#include "http.h"
#include "store.h"

#define QUERY_LIMIT_DEFAULT 100
#define QUERY_LIMIT_MAX 1000
#define QUERY_WHY_MAX 160

/* Texts of *ret are borrowed from the request. -EINVAL with why. */
int query_events(const struct http_request *q, struct store_event_filter *ret,
                 char why[static QUERY_WHY_MAX]);
/* -EINVAL with why when there is any parameter. */
int query_none(const struct http_request *q, char why[static QUERY_WHY_MAX]);
