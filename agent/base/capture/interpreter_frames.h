/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Native frames of the Python interpreter itself (modules python3…, libpython3…) say nothing beside the Python
 * frames that it ran, and differ from build to build.
 */
#include "stack_table.h"

/*
 * Takes them out of a stack that has Python frames; returns how many frames are left. frames: numbers in t,
 * innermost first. Where Python frames were not put in their places they stand behind the native ones; then
 * all native frames from the interpreter's innermost on are taken out.
 */
size_t interpreter_frames_drop(const struct stack_table *t, uint32_t *frames, size_t n);
