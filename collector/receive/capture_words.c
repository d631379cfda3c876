/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_words.h"

#include "texts.h"

#define WORKERS_MAX 4096 /* of a slice, as the planner has it */
#define HOSTS_MAX   1000000
#define TIME_MAX    INT64_C(253402300800000000) /* the year 10000 */

#define WORD_SIZE(member) sizeof(((struct capture_words *) NULL)->member)
#define WORD_NAME(member, n) { #member, ARGUMENT_NAME, 0, WORD_SIZE(member), .needed = (n) }
#define WORD_NUMBER(member, to, n) { #member, ARGUMENT_NUMBER, 0, (to), .needed = (n) }

static const struct argument words[] = {
        WORD_NAME(episode, false),
        WORD_NAME(slice, true),
        WORD_NAME(host, true),
        WORD_NAME(incarnation, true),
        WORD_NAME(run, false),
        WORD_NAME(suspicion, false),
        WORD_NUMBER(worker, WORKERS_MAX - 1, true),
        WORD_NUMBER(generation, INT64_MAX, false),
        WORD_NUMBER(round, 1, true),
        WORD_NUMBER(rounds, 2, false),
        WORD_NUMBER(hosts, HOSTS_MAX, false),
        WORD_NUMBER(slice_hosts, HOSTS_MAX, false),
        WORD_NUMBER(taken, TIME_MAX, true),
        TAKES_END,
};

#define COPY(member) (void) snprintf(w.member, sizeof(w.member), "%s", arguments_text(&a, #member) ?: "")

int capture_words_parse(const struct http_request *q, struct capture_words *ret,
                        char why[static ARGUMENTS_WHY_MAX]) {
        struct arguments a = { .table = words, .lenient = true };
        struct capture_words w;

        if (arguments_read(&a, q) < 0)
                return text_fail(why, ARGUMENTS_WHY_MAX, -EINVAL, "%s", a.why);
        w = (struct capture_words){ .worker = arguments_number(&a, "worker", -1),
                                    .generation = arguments_number(&a, "generation", -1),
                                    .round = arguments_number(&a, "round", -1),
                                    .rounds = arguments_number(&a, "rounds", 2),
                                    .hosts = arguments_number(&a, "hosts", 0),
                                    .slice_hosts = arguments_number(&a, "slice_hosts", 0),
                                    .taken = arguments_number(&a, "taken", -1) };
        COPY(episode);
        COPY(slice);
        COPY(host);
        COPY(incarnation);
        COPY(run);
        COPY(suspicion);
        *ret = w;
        return 0;
}
