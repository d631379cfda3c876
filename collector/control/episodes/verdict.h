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
        bool moved, saves; /* of that suspect: docs/diagnose.md */
};
/* -EBADMSG for what is no report. Texts are the report's. */
int verdict_read(const json_t *report, struct verdict_text *ret);

/* What else is known when a verdict is judged. */
struct verdict_case {
        bool suspected; /* the hosts suspect a stall */
        bool stalls;    /* one of them sees that nothing moves, not only that it is unusual */
        /* Of the host that is named: its log has told that it saves, compiles or evaluates, for no longer than that may
         * take; its agent sees that the run works there (it writes, or burns more cores than in steps). */
        bool pauses, works;
        unsigned excused; /* rounds of this stall that were not confirmed for its progress */
};
#define VERDICT_EXCUSES 2u /* then it is a stall, whatever moves: the planner asks for no more rounds, either */

enum verdict_says {
        VERDICT_SAYS_NOTHING,
        /* The run made no step between the captures, and there is a host to name; or the hosts themselves see that
         * nothing moves, whoever it is. */
        VERDICT_CONFIRMS,
        /* It would, but the host that is named writes, and gets on: it is looked at again. */
        VERDICT_PROGRESSES,
};
enum verdict_says verdict_judge(const struct verdict_text *v, const struct verdict_case *c);
