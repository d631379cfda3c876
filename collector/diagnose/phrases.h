/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Parts of a diagnosis' sentences: a host, a place, a chain of waits, what the others do. */
#include "blame.h"

/* Of its frames and texts. */
const struct stack_table *diagnosis_table(const struct diagnosis *d);

/* "slice 1, worker 5 (10.10.0.15)". */
void phrase_host(FILE *f, const struct seen_host *h);
/* "is in `read` under `dataset.py:88 next_batch`". */
void phrase_place(FILE *f, const struct stack_table *t, const struct place *p);
/* "its main thread waits 41 s for a lock that thread 214 'writer' holds; that one waits for …". */
void phrase_chain(FILE *f, const struct diagnosis *d, uint32_t rank);
/* ", the 63 others wait in all-reduce": what those who are not odd do; "" where none of them waits. host:
 * who they wait for. */
void phrase_others(FILE *f, const struct diagnosis *d, uint32_t host);
