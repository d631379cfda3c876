/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Sets of hosts as people read them: "[0-4,6-63]". */
#include "evidence.h"

/*
 * Writes the hosts i with in[i] to f: their worker numbers where all have one and one slice is shown
 * ("[0-4,6-63]"); with more slices one list each ("a[0-3] b[1]"); names where there are no numbers
 * ("[h1,h2]"). At most `parts` ranges or names, then "…".
 */
void rank_set_print(FILE *f, const struct evidence *e, const bool *in, unsigned parts);
