/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is kept of a run beside its record, when it ends: the ends of what libtpu wrote (libtpu_logs.h), and
 * the stacks of its first core, as tpu-stack reads them as the run's user; the core stays where it is. Each
 * is one state file below STATE_WORDS, as long as its record is there, and is replaced at the next end of a
 * run of that name. It is gathered in processes of their own, behind the end: nothing waits for it, and
 * what is not there in its time is left out.
 */
#include "run_table.h"

#define WORDS_LIBTPU "libtpu"
#define WORDS_CORE "core"
#define WORDS_BYTES_MAX (256u * 1024) /* of one: fits into a LinesReply */
#define WORDS_TIMEOUT (5 * USEC_PER_SEC)
#define CORE_TIMEOUT (60 * USEC_PER_SEC) /* for its stacks; tpu-stack itself gives up earlier */
#define CORE_TEXT_MAX (4u * 1024 * 1024 + 4096) /* what tpu-stack may print; kept: WORDS_BYTES_MAX */

/* Called once, when the end of a run has just been judged, while its environment is there. */
void run_keep_words(struct run *run);
/* Of a run before, or of one that is forgotten. */
void run_remove_words(const struct runs *r, const char *name);
/* which: a word from above. -ENOENT: nothing is kept; -EINVAL: there is no such word. *ret is malloc'ed. */
int run_words(const struct runs *r, const char *name, const char *which, char **ret, size_t *ret_len);
