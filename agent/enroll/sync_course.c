/* SPDX-License-Identifier: Apache-2.0 */
#include "sync_course.h"

#include <assert.h>

#include "backoff.h"
#include "texts.h"
#include "utf8.h"

#define HOLD_LEAST (1 * USEC_PER_SEC)
#define ANSWER_TIME (10 * USEC_PER_SEC) /* of the only collector, beyond what it may hold a sync */
#define ANSWER_LEAST (2 * USEC_PER_SEC) /* and where there are others, at least */
#define ANSWERS_A_SECOND 20
#define PATIENCE_LEAST (1 * USEC_PER_SEC)

/* --- Endpoints ----------------------------------------------------------------------------------------- */

static size_t without_slash(const char *url, size_t len) {
        while (len > 0 && url[len - 1] == '/')
                len--;
        return len;
}

int sync_course_init(struct sync_course *c, const char *list, usec_t lease,
                     char why[static COURSE_WHY_MAX]) {
        *c = (struct sync_course){ .lease = lease };
        for (const char *at = list + strspn(list, ", \t"); *at; at += strspn(at, ", \t")) {
                size_t whole = strcspn(at, ", \t"), len = without_slash(at, whole);

                if (c->n == CONFIG_URLS_MAX || len == 0 || len >= COURSE_URL_MAX) {
                        (void) snprintf(
                                why, COURSE_WHY_MAX,
                                "'%.160s' is not one to %d URLs of tpu-collectords, each shorter than %d",
                                list, CONFIG_URLS_MAX, COURSE_URL_MAX);
                        return -EINVAL;
                }
                (void) snprintf(c->urls[c->n++], COURSE_URL_MAX, "%.*s", (int) len, at);
                at += whole;
        }
        c->answered = c->n;
        if (c->n > 0)
                return 0;
        return text_fail(why, COURSE_WHY_MAX, -EINVAL, "no URL of a tpu-collectord is given");
}

const char *sync_course_url(const struct sync_course *c) {
        assert(c->at < c->n);
        return c->urls[c->at];
}

void sync_course_prefer(struct sync_course *c, const char *url) {
        for (size_t i = 0; url && i < c->n; i++)
                if (streq(c->urls[i], url))
                        c->at = i;
}

/* --- Rounds -------------------------------------------------------------------------------------------- */

static void begin_round(struct sync_course *c) {
        c->asked = 0;
        c->mildest = SYNC_REFUSED;
        c->why[0] = '\0';
}

static bool was_asked(const struct sync_course *c, size_t i) {
        return c->asked & 1U << i;
}

bool sync_course_is_over(const struct sync_course *c) {
        return c->asked == (1U << c->n) - 1;
}

bool sync_course_fails(const struct sync_course *c) {
        return c->rounds > 0 || c->why[0];
}

void sync_course_send(struct sync_course *c, usec_t now) {
        if (c->asked == 0 || was_asked(c, c->at))
                begin_round(c);
        c->asked |= 1U << c->at;
        c->named = false;
        c->sent = now;
}

usec_t sync_course_hold(const struct sync_course *c) {
        return MAX(HOLD_LEAST, c->lease / 2);
}

usec_t sync_course_longest(const struct sync_course *c) {
        return sync_course_hold(c) + (c->n == 1 ? ANSWER_TIME : MAX(ANSWER_LEAST, c->lease / 4));
}

bool sync_course_too_often(struct sync_course *c, usec_t now) {
        if (now >= c->second + USEC_PER_SEC) {
                c->second = now;
                c->answers = 0;
        }
        return ++c->answers > ANSWERS_A_SECOND;
}

usec_t sync_course_patience(const struct sync_course *c, usec_t full) {
        bool short_one = c->n > 1 && c->silent & 1U << c->at && !c->named;

        return short_one ? MIN(full, MAX(PATIENCE_LEAST, c->lease / 4)) : full;
}

static void note_reason(struct sync_course *c, const char *why) {
        text_append(c->why, sizeof(c->why), "; ", "%s: %.*s", sync_course_url(c), c->n > 1 ? 100 : 200,
                    why[0] ? why : "no answer");
        (void) utf8_scrub(c->why, strlen(c->why)); /* it may hold what came, cut anywhere */
}

usec_t sync_course_failed(struct sync_course *c, enum sync_failure f, const char *why, usec_t least,
                          uint64_t chance) {
        usec_t most = c->lease / 4, wait;

        note_reason(c, why);
        c->silent = f == SYNC_SILENT ? c->silent | 1U << c->at : c->silent & ~(1U << c->at);
        c->mildest = MIN(c->mildest, f);
        c->at = (c->at + 1) % c->n;
        if (!sync_course_is_over(c)) {
                while (was_asked(c, c->at))
                        c->at = (c->at + 1) % c->n;
                return 0;
        }
        wait = MIN(MAX(backoff_next(c->rounds, chance), least), most);
        c->rounds++;
        return c->mildest == SYNC_REFUSED ? MAX(wait, BACKOFF_PARKED) : wait;
}

bool sync_course_follow(struct sync_course *c, const char *leader, char why[static COURSE_WHY_MAX]) {
        size_t len = without_slash(leader, strlen(leader));

        for (size_t i = 0; i < c->n; i++) {
                if (strlen(c->urls[i]) != len || strncmp(c->urls[i], leader, len) != 0)
                        continue;
                if (was_asked(c, i)) {
                        (void) snprintf(why, COURSE_WHY_MAX,
                                        "does not lead; %.160s, which it names, was asked before", leader);
                        return false;
                }
                c->at = i;
                c->named = true;
                return true;
        }
        if (leader[0])
                (void) snprintf(why, COURSE_WHY_MAX,
                                "does not lead; %.160s leads, which is none of Endpoint=", leader);
        else
                (void) snprintf(why, COURSE_WHY_MAX, "does not lead, and does not say who does");
        return false;
}

/* --- Answers ------------------------------------------------------------------------------------------- */

/* The place of a store: its own, else a free one, else that of the one which was heard longest ago. */
static size_t place_of(const struct sync_course *c, const char *store) {
        size_t oldest = 0;

        for (size_t i = 0; i < COURSE_STORES_MAX; i++) {
                if (c->stores[i].seen > 0 && streq(c->stores[i].id, store))
                        return i;
                if (c->stores[i].seen < c->stores[oldest].seen)
                        oldest = i;
        }
        return oldest;
}

int sync_course_answer(struct sync_course *c, const char *store, uint64_t term, usec_t lease) {
        size_t i = place_of(c, store);
        bool known = c->stores[i].seen > 0 && streq(c->stores[i].id, store);

        if (known && term < c->stores[i].term)
                return -ESTALE;
        (void) snprintf(c->stores[i].id, COURSE_STORE_MAX, "%s", store);
        c->stores[i].term = term;
        c->stores[i].seen = ++c->seen;
        c->lease = lease;
        c->claim_until = c->sent + lease / 10 * 9;
        c->answered = c->at;
        c->rounds = c->silent = 0;
        begin_round(c);
        return 0;
}

bool sync_course_may_claim(const struct sync_course *c, usec_t now) {
        return now < c->claim_until;
}

void sync_course_give_up_claim(struct sync_course *c) {
        c->claim_until = 0;
}

uint64_t sync_course_term(const struct sync_course *c) {
        size_t latest = 0;

        for (size_t i = 1; i < COURSE_STORES_MAX; i++)
                if (c->stores[i].seen > c->stores[latest].seen)
                        latest = i;
        return c->stores[latest].term;
}
