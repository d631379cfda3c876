/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A screen that is drawn again every 2 s. On a terminal it has the terminal for itself, follows its size,
 * and ends with q or Ctrl-C, which leave the terminal as it was. Elsewhere one stands below the other, until
 * it is interrupted.
 */
#include "base.h"

/* draw prints on standard output, complaints on standard error, and returns an exit code: the last one is
 * returned. Nothing is printed by draw before it has what it prints. */
int live_show(int (*draw)(void *userdata), void *userdata);
/* Lines that the screen has; SIZE_MAX where it is no terminal. */
size_t live_lines(void);
