/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include "answer.h"
#include "backoff.h"
#include "uplink_state.h"

#define BUFFER_FIRST (16 * 1024)
#define BUFFER_KEEP (256 * 1024)

static const char *class_path(enum uplink_class c) {
        switch (c) {
        case UPLINK_EVENTS:
                return "/v1/logs";
        case UPLINK_METRICS:
                return "/v1/metrics";
        case _UPLINK_CLASS_MAX:
                break;
        }
        return "";
}

static uint64_t chance(void) {
        uint64_t v = 0;

        (void) getrandom(&v, sizeof(v),
                         GRND_NONBLOCK); /* without entropy yet: at once, which is a valid draw, too */
        return v;
}

static int on_send_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct channel *ch = userdata;

        (void) source;
        (void) usec;
        ch->waiting = false;
        channel_send(ch);
        return 0;
}

static void wait_for(struct channel *ch, usec_t span) {
        ch->waiting = sd_event_source_set_time_relative(ch->send_timer, span) >= 0 &&
                      sd_event_source_set_enabled(ch->send_timer, SD_EVENT_ONESHOT) >= 0;
}

/* No decision about the record: it stays, and is sent again. */
static void try_again(struct channel *ch, usec_t at_least) {
        ch->retried++;
        wait_for(ch, at_least + backoff_next(ch->failures, chance()));
        if (ch->failures < UINT16_MAX)
                ch->failures++;
}

static void say(struct channel *ch, const char *text) {
        struct uplink *u = ch->uplink;

        if (*text)
                (void) snprintf(u->last_error, sizeof(u->last_error), "%.*s: %s", 60, ch->url, text);
        else
                u->last_error[0] = '\0';
}

static int grow(struct channel *ch) {
        size_t size = ch->size == 0 ? BUFFER_FIRST : MIN(ch->size * 4, (size_t) SPOOL_RECORD_MAX);
        uint8_t *p = realloc(ch->record, size);

        if (!p)
                return -ENOMEM;
        ch->record = p;
        ch->size = size;
        return 0;
}

/* 1: a record is in the buffer; 0: there is none; -errno. */
static int load(struct channel *ch) {
        int r = 1;

        while (ch->seq == 0) {
                r = spool_read(ch->spool, 0, ch->record, ch->size, &ch->len, &ch->seq);
                if (r == -ENOBUFS && ch->size < SPOOL_RECORD_MAX)
                        r = grow(ch);
                else if (r <= 0)
                        break;
                if (r < 0)
                        break;
        }
        if (r == 0 && ch->size > BUFFER_KEEP) {
                free(TAKE_PTR(ch->record));
                ch->size = 0;
        }
        return ch->seq > 0 ? 1 : r;
}

void channel_send(struct channel *ch) {
        char header[128];
        int r;

        if (!ch->url || !ch->spool || ch->sending || ch->waiting)
                return;
        r = load(ch);
        if (r == 0)
                return;
        if (r > 0) {
                (void) snprintf(header, sizeof(header), UPLINK_RECORD_HEADER ": %016" PRIx64 "/%s/%" PRIu64,
                                spool_id(ch->spool), uplink_class_name(ch->class), ch->seq);
                r = sender_post(ch->uplink->sender, ch->class, ch->url, header, ch->record, ch->len);
        }
        if (r < 0) {
                say(ch, strerror(-r));
                try_again(ch, 0);
                return;
        }
        ch->sending = true;
}

static void delivered(struct channel *ch) {
        struct uplink *u = ch->uplink;

        ch->failures = 0;
        ch->parked = false;
        spool_ack(ch->spool, ch->seq);
        ch->seq = 0;
        (void) spool_save_cursor(
                ch->spool); /* if it cannot be written, the record is sent once more after a restart */
        (void) sd_event_now(u->event, CLOCK_BOOTTIME, &u->last_ok_boot);
        channel_send(ch);
}

static usec_t retry_after(const struct channel *ch, const struct sender_answer *a) {
        usec_t now, wait;

        if (a->retry_after[0] == '\0' || sd_event_now(ch->uplink->event, CLOCK_REALTIME, &now) < 0 ||
            backoff_parse_retry_after(a->retry_after, now, &wait) < 0)
                return 0;
        return wait;
}

void channel_answered(struct channel *ch, const struct sender_answer *a) {
        char text[ANSWER_TEXT_MAX];
        uint64_t rejected;

        ch->sending = false;
        if (a->failed) {
                say(ch, a->text);
                try_again(ch, 0);
                return;
        }
        switch (answer_judge(a->status, a->content_type, a->body, a->len, &rejected, text)) {
        case ANSWER_DONE:
        case ANSWER_PARTIAL:
                ch->sent++;
                ch->rejected += rejected;
                say(ch, text);
                delivered(ch);
                return;
        case ANSWER_REFUSED:
                ch->refused++;
                say(ch, text);
                delivered(ch);
                return;
        case ANSWER_RETRY:
                say(ch, text);
                try_again(ch, retry_after(ch, a));
                return;
        case ANSWER_PARKED:
                say(ch, text);
                ch->parked = true;
                ch->failures = 0;
                try_again(ch, BACKOFF_PARKED);
                return;
        }
}

int channel_init_send(struct channel *ch, const char *endpoint) {
        size_t len = strlen(endpoint);
        int r;

        while (len > 0 && endpoint[len - 1] == '/')
                len--;
        if (asprintf(&ch->url, "%.*s%s", (int) len, endpoint, class_path(ch->class)) < 0) {
                ch->url = NULL;
                return -ENOMEM;
        }
        r = sd_event_add_time_relative(ch->uplink->event, &ch->send_timer, CLOCK_MONOTONIC, 0,
                                       50 * USEC_PER_MSEC, on_send_timer, ch);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(ch->send_timer, "uplink-retry");
        return sd_event_source_set_enabled(ch->send_timer, SD_EVENT_OFF);
}
