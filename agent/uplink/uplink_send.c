/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "endpoint.h"
#include "backoff.h"
#include "events.h"
#include "loop_timer.h"
#include "otlp_answer.h"
#include "otlp_look.h"
#include "uplink_state.h"

#define ANSWER_MAX (4 * 1024 * 1024) /* OTLP specification 1.11: what a client should at most accept */
#define ANSWER_KEPT (16 * 1024) /* of that; protobuf-c takes many times as much for what it reads */

/* --- Waiting and routes ------------------------------------------------------------------------------- */

static usec_t boot_now(const struct channel *ch) {
        usec_t now = 0;

        (void) sd_event_now(ch->uplink->event, CLOCK_BOOTTIME, &now);
        return now;
}

static int on_send_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct channel *ch = userdata;

        (void) source;
        (void) usec;
        ch->wake = 0;
        channel_send(ch);
        return 0;
}

static void wake_at(struct channel *ch, usec_t at, usec_t now) {
        if (ch->wake == at)
                return;
        if (loop_timer_in(ch->send_timer, at - MIN(at, now)) >= 0)
                ch->wake = at;
}

static void note_error(struct channel *ch, const char *text) {
        struct uplink *u = ch->uplink;

        if (*text)
                (void) snprintf(u->last_error, sizeof(u->last_error), "%.48s%s: %s",
                                u->endpoints[ch->route].base, endpoint_path(ch->class), text);
        else
                u->last_error[0] = '\0';
}

/* No decision about the record: it stays, and is sent again, there or elsewhere. */
static void try_again(struct channel *ch, usec_t at_least, const char *why) {
        struct uplink_route *r = &ch->routes[ch->route];

        ch->stats.retried++;
        note_error(ch, why);
        route_failed(r, boot_now(ch), at_least + backoff_next(r->failures, backoff_random()), why);
}

static void park(struct channel *ch, const char *why) {
        ch->stats.retried++;
        note_error(ch, why);
        route_park(&ch->routes[ch->route], boot_now(ch), BACKOFF_PARKED + backoff_next(0, backoff_random()),
                   why);
}

void channel_try_now(struct channel *ch) {
        for (size_t i = 0; i < ch->uplink->n_endpoints; i++)
                if (ch->routes[i].parked || ch->routes[i].failures > 0)
                        ch->routes[i].retry_boot = ch->routes[i].avoid_boot = 0;
        channel_send(ch);
}

/* --- The record ---------------------------------------------------------------------------------------- */

/* Another part of the record is what is sent now. False: there is none. */
static bool set_piece(struct channel *ch, unsigned part, unsigned parts) {
        uint8_t *piece;
        size_t len;

        if (ch->class != UPLINK_METRICS || part >= parts ||
            otlp_split_metrics(ch->record, ch->len, part, parts, &piece, &len) < 0)
                return false;
        free(ch->piece);
        ch->piece = piece;
        ch->piece_len = len;
        ch->part = part;
        ch->parts = parts;
        channel_pack(ch);
        return true;
}

/* --- Sending ------------------------------------------------------------------------------------------- */

static int post(struct channel *ch, const struct endpoint *p) {
        const char *name = ch->uplink->options.aside ? UPLINK_ASIDE_HEADER : UPLINK_RECORD_HEADER;
        char header[128];
        const struct exchange_request q = {
                .path = endpoint_path(ch->class),
                .content_type = "application/x-protobuf",
                .body = ch->packed_len > 0 ? ch->packed : channel_body(ch),
                .len = ch->packed_len > 0 ? ch->packed_len : channel_body_len(ch),
                .lent = true,
                .timeout = ch->uplink->options.timeout > 0 ? ch->uplink->options.timeout : UPLINK_TIMEOUT,
                .header = header,
                .careful = p->https && ch->routes[ch->route].why[0],
        };

        /* parts share the record's number: one who drops repeats by it would drop the second */
        if (ch->parts > 0)
                (void) snprintf(header, sizeof(header), "%s:%s", name,
                                ch->uplink->options.aside ? " part" : "");
        else
                (void) snprintf(header, sizeof(header), "%s: %016" PRIx64 "/%s/%" PRIu64, name,
                                spool_id(ch->spool), uplink_class_name(ch->class), ch->seq);
        return exchange_start(p->exchanges[ch->class], &q);
}

/* On the route ch->route. True: a request is at work; else the route has failed. */
static bool send_on_route(struct channel *ch) {
        struct endpoint *p = &ch->uplink->endpoints[ch->route];
        int r;

        if (p->https && ch->uplink->tls.error[0]) {
                park(ch, ch->uplink->tls.error);
                return false;
        }
        r = post(ch, p);
        if (r < 0)
                try_again(ch, 0, strerror(-r));
        else
                ch->sending = ch->tried = true;
        return r >= 0;
}

void channel_send(struct channel *ch) {
        size_t n = ch->uplink->n_endpoints;
        usec_t now = boot_now(ch), at;
        int r;

        if (n == 0 || !ch->spool || ch->sending || ch->uplink->options.held)
                return;
        r = channel_load(ch);
        if (r == 0)
                return;
        if (r == -EAGAIN) {
                wake_at(ch, now, now);
                return;
        }
        if (r < 0) {
                ch->route = 0;
                try_again(ch, 0, strerror(-r));
        }
        for (size_t tries = 0; tries <= n; tries++) { /* each may turn out unusable at once */
                r = route_pick(ch->routes, n, now, &at);
                if (r < 0) {
                        wake_at(ch, at, now);
                        return;
                }
                ch->route = (size_t) r;
                if (channel_freshen(ch) < 0)
                        continue;
                if (ch->seq > 0 && send_on_route(ch))
                        return;
        }
        wake_at(ch, now + USEC_PER_SEC, now);
}

/* --- Answers ------------------------------------------------------------------------------------------- */

/* Points or lines of what is sent now; an event is one item. */
static uint64_t items(const struct channel *ch) {
        if (ch->class == UPLINK_METRICS)
                return otlp_count_points(channel_body(ch), channel_body_len(ch));
        return ch->class == UPLINK_LOGS ? otlp_count_logs(channel_body(ch), channel_body_len(ch)) : 1;
}

/* The record as a whole is lost when nothing of it was taken, and for the first of the reasons. */
static void account(struct channel *ch) {
        if (ch->class == UPLINK_EVENTS &&
            otlp_first_event_is(ch->record, ch->len, event_def(EVENT_SPOOL_GAP)->name))
                memset(ch->lost, 0, sizeof(ch->lost)); /* no gaps about gaps */
        for (size_t i = 0; i < _SPOOL_LOSS_MAX && !ch->taken; i++)
                if (ch->lost[i].items > 0 || i + 1 == _SPOOL_LOSS_MAX) {
                        ch->lost[i].records = ch->lost[i].items > 0;
                        break;
                }
}

/* The receiver has decided about the record, or about this part of it, which then is done with. */
static void decided(struct channel *ch) {
        struct uplink *u = ch->uplink;

        route_worked(&ch->routes[ch->route]);
        if (set_piece(ch, ch->part + 1, ch->parts))
                return;
        ch->stats.sent += ch->taken;
        account(ch);
        channel_drop_piece(ch);
        spool_hold(ch->spool, 0);
        if (ch->ahead)
                /* no place: its turn comes once more */
                (void) spool_settle_ahead(ch->spool, ch->seq, ch->lost);
        else
                spool_settle(ch->spool, ch->seq, ch->lost);
        ch->seq = 0;
        (void) ledger_save(spool_ledger(ch->spool)); /* if that fails, it is sent again after a restart */
        (void) sd_event_now(u->event, CLOCK_BOOTTIME, &u->last_ok_boot);
}

static void count_refusal(struct channel *ch, long status) {
        enum spool_loss why = status == 413   ? SPOOL_TOO_LARGE
                              : status == 422 ? SPOOL_UNPROCESSABLE
                                              : SPOOL_MALFORMED;

        ch->stats.refused++;
        ch->stats.lost[why]++;
        ch->lost[why].items += items(ch);
}

static void count_sent(struct channel *ch, uint64_t rejected) {
        ch->taken = true;
        ch->routes[ch->route].sent++;
        ch->stats.lost[SPOOL_IN_PART] += rejected;
        if (rejected > 0)
                ch->lost[SPOOL_IN_PART].items += MIN(rejected, items(ch));
        ch->stats.body_bytes += channel_body_len(ch);
        ch->stats.wire_bytes += ch->packed_len > 0 ? ch->packed_len : channel_body_len(ch);
}

static void no_answer(struct channel *ch, const struct exchange_answer *a) {
        const struct uplink_route *r = &ch->routes[ch->route];
        char why[sizeof(r->why)];

        if (a->refused)
                park(ch, a->why);
        else if (a->cut_off && r->parked) { /* nothing new: what it said before still tells more */
                memcpy(why, r->why, sizeof(why));
                park(ch, why);
        } else
                try_again(ch, 0, a->why);
}

static void on_answered(const struct exchange_answer *a, void *userdata) {
        struct channel *ch = userdata;
        struct endpoint *p = &ch->uplink->endpoints[ch->route];
        char text[ANSWER_TEXT_MAX];
        uint64_t rejected;

        assert(ch->sending && ch->seq > 0);
        ch->sending = false;
        (void) snprintf(p->dns_error, sizeof(p->dns_error), "%s", a->unnamed ? a->why : "");
        /* a gateway that answers so may have passed it on */
        ch->unsure =
                ch->unsure || (a->failed ? !a->unsent && !a->refused : a->status >= 500 && a->status != 503);
        if (a->failed) {
                no_answer(ch, a);
                channel_send(ch);
                return;
        }
        switch (answer_judge(a->status, a->content_type, a->body, a->len, &rejected, text)) {
        case ANSWER_DONE:
        case ANSWER_PARTIAL:
                count_sent(ch, rejected);
                note_error(ch, text);
                decided(ch);
                break;
        case ANSWER_REFUSED:
                note_error(ch, text);
                if (a->status == 413 && set_piece(ch, ch->part * 2, MAX(ch->parts, 1u) * 2))
                        break; /* in halves, at once */
                count_refusal(ch, a->status);
                decided(ch);
                break;
        case ANSWER_RETRY:
                try_again(ch, a->retry_after, text);
                break;
        case ANSWER_PARKED:
                park(ch, text);
                break;
        }
        channel_send(ch);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int channel_init_send(struct channel *ch) {
        return loop_timer_new(ch->uplink->event, CLOCK_MONOTONIC, 50 * USEC_PER_MSEC, "uplink-retry",
                              on_send_timer, ch, &ch->send_timer);
}

void channel_clear_send(struct channel *ch) {
        ch->send_timer = sd_event_source_disable_unref(ch->send_timer);
        channel_drop_buffers(ch);
}

/* --- Endpoints --------------------------------------------------------------------------------------- */

/* Others have no business with it. */
static bool gets_bearer(const struct uplink_options *o, const char *url) {
        const char *list = o->bearer_endpoints;
        size_t len = strlen(url);

        if (!list || !*list)
                return true;
        for (; *list; list += strcspn(list, CONFIG_BETWEEN), list += strspn(list, CONFIG_BETWEEN))
                if (strcspn(list, CONFIG_BETWEEN) == len && strncmp(list, url, len) == 0)
                        return true;
        return false;
}

static int add_endpoints(struct uplink *u, const char *list) {
        struct exchange_options o = { .proxy = u->proxy,
                                            .ca = u->tls.path[TLS_CA],
                                            .certificate = u->tls.path[TLS_CERT],
                                            .key = u->tls.path[TLS_KEY],
                                            .crl = u->tls.path[TLS_CRL],
                                            .answer_max = ANSWER_MAX,
                                            .keep = ANSWER_KEPT,
                                            .user_agent = u->user_agent,
                                            .name = "uplink",
                                            .done = on_answered };
        _cleanup_free_ char *text = strdup(list);
        void *userdata[_UPLINK_CLASS_MAX];
        char *word, *rest = text;
        int r;

        if (!text)
                return -ENOMEM;
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                userdata[c] = &u->channels[c];
        while ((word = strsep(&rest, CONFIG_BETWEEN))) {
                if (!*word)
                        continue;
                if (u->n_endpoints == CONFIG_URLS_MAX)
                        return -EINVAL;
                o.bearer = gets_bearer(&u->options, word) ? u->options.bearer : NULL;
                r = endpoint_init(&u->endpoints[u->n_endpoints++], u->event, word, o, userdata);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int set_path(struct tls_files *f, enum tls_file which, const char *path) {
        if (path && strlen(path) >= sizeof(f->path[which]))
                return -EINVAL;
        (void) snprintf(f->path[which], sizeof(f->path[which]), "%s", path ? path : "");
        return 0;
}

int uplink_endpoints_init(struct uplink *u, const struct uplink_options *o) {
        if (set_path(&u->tls, TLS_CA, o->ca_file) < 0 || set_path(&u->tls, TLS_CERT, o->cert_file) < 0 ||
            set_path(&u->tls, TLS_KEY, o->key_file) < 0 || set_path(&u->tls, TLS_CRL, o->crl) < 0)
                return -EINVAL;
        (void) tls_files_look(&u->tls);
        return o->endpoint ? add_endpoints(u, o->endpoint) : 0;
}

void uplink_endpoints_clear(struct uplink *u) {
        for (size_t i = 0; i < u->n_endpoints; i++)
                endpoint_clear(&u->endpoints[i]);
}

void uplink_endpoints_stats(const struct uplink *u, struct uplink_stats *ret) {
        ret->tls = u->tls;
        ret->n_endpoints = u->n_endpoints;
        for (size_t i = 0; i < u->n_endpoints; i++) {
                struct uplink_endpoint_stats *s = &ret->endpoints[i];

                s->url = u->endpoints[i].base;
                memcpy(s->dns_error, u->endpoints[i].dns_error, sizeof(s->dns_error));
                for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                        s->routes[c] = u->channels[c].routes[i];
        }
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                bool parked = u->n_endpoints > 0;

                for (size_t i = 0; i < u->n_endpoints; i++)
                        parked = parked && u->channels[c].routes[i].parked;
                ret->classes[c].parked = parked;
                ret->parked = ret->parked || parked;
        }
}
