/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The name of a C++ function out of its symbol (Itanium C++ ABI, "External Names (a.k.a. Mangling)"), as people
 * and tables of waits know it: namespaces, classes and the function, without template arguments, parameters
 * and return type: "c10d::ProcessGroupGloo::runLoop". What is inside a function ends in "{…}". Symbols come out
 * of files that mean harm: no recursion, no copying of what stood before, the work is linear.
 */
#include "base.h"

#define CXX_NAME_MAX 512u /* with the final NUL */

/* -EINVAL: it is no such symbol, or one of a kind that is not known; -E2BIG: longer than buf. */
int cxx_name(const char *symbol, char buf[static CXX_NAME_MAX]);
