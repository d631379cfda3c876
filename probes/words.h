/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the probes say, by id: words.def is the one list of verdicts, reasons and remedies. For probes alone.
 */
#include "probe.h"

enum words {
#define WORDS(id, check, verdict, wanted, source, reason, remedy) WORDS_##id,
#include "words.def"
#undef WORDS
        _WORDS_MAX,
};

/* Begins a finding with what stands in the list; the probe adds what it found, and sets what the list leaves
 * empty. */
void probe_words(struct finding *f, enum words w, const char *subject, const char *detail);
/* Says it of the subject (NULL: the host), with detail (NULL: none) in the texts' {1}; fmt: what was found.
 * All is made printable. */
void probe_tell(struct sink *s, enum words w, const char *subject, const char *detail, const char *fmt, ...)
        _printf_(5, 6);
/* Says what was judged elsewhere. */
void probe_tell_all(struct sink *s, const struct finding_list *l);
