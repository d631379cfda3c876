/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a run is asked for with, Run__Spec of run.proto: the one form of it inside our programs. People's
 * JSON (intents, run records, bodies of calls) and spec files are made and read by the table of keys. Pure.
 */
#include <jansson.h>

#include "run_key.h"

#define RUN_INTENT_BYTES_MAX (64 * 1024) /* of argv and env together: every host of the run reads it */
#define RUN_ARGV_BYTES_MAX (128 * 1024)  /* of argv of a run of this host */

/* Nothing is given. NULL: out of memory. */
Run__Spec *run_spec_new(void);
Run__Spec *run_spec_copy(const Run__Spec *s);
/* Returns NULL. */
Run__Spec *run_spec_free(Run__Spec *s);
DEFINE_CLEANUP(Run__Spec *, run_spec_free)

/* Whether it is over slices, by intent, and not for one host alone. */
bool run_spec_is_over_slices(const Run__Spec *s);
/*
 * Whether it can be a run: every key in its bounds, for those who may give it (enum run_who), and what must
 * be there is. -EINVAL with why; -E2BIG with why: arguments are too long.
 */
int run_spec_check(const Run__Spec *s, unsigned who, char why[static RUN_WHY_MAX]);

/* What is given of it. New reference; NULL: out of memory, or a text that is no UTF-8. */
json_t *run_spec_to_json(const Run__Spec *s);
/*
 * others: members besides the keys, NULL-terminated: any more is refused; NULL: what is not known is passed
 * over (records, which a later version may have written). -EINVAL with why; -ENOMEM. Bounds of values are
 * looked at, nothing else.
 */
int run_spec_from_json(const json_t *o, const char *const others[], Run__Spec **ret,
                       char why[static RUN_WHY_MAX]);

/*
 * A spec file: [Run] with the keys' names (Name=, MemoryTotal=, Env= many times, …), and Command=: words
 * with blanks between, "…" and '…' around those that hold some; Argument= many times: one more word each, as
 * it is. A line holds 190 bytes. What s has already stands; variables of s come after those of the file: of
 * two for one name the later counts. -EINVAL with why, naming the line; -ENOMEM.
 */
int run_spec_parse_file(Run__Spec *s, const char *path, const char *text, size_t len,
                        char why[static RUN_WHY_MAX]);
