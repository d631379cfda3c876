/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The words of an identity as numbers: which texts are well formed, and how the chips of a slice lie on its
 * hosts. Pure.
 *
 * Source of the constants: the public GKE device plugin and Ray. Accelerator types match
 * ^(v|tpu)[0-9]+[a-zA-Z]*-[0-9]+$; chips on a host form a box of 1 → 1,1,1; 2 → 1,2,1; 4 → 2,2,1; 8 → 2,4,1.
 */
#include "base.h"

#define SHAPE_CHIPS_MAX (1024 * 1024) /* in one slice; the largest known has 12,288 */
#define SHAPE_TEXT_MAX  40

struct shape {
        uint32_t size[3]; /* a topology of two dimensions has 1 in the third */
};

/* "4x4" or "4x4x8". -EINVAL for anything else, a zero, or more than SHAPE_CHIPS_MAX chips. */
int shape_parse_topology(const char *text, struct shape *ret);
/* "2,2,1", with the same bounds. */
int shape_parse_bounds(const char *text, struct shape *ret);
/* The box of chips of one host. -ENODATA when no such host exists. */
int shape_of_host(uint32_t chips, struct shape *ret);
/* How many hosts each dimension of the slice has. -EDOM when the hosts' boxes do not fill it. */
int shape_hosts(const struct shape *slice, const struct shape *host, struct shape *ret);
uint32_t shape_count(const struct shape *s);
/* "2,2,1" */
const char *shape_text(const struct shape *s, char buf[static SHAPE_TEXT_MAX]);

bool accelerator_type_is_valid(const char *text);
/* A host name or address: letters, digits and ".-_:", 1…253 characters. */
bool worker_name_is_valid(const char *text, size_t len);
/* A name of a slice, zone or machine type: letters, digits and ".-_", 1…63 characters. */
bool label_is_valid(const char *text);
