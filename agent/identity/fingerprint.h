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
void fingerprint_of(const struct finding_list *l, struct fingerprint *ret);
/* One finding more. */
void fingerprint_take(struct fingerprint *f, const struct finding *found);
/*
 * A part of a run's own: its LIBTPU_INIT_ARGS and the like; in place of the host's of that name. Makes the
 * digest anew.
 */
void fingerprint_set(struct fingerprint *f, const char *name, const char *text);
/*
 * {"digest": "…", "parts": {"kernel": "6.1…"}}: the member's of docs/registry.md. New reference, NULL: no
 * memory.
 */
json_t *fingerprint_to_json(const struct fingerprint *f);

/*
 * The first part in which two differ, by name: 1, with its name and both texts (empty: that host does not
 * have it); 0: they are the same.
 */
int fingerprint_compare(const struct fingerprint *a, const struct fingerprint *b, const char **ret_part,
                        const char **ret_a, const char **ret_b);
