/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that reports the stacks which training programs wrote into files ([StackFiles] Path=): the
 * event tpu.stack.file for each that is new. What cannot be watched is logged and no failure. Nobody asks
 * it anything.
 */
#include "part.h"

extern const struct part stack_files_part;
