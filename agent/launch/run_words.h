/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is kept of a run beside its record, when it ends: the ends of what libtpu wrote (libtpu_logs.h). Each
 * is one state file below STATE_WORDS, as long as its record is there, and is replaced at the next end of a
 * run of that name. It is gathered in processes of their own, behind the end: nothing waits for it, and what
 * is not there in its time is left out.
 */
#include "run_table.h"

#define WORDS_LIBTPU "libtpu"
#define WORDS_BYTES_MAX (256u * 1024) /* of one: fits into a LinesReply */
#define WORDS_TIMEOUT (5 * USEC_PER_SEC)

/* Called once, when the end of a run has just been judged, while its environment is there. */
void run_keep_words(struct run *run);
/* Of a run before, or of one that is forgotten. */
void run_remove_words(const struct runs *r, const char *name);
/* which: a word from above. -ENOENT: nothing is kept; -EINVAL: there is no such word. *ret is malloc'ed. */
int run_words(const struct runs *r, const char *name, const char *which, char **ret, size_t *ret_len);
