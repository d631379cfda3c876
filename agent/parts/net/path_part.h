/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The path proof for the API's callers (GET and POST /v1/path): at most one at a time, in this loop, and its
 * report is kept until the next. Whoever opens the socket may have the host's own peers proven, so that
 * starts are apart in time; other addresses are for root of this very host to name: what leaves from here
 * must not be anybody's choice.
 */
#include "part.h"

extern const struct part path_part;
