/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a daemon says of itself: the answer to KIND_STATUS_REQUEST; findings on the wire. */
#include "finding.h"
#include "frame.h"
#include "local.pb-c.h"

/* m points into f. */
void finding_to_wire(struct finding *f, Local__Finding *m);
int daemon_status_send(struct frame_peer *p, struct finding *says, size_t n);
