/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the hosts of one run said, and the sentence about it. Inside this room only. */
#include "first_word.h"

struct peer_address {
        uint8_t family, bytes[16];
};

struct said_debt {
        struct peer_address local, peer;
        struct debt debt;
};

struct speaker {
        char host[FIRST_WORD_NAME_MAX], slice[FIRST_WORD_NAME_MAX];
        int64_t worker;
        usec_t heard, at, since; /* at: of what it said last; 0: nothing of a stall.
                                    since: its last step */
        struct said_debt *debts;
        size_t n;
};

struct run_said {
        char name[FIRST_WORD_NAME_MAX];
        uint64_t generation, first; /* first: the host that spoke of it first, as a number */
        usec_t heard, due, judged; /* judged: 0: never */
        struct speaker **speakers;
        size_t n, size;
        usec_t since, step;     /* of the stall that is judged; since 0: none is */
        struct first_word word; /* at 0: nothing was said */
};

int peer_address_parse(const char *text, struct peer_address *ret); /* -EBADMSG */
/* Of the stall that is judged. */
bool speaker_counts(const struct run_said *r, const struct speaker *s);
bool said_is_of_stall(const struct run_said *r, usec_t since);
bool speaker_is(const struct speaker *s, const struct first_word_source *who);
/* Where a host is in their order, or would be. */
size_t speaker_place(const struct run_said *r, const struct first_word_source *who);

/* What the hosts say together. slices: as of first_words_judge(). Fills in says, host, slice, worker,
 * text, hosts and said. -ENOMEM. */
int said_judge(const struct run_said *r, const json_t *slices, size_t known, struct first_word *ret);
