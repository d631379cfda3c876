/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How old a record of the spool is, out of its bytes. Pure; believes no length.
 */
#include "base.h"

/* The time of the first log record (events) or of the first point of an encoded export request; 0: none. */
usec_t otlp_first_log_time(const void *data, size_t len);
usec_t otlp_first_point_time(const void *data, size_t len);
