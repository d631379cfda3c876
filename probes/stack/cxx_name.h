/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Alone because its input means harm and a fuzz target knows nothing else: the name of a C++ function out of
 * its symbol, as people and tables of waits know it: namespaces, classes and the function, without template
 * arguments, parameters and return type: "c10d::ProcessGroupGloo::runLoop". What is inside a function ends
 * in "{…}". libiberty (linked in: it is a static library) reads the symbol. Symbols come out of files that
 * mean harm: what goes in and what comes out is bounded, and libiberty itself refuses what would nest too
 * deep.
 */
#include "base.h"

#define CXX_NAME_MAX 512u /* with the final NUL */
#define CXX_SYMBOL_MAX 4096u

/* -EINVAL: it is no such symbol; -E2BIG: its name is longer than buf. */
int cxx_name(const char *symbol, char buf[static CXX_NAME_MAX]);
