/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A diagnosis as what is kept and told of it. Inside this room only; pure. */
#include <jansson.h>

#include "base.h"

struct verdict_text {
        const char *outcome, *summary;       /* of the report */
        const char *slice, *host, *sentence; /* of the first suspect that is named; "": nobody */
        int64_t worker;                      /* -1 */
        double score;
};
/* -EBADMSG for what is no report. Texts are the report's. */
int verdict_read(const json_t *report, struct verdict_text *ret);

/*
 * Whether it confirms a suspicion: the run made no step between the captures, and there is a host to name; or the hosts
 * themselves see that nothing moves (stalls), whoever it is. pauses: the host that is named has told in its log that it
 * saves, compiles or evaluates, for no longer than that may take: others wait for it, and rightly so.
 */
bool verdict_confirms(const struct verdict_text *v, bool suspected, bool stalls, bool pauses);
