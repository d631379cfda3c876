/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that reports contests over settings: an event when one begins, and one when it has ended. At each
 * tick it reads the file in which tpu-netcfg says which there are (netcfg/intent/contested.h), and says in
 * one of its own who sets them (contest_writers.h).
 */
#include "part.h"

extern const struct part contests_part;
