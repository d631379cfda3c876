/* SPDX-License-Identifier: Apache-2.0 */
#include "statement.h"
#include "store_episodes.h"

#define TOGETHER     (60 * USEC_PER_SEC) /* what hosts capture for themselves within this is one episode */
#define NEWS_AT_ONCE 1000

int store_add_capture(struct store *s, const struct store_capture *c, usec_t now) {
        int64_t n = 0, known = 0;
        int r = store_ask(s, ST_CAPTURE_FIND, BIND(TEXT(c->episode), TEXT(c->host), INT(c->round)), &known,
                          NULL);

        if (r != 0)
                return r < 0 ? r : 0;
        r = store_ask(s, ST_CAPTURE_COUNT, BIND(TEXT(c->host), TIME(now - MIN(now, STORE_CAPTURES_SPAN))),
                      &n, NULL);
        if (r < 0)
                return r;
        if (n >= STORE_CAPTURES_OF_HOST)
                return -EDQUOT;
        r = store_run(s, ST_CAPTURE_ADD,
                      BIND(TEXT(c->episode), TEXT(c->slice), KNOWN(c->worker_id), TEXT(c->host),
                           TEXT(c->run), KNOWN(c->generation), INT(c->round), INT(c->rounds),
                           INT((int64_t) c->hosts), INT((int64_t) c->slice_hosts), TEXT(c->suspicion),
                           TIME(c->taken), TIME(now), BLOB(c->data, c->len)));
        return r < 0 ? r : 1;
}

/* A name that there is none of yet: what another run, generation or slice has is never shared, though its
 * name was guessed. */
static int name_new(struct store *s, const struct store_capture *c, usec_t now, char ret[static 64]) {
        int64_t known = 0, n = 0;
        usec_t at = c->taken > 0 ? c->taken : now;
        int r = store_ask(s, ST_CAPTURE_OWN_COUNT,
                          BIND(TEXT(c->host), TIME(now - MIN(now, STORE_OWN_SPAN))), &n, NULL);

        if (r < 0)
                return r;
        if (n >= STORE_OWN_OF_HOST)
                return -EDQUOT;
        do {
                (void) snprintf(ret, 64, "own.%.16s-%" PRIi64 "-%" PRIu64, c->run,
                                MAX(c->generation, INT64_C(0)), at++);
                r = store_ask(s, ST_EPISODE_KNOWN, BIND(TEXT(ret)), &known, NULL);
        } while (r > 0);
        return r;
}

int store_name_episode(struct store *s, const struct store_capture *c, usec_t now, char ret[static 64]) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, ST_CAPTURE_OWN,
                            BIND(TEXT(c->run), KNOWN(c->generation), TEXT(c->slice),
                                 TIME(c->taken - MIN(c->taken, TOGETHER)), TIME(c->taken + TOGETHER)),
                            &q);

        if (r >= 0)
                r = store_row(q);
        if (r < 0)
                return r;
        if (r == 0)
                return name_new(s, c, now, ret);
        (void) snprintf(ret, 64, "%s", column_text(q, 0));
        return 0;
}

static struct store_capture read_capture(sqlite3_stmt *q) {
        return (struct store_capture){ .id = sqlite3_column_int64(q, 0),
                                       .episode = column_text(q, 1),
                                       .slice = column_text(q, 2),
                                       .worker_id = column_int(q, 3),
                                       .host = column_text(q, 4),
                                       .run = column_text(q, 5),
                                       .generation = column_int(q, 6),
                                       .round = (unsigned) sqlite3_column_int64(q, 7),
                                       .rounds = (unsigned) sqlite3_column_int64(q, 8),
                                       .hosts = (uint64_t) sqlite3_column_int64(q, 9),
                                       .slice_hosts = (uint64_t) sqlite3_column_int64(q, 10),
                                       .suspicion = column_text(q, 11),
                                       .taken = (usec_t) sqlite3_column_int64(q, 12) };
}

int store_news_captures(struct store *s, int64_t since, int64_t *ret_last,
                        int (*visit)(const struct store_capture *c, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, ST_CAPTURES_NEWS, BIND(INT(since), INT(NEWS_AT_ONCE)), &q);

        *ret_last = since;
        while (store_next(q, &r)) {
                struct store_capture c = read_capture(q);

                *ret_last = sqlite3_column_int64(q, 0);
                r = visit(&c, userdata);
        }
        return r;
}

int store_last_capture(struct store *s, int64_t *ret) {
        int r;

        *ret = 0;
        r = store_ask(s, ST_CAPTURE_LAST, NULL, 0, ret, NULL);
        return r < 0 ? r : 0;
}

int store_list_captures(struct store *s, const char *episode, int64_t since,
                        int (*visit)(const struct store_capture *c, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, ST_CAPTURES_OF, BIND(TEXT(episode), INT(since)), &q);

        while (store_next(q, &r)) {
                struct store_capture c = read_capture(q);

                c.data = sqlite3_column_blob(q, 13);
                c.len = (size_t) sqlite3_column_bytes(q, 13);
                r = visit(&c, userdata);
        }
        return r;
}

/* --- Episodes -------------------------------------------------------------------------------------- */

int store_begin_episode(struct store *s, const struct store_episode *e, const char *const *slices,
                        size_t n) {
        int r = store_run(s, ST_EPISODE_ADD,
                          BIND(TEXT(e->episode), TEXT(e->run), KNOWN(e->generation), TIME(e->at),
                               INT(e->suspected), TEXT(e->by), TEXT(e->why), INT((int64_t) e->hosts),
                               TEXT(e->expected)));

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = store_run(s, ST_EPISODE_SLICE, BIND(TEXT(slices[i]), TEXT(e->episode), TIME(e->at)));
        return r;
}

int store_set_verdict(struct store *s, const struct store_episode *e) {
        return store_run(s, ST_EPISODE_VERDICT,
                         BIND(TEXT(e->episode), TEXT(e->outcome), TEXT(e->summary), TEXT(e->report),
                              TIME(e->diagnosed), TIME(e->confirmed)));
}

int store_set_recovered(struct store *s, const char *episode, usec_t recovered) {
        return store_run(s, ST_EPISODE_RECOVERED, BIND(TEXT(episode), TIME(recovered)));
}

int store_list_episodes(struct store *s, const struct store_episode_filter *f,
                        int (*visit)(const struct store_episode *e, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(
                s, ST_EPISODES,
                BIND(TEXT(f->slice), TEXT(f->episode), INT(f->open), INT(f->limit), INT(f->brief)), &q);

        while (store_next(q, &r)) {
                struct store_episode e = { .episode = column_text(q, 0),
                                           .run = column_text(q, 1),
                                           .generation = column_int(q, 2),
                                           .at = (usec_t) sqlite3_column_int64(q, 3),
                                           .suspected = sqlite3_column_int64(q, 4) != 0,
                                           .by = column_text(q, 5),
                                           .why = column_text(q, 6),
                                           .hosts = (uint64_t) sqlite3_column_int64(q, 7),
                                           .outcome = column_text(q, 8),
                                           .summary = column_text(q, 9),
                                           .diagnosed = (usec_t) sqlite3_column_int64(q, 10),
                                           .confirmed = (usec_t) sqlite3_column_int64(q, 11),
                                           .recovered = (usec_t) sqlite3_column_int64(q, 12),
                                           .answered = (uint64_t) sqlite3_column_int64(q, 13),
                                           .expected = column_text(q, 14),
                                           .report = column_text(q, 15),
                                           .slices = column_text(q, 16),
                                           .named = column_text(q, 17) };

                r = visit(&e, userdata);
        }
        return r;
}

/* --- Keeping it small ------------------------------------------------------------------------------ */

#define DROPS_AT_ONCE 32 /* episodes that lose their captures */

/* The oldest lose their captures; then verdicts beyond the limit go. */
int store_drop_episodes(struct store *s, uint64_t keep) {
        int64_t bytes = 0;
        int r = 0;

        for (unsigned i = 0; i < DROPS_AT_ONCE; i++) {
                r = store_ask(s, ST_CAPTURE_BYTES, NULL, 0, &bytes, NULL);
                if (r < 0 || (uint64_t) MAX(bytes, INT64_C(0)) <= MIN(keep, STORE_CAPTURE_BYTES))
                        break;
                r = store_run(s, ST_CAPTURES_OLDEST, NULL, 0);
                if (r < 0)
                        break;
        }
        if (r >= 0)
                r = store_run(s, ST_EPISODES_OLDEST, BIND(INT(STORE_EPISODES_MAX)));
        if (r >= 0)
                r = store_run(s, ST_SLICES_OLDEST, NULL, 0);
        return r < 0 ? r : 0;
}
