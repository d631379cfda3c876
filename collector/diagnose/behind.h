/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a rank waits for, when it waits for another thread of its own host: the thread there, of any process,
 * that stands where no thread of the other hosts does, and does not only wait for threads itself. What
 * changed while read is none.
 */
#include "evidence.h"

/* For each stack of the table whether more than one host has it. *ret is the caller's to free. -ENOMEM. */
int behind_survey(const struct evidence *e, bool **ret);
/* shared: of behind_survey(). NULL: there is none. ret: where it is. */
const struct captured_thread *behind_find(const struct evidence *e, const bool *shared, const struct rank *r,
                                          struct place *ret);
