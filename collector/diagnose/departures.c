/* SPDX-License-Identifier: Apache-2.0 */
#include "departures.h"

#include "config.h"
#include "last_words.h"
#include "ranks.h"

#define TASK "task "

/* Of the capture's "peer-lost (exited 1)", its first word. */
static enum word_weight weight_of_how(const char *how) {
        char cause[32];
        size_t len = strcspn(how, " ");

        if (len >= sizeof(cause))
                return WORD_OWN;
        memcpy(cause, how, len);
        cause[len] = '\0';
        return last_words_weight(cause);
}

/* Tasks are numbered over the slices in the run's order, which a capture does not say: of one slice alone
 * the worker is the task. */
static bool is_task(const struct evidence *e, uint32_t task) {
        return task < e->n_hosts && e->hosts[task].worker == task &&
               streq(e->hosts[0].slice, e->hosts[e->n_hosts - 1].slice);
}

/* The place + 1 of the host whose connection was lost, by its address or by its number in the run; 0: its
 * lines name none of these hosts. */
static size_t lost_by(const struct evidence *e, const struct host_capture *c) {
        const char *peer = stack_table_text(&e->scene->table, c->ended_peer);
        uint32_t host = PEER_NONE, task;
        char why[96];

        if (startswith(peer, TASK)) {
                if (config_parse_u32(peer + strlen(TASK), &task, why) == 0 && is_task(e, task))
                        host = task;
        } else if (peer[0])
                host = peers_host_of(&e->peers, (struct address_text){ peer, strlen(peer) });
        return host == PEER_NONE ? 0 : (size_t) host + 1;
}

/* Hosts that have not ended are effects that name nobody: connections may lead to them. */
static struct last_word *words_of(const struct evidence *e) {
        struct last_word *words = calloc(e->n_hosts + 1, sizeof(*words));

        for (size_t i = 0; words && i < e->n_hosts; i++) {
                const struct host_capture *c = e->hosts[i].last;

                words[i] = (struct last_word){ .weight = WORD_EFFECT };
                if (c && c->ended)
                        words[i] = (struct last_word){
                                .weight = weight_of_how(stack_table_text(&e->scene->table, c->ended_how)),
                                .time = c->ended,
                                .lost = lost_by(e, c),
                        };
        }
        return words;
}

/* Who alone ended otherwise than all others did: they ended of one cause, that one. STACK_NONE: nobody. */
static uint32_t odd_end(const struct evidence *e) {
        uint32_t last[2] = { STACK_NONE, STACK_NONE }, how[2] = { 0, 0 };
        size_t n[2] = { 0, 0 };

        for (uint32_t i = 0; i < e->n_hosts; i++) {
                const struct host_capture *c = e->hosts[i].last;
                size_t k;

                if (!c || !c->ended)
                        continue;
                k = n[0] > 0 && c->ended_how != how[0];
                if (k == 1 && n[1] > 0 && c->ended_how != how[1])
                        return STACK_NONE;
                how[k] = c->ended_how;
                last[k] = i;
                n[k]++;
        }
        return n[0] == 1 && n[1] > 1 ? last[0] : n[1] == 1 && n[0] > 1 ? last[1] : STACK_NONE;
}

static bool all_effects(const struct evidence *e, const struct last_word *words) {
        for (size_t i = 0; i < e->n_hosts; i++)
                if (words[i].weight != WORD_EFFECT)
                        return false;
        return true;
}

/* The first two of those that are no effect of another's end; of all, where all are. */
static void find_first(const struct evidence *e, const struct last_word *words, struct departures *all) {
        bool effects = all_effects(e, words);
        usec_t error;

        for (size_t i = 0; i < e->n_hosts; i++) {
                if (words[i].time == 0 || (words[i].weight == WORD_EFFECT && !effects))
                        continue;
                error = e->hosts[i].last->clock_error;
                if (words[i].time < all->first) {
                        all->next = all->first;
                        all->next_error = all->error;
                        all->first = words[i].time;
                        all->error = error;
                } else if (words[i].time < all->next) {
                        all->next = words[i].time;
                        all->next_error = error;
                } else if (words[i].time == all->next)
                        all->next_error = MAX(all->next_error, error);
        }
}

int departures_survey(const struct evidence *e, struct departures *ret) {
        _cleanup_free_ struct last_word *words = words_of(e);
        ssize_t named;

        if (!words)
                return -ENOMEM;
        *ret = (struct departures){ .named = STACK_NONE, .first = USEC_INFINITY, .next = USEC_INFINITY };
        for (size_t i = 0; i < e->n_hosts; i++) {
                ret->n += host_has_left(&e->hosts[i], e);
                ret->n_said += words[i].time > 0;
        }
        if (ret->n_said < 2)
                return 0;
        find_first(e, words, ret);
        named = last_words_clockless(words, e->n_hosts);
        ret->by_lost = named >= 0 && named == last_words_lost(words, e->n_hosts);
        ret->named = named >= 0 ? (uint32_t) named : odd_end(e);
        if (named < 0 && ret->named != STACK_NONE && words[ret->named].weight == WORD_EFFECT &&
            !all_effects(e, words))
                ret->named = STACK_NONE; /* its own word says that another is why */
        return 0;
}

enum weight departures_weight(const struct evidence *e, const struct departures *all, uint32_t host) {
        const struct host_capture *c = e->hosts[host].last;
        usec_t margin = 2 * (all->error + c->clock_error);
        bool close = all->next != USEC_INFINITY &&
                     all->next - all->first <= 2 * (all->error + all->next_error);

        if (!c->ended)
                return all->n == 1 ? WEIGHT_LEFT_ALONE : WEIGHT_LEFT_SOME;
        if (all->n_said == 1)
                return WEIGHT_LEFT_ALONE;
        if (all->by_lost && host != all->named) /* it noticed first, and says that another is why */
                return c->ended <= all->first + margin ? WEIGHT_LEFT_SOME : WEIGHT_LEFT_LATER;
        if (c->ended == all->first && !close)
                return WEIGHT_LEFT_FIRST;
        if (all->named == host && (close || all->by_lost))
                return WEIGHT_LEFT_ODD;
        if (c->ended != all->first || all->named != STACK_NONE)
                return c->ended <= all->first + margin ? WEIGHT_LEFT_SOME : WEIGHT_LEFT_LATER;
        return WEIGHT_LEFT_CLOSE;
}
