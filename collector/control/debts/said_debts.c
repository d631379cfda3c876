/* SPDX-License-Identifier: Apache-2.0 */
#include "said_debts.h"

#include <arpa/inet.h>

#include "grow.h"

/* Below 0: the speaker stands before the host in their order. */
static int compare_speaker(const struct speaker *s, const struct first_word_source *who) {
        int order = strcmp(s->slice, who->slice ? who->slice : "");

        return order != 0 ? order : strcmp(s->host, who->host);
}

bool speaker_is(const struct speaker *s, const struct first_word_source *who) {
        return compare_speaker(s, who) == 0;
}

/* Where a host is in their order, or would be. */
size_t speaker_place(const struct run_said *r, const struct first_word_source *who) {
        return SORTED_PLACE(r->n, i, compare_speaker(r->speakers[i], who) < 0);
}

const struct speaker *speaker_find(const struct run_said *r, const struct first_word_source *who) {
        size_t at = speaker_place(r, who);

        return at < r->n && speaker_is(r->speakers[at], who) ? r->speakers[at] : NULL;
}

int peer_address_parse(const char *text, struct peer_address *ret) {
        struct peer_address a = { .family = AF_INET };

        if (inet_pton(AF_INET, text, a.bytes) != 1) {
                a.family = AF_INET6;
                if (inet_pton(AF_INET6, text, a.bytes) != 1)
                        return -EBADMSG;
        }
        *ret = a;
        return 0;
}

bool said_is_of_stall(const struct run_said *r, usec_t since) {
        usec_t apart = MAX(FIRST_WORD_APART, FIRST_WORD_STEPS * r->step);

        return r->since > 0 && since + apart > r->since && since < r->since + apart;
}

bool speaker_counts(const struct run_said *r, const struct speaker *s) {
        return s->at > 0 && said_is_of_stall(r, s->since);
}
