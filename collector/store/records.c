/* SPDX-License-Identifier: Apache-2.0 */
#include "statement.h"

/* The known sequence numbers of one spool and class are runs [first, last] that neither overlap nor touch.
 */
struct run {
        int64_t first, last;
};

static int put(struct store *s, const struct store_record *r, const struct run *run, usec_t now) {
        return store_run(s, ST_RANGE_ADD,
                         BIND(TEXT(r->spool), TEXT(r->class), INT(run->first), INT(run->last), TIME(now)));
}

static int drop(struct store *s, const struct store_record *r, int64_t first) {
        return store_run(s, ST_RANGE_DELETE, BIND(TEXT(r->spool), TEXT(r->class), INT(first)));
}

/* Keeps the number of runs bounded: the two lowest become one. */
static int close_lowest_gap(struct store *s, const struct store_record *r, usec_t now) {
        struct run low, next;
        int64_t n;
        int q;

        q = store_ask(s, ST_RANGE_COUNT, BIND(TEXT(r->spool), TEXT(r->class)), &n, NULL);
        if (q < 0 || n <= STORE_RANGES_MAX)
                return q < 0 ? q : 0;
        q = store_ask(s, ST_RANGE_LOWEST, BIND(TEXT(r->spool), TEXT(r->class), INT(0)), &low.first,
                      &low.last);
        if (q <= 0)
                return q;
        q = store_ask(s, ST_RANGE_LOWEST, BIND(TEXT(r->spool), TEXT(r->class), INT(1)), &next.first,
                      &next.last);
        if (q <= 0)
                return q;
        q = drop(s, r, next.first);
        if (q < 0)
                return q;
        low.last = next.last;
        return put(s, r, &low, now);
}

int store_take_record(struct store *s, const struct store_record *r, usec_t now) {
        int64_t seq = (int64_t) r->seq;
        struct run run = { seq, seq }, below, above;
        bool grows = false;
        int q;

        q = store_ask(s, ST_RANGE_BELOW, BIND(TEXT(r->spool), TEXT(r->class), INT(seq)), &below.first,
                      &below.last);
        if (q < 0)
                return q;
        if (q > 0 && below.last >= seq)
                return 0;
        if (q > 0 && below.last == seq - 1) {
                run.first = below.first;
                grows = true;
        }
        if (seq < INT64_MAX) {
                q = store_ask(s, ST_RANGE_ABOVE, BIND(TEXT(r->spool), TEXT(r->class), INT(seq + 1)),
                              &above.first, &above.last);
                if (q > 0) {
                        run.last = above.last;
                        grows = true;
                        q = drop(s, r, above.first);
                }
                if (q < 0)
                        return q;
        }
        q = put(s, r, &run, now);
        if (q == 0 && !grows)
                q = close_lowest_gap(s, r, now);
        return q < 0 ? q : 1;
}
