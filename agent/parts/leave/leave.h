/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that ends tpu-hostd on a signal: what was recorded up to then is delivered first, where that is a
 * matter of moments. Where the whole machine goes down, the registry hears of it, so that a run over slices
 * does not wait for this host. The last part of all: its stop() says AGENT_STOPPING where nobody called
 * leave_begin().
 */
#include "part.h"

extern const struct part leave_part;

/*
 * Says that tpu-hostd stops, and ends the loop: as soon as what was recorded up to now is delivered, at once
 * when no endpoint takes it, and after 5 s in any case. Called again: at once.
 */
void leave_begin(const struct bus *b);
