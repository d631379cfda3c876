/* SPDX-License-Identifier: Apache-2.0 */
#include "pairs_part.h"

#include "calls.h"
#include "check_words.h"
#include "json_text.h"
#include "loop_timer.h"
#include "member.h"
#include "pairs_state.h"
#include "run_record.h"
#include "texts.h"

/* --- Sending ------------------------------------------------------------------------------------------- */

static bool goes_on(void *body) {
        const struct serving *s = body;

        return s->part && s->part->at_work && host_now(s->part->bus->host) < s->until;
}

static void end_serving(void *body) {
        _cleanup_free_ struct serving *s = body;
        struct pairs_state *p = s->part;

        if (!p)
                return;
        p->core = MAX(p->core, core_share_end(&s->core));
        p->serving = NULL;
        pairs_step_soon(p);
}

/* Whether this is the partner of the round that this host is in. */
static bool is_partner(const struct pairs_state *p, const struct http_request *r) {
        const json_t *list, *a;
        size_t i;

        if (!r->caller->remote || !r->caller->name[0] || p->partner < 0)
                return false;
        list = json_object_get(pairs_host(p, (unsigned) p->partner), "address");
        json_array_foreach(list, i, a)
                if (streq(json_string_value(a), r->caller->address))
                        return true;
        return false;
}

/* Of two that ask each other at once the one with the smaller number is served first. */
static bool is_busy(const struct pairs_state *p) {
        if (p->serving || !p->pull)
                return p->serving;
        return pair_pull_state(p->pull)->state == PULL_COMES ||
               (pair_pull_state(p->pull)->state == PULL_ASKS && (int) p->worker < p->partner);
}

static int get_pairs(void *self, const struct http_request *r, struct http_reply *ret) {
        uint64_t number = (uint64_t) route_number(r, "number", 0);
        int64_t nic = route_number(r, "nic", 0);
        struct pairs_state *p = self;
        struct serving *s;
        char disturbed[128];

        pairs_begin(p); /* the other host may have heard of it first */
        if (!p->at_work || p->number != number || route_number(r, "round", 0) != (int64_t) p->round)
                return answer_error(ret, 409, "tpuctl fleet pairs SLICE has the slice measured",
                                    "this host is not in that round");
        if (!is_partner(p, r))
                return call_refuse(p->bus, r, ret, NULL, 403,
                                   "only the partner of this round is sent anything",
                                   "tpuctl fleet pairs SLICE has the slice measured");
        if (is_busy(p) || pairs_are_disturbed(p, disturbed, sizeof(disturbed)))
                return answer_error(ret, 409, "try again", "this host is busy");
        if (nic < (int64_t) p->served || nic >= (int64_t) p->nics)
                return answer_error(ret, 429, NULL, "that NIC was sent from already, or does not exist");
        s = calloc(1, sizeof(*s));
        if (!s)
                return answer_error(ret, 503, "try again", "out of memory");
        *s = (struct serving){ p, host_now(p->bus->host) + 2 * PAIR_TIME, core_share_begin() };
        p->serving = s;
        p->served = (unsigned) nic + 1;
        *ret = (struct http_reply){ .status = 200,
                                    .content_type = "application/octet-stream",
                                    .body = s,
                                    .release = end_serving,
                                    .zeros = PAIR_BYTES,
                                    .goes_on = goes_on };
        return 0;
}

/* --- What the planner made of it ----------------------------------------------------------------------- */

static void add_rate(char *buf, size_t size, const json_t *slow, const char *key) {
        uint64_t rate = json_number_of(slow, key);

        if (rate > 0)
                text_append(buf, size, " and ", "%s %.2f Gbit/s", key, (double) rate * 8 / 1e9);
}

static void judge(struct pairs_state *p) {
        const struct member *who = member_of(p->bus);
        const json_t *slow = slice_entry(p->record, "slow", who->worker);
        unsigned nic = (unsigned) MIN(json_number_of(slow, "nic"), (uint64_t) PAIR_NICS_MAX);
        char rates[64] = "", median[32];
        struct finding f;

        p->judged++;
        if (slow && streq(json_text_of(slow, "host"), who->host)) {
                add_rate(rates, sizeof(rates), slow, "sends");
                add_rate(rates, sizeof(rates), slow, "receives");
                (void) snprintf(median, sizeof(median), "%.2f Gbit/s",
                                (double) json_number_of(slow, "median") * 8 / 1e9);
                check_tell(&f, WORDS_PAIRS_SLOW, "", rates, pairs_address(pairs_host(p, who->worker), nic),
                           who->slice, median);
                finding_set(f.found, "%s", rates);
                bus_take_finding(p->bus, p->source, p->judged, &f);
        } else if (json_number_of(p->record, "measured") > 0) {
                check_tell(&f, WORDS_PAIRS_ALIKE, "");
                finding_set(f.found, "as the others");
                bus_take_finding(p->bus, p->source, p->judged, &f);
        }
        bus_settle(p->bus, p->source, p->judged);
}

/* --- The part ------------------------------------------------------------------------------------------ */

static const struct part_route routes[] = {
        { ROUTE_WITH("GET", "/v1/pairs",
                     ARGUMENTS(TAKES_NUMBER("number", 0, INT64_MAX),
                               TAKES_NUMBER("round", 0, PAIR_ROUNDS_MAX),
                               TAKES_NUMBER("nic", 0, PAIR_NICS_MAX - 1))),
          .call = get_pairs },
        PART_ROUTES_END,
};

static int start_pairs(void *self) {
        struct pairs_state *p = self;

        p->source = bus_sources(p->bus, 1);
        return loop_timer_new(p->bus->event, CLOCK_BOOTTIME, 5 * USEC_PER_MSEC, "pairs", pairs_on_timer, p,
                              &p->timer);
}

static void hear_pairs(void *self, const struct bus_news *n) {
        struct pairs_state *p = self;
        bool other = n->topic == BUS_REGISTRY && n->registry.other;

        if (!p->timer || (!other && (n->topic != BUS_RECORD || !startswith(n->record.key, "pairs/"))))
                return;
        json_decref(p->record);
        p->record = other ? NULL : json_incref((json_t *) (uintptr_t) n->record.value);
        judge(p);
        pairs_step_soon(p); /* the slice's record comes with this one, perhaps behind it */
}

static void stop_pairs(void *self) {
        struct pairs_state *p = self;

        pairs_drop(p);
        p->timer = sd_event_source_disable_unref(p->timer);
        json_decref(TAKE_PTR(p->record));
}

const struct part pairs_part = {
        .name = "pairs",
        .size = sizeof(struct pairs_state),
        .routes = routes,
        .start = start_pairs,
        .hear = hear_pairs,
        .stop = stop_pairs,
};
