/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What must be the same on all hosts of a run: kernel, versions of libtpu and the frameworks, flags. Pure.
 *
 * Made of what the probe "fingerprint" found: checks fingerprint.kernel, fingerprint.wheel (subject: the
 * package), fingerprint.flags (subject: the variable). A part is named kernel, the package, or the variable.
 * Of a wheel its versions count and not the directories, which may differ: "0.0.21 in /usr/…; 0.0.17 in …"
 * is "0.0.21,0.0.17". What the probe could not read is no part.
 */
#include <jansson.h>

#include "finding.h"

#define FINGERPRINT_PARTS_MAX  32
#define FINGERPRINT_TEXT_MAX   160
#define FINGERPRINT_DIGEST_MAX 17 /* 16 hex digits */

struct fingerprint_part {
        char name[64], text[FINGERPRINT_TEXT_MAX];
};
struct fingerprint {
        struct fingerprint_part parts[FINGERPRINT_PARTS_MAX]; /* by name */
        size_t n;
        char digest[FINGERPRINT_DIGEST_MAX]; /* of all parts: equal ones are equal, FNV-1a; no protection */
};

/* What is beyond the bounds is left out of parts and digest. The digest is empty while there is no part. */
/* One finding more. */
void fingerprint_take(struct fingerprint *f, const struct finding *found);
/* The list of the slice's workers: as it is up to 120 bytes, else how many and a digest. NULL: not known. */
void fingerprint_take_workers(struct fingerprint *f, const char *list, size_t hosts);
/*
 * {"digest": "…", "parts": {"kernel": "6.1…"}}: the member's of docs/registry.md. New reference, NULL: no
 * memory.
 */
json_t *fingerprint_to_json(const struct fingerprint *f);
