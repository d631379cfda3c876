/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shorthand for probes: a sample with up to two attributes into a sink, and text of the machine made fit to
 * print. */
#include "probe.h"

struct metric {
        const char *name, *unit, *description; /* static */
        enum sample_kind kind;
};

/* key/value NULL: no such attribute. */
void emit_int(struct sink *s, const struct metric *m, int64_t value, const char *key0, const char *value0,
              const char *key1, const char *value1);
void emit_double(struct sink *s, const struct metric *m, double value, const char *key0, const char *value0);

/* Replaces control characters and what is no UTF-8 by '?', in place: nothing that was read may move the
 * reader's cursor. Returns text. */
char *make_printable(char *text);
