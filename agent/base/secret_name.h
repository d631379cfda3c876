/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is never shown: values of variables whose name says so. */
#include "base.h"

/* SECRET, TOKEN, PASSW or CREDENTIAL in it, or KEY at its end, in any case. */
bool name_is_secret(const char *name, size_t len);
