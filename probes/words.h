/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How probes report: what stands in the list of check_words.h, beside the numbers and texts of probe.h. */
#include "check_words.h"
#include "probe.h"

/* Begins a finding with what stands in the list; the probe adds what it found, and sets what the list leaves
 * empty. */
void probe_words(struct finding *f, enum check_words w, const char *subject, const char *detail);
/* Says it of the subject (NULL: the host), with detail (NULL: none) as {1}; fmt: what was found.
 * All is made printable. */
void probe_tell(struct sink *s, enum check_words w, const char *subject, const char *detail, const char *fmt,
                ...) _printf_(5, 6);
/* Says what was judged elsewhere. */
void probe_tell_all(const struct host *h, struct sink *s, const struct finding_list *l);
