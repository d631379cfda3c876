/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who sets what is contested. tpu-hostd alone sees it, by the BPF set "writers". It says it in a file of its
 * own (netcfg/intent/contested.h), which contested_load() of all programs reads. Whoever was seen stays the
 * writer of that contest.
 */
#include "contested.h"
#include "writers.h"

/* Fills in who sets each of *l, of which *known are known already. seen: NULL, nothing is seen. why: what is
 * said where nobody was seen; empty: all is seen. */
void contest_writers(const struct host *h, const struct writers_figures *seen, const char *why,
                     const struct contested_list *known, struct contested_list *l);
/* -errno. */
int contest_writers_save(const struct host *h, const struct contested_list *l);
