/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The record of a slice in etcd. Every host of the slice watches slice/SLICE: with the whole roster in it each
 * change would be as many bytes as the square of the hosts. So of a slice of more than ETCD_SLICE_WHOLE hosts
 * slice/ holds numbers and the first few names, and the planner's whole record stands in roster/SLICE, which
 * nobody watches and who takes over reads. A whole record in slice/ (a small slice, or one that an agent
 * before this form wrote) is newer than any roster/. Pure.
 */
#include <jansson.h>

#include "base.h"

#define ETCD_SLICE_WHOLE 16
#define ETCD_SLICE_NAMED 8 /* of those who are missing, and of conflicts */

/* Whether slice/ is to hold the short form of this whole record. */
bool etcd_slice_is_large(const json_t *whole);
/* Its short form, a new reference; NULL: out of memory. */
json_t *etcd_slice_shorten(const json_t *whole);
/* Whether a record out of slice/ is the short form. */
bool etcd_slice_is_short(const json_t *record);
