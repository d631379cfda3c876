/* SPDX-License-Identifier: Apache-2.0 */
/* Which record of a class is sent next: the oldest; after an outage the newest first, and not all old
 * metrics. */
#include "gzip.h"
#include "otlp_look.h"
#include "uplink_state.h"

#define BUFFER_FIRST (16 * 1024)
#define THIN_AT_ONCE 256 /* records that one call may thin out: the loop goes on in between */

static int grow_buffer(struct channel *ch) {
        size_t size = ch->size == 0 ? BUFFER_FIRST : MIN(ch->size * 4, (size_t) SPOOL_RECORD_MAX);
        uint8_t *p = realloc(ch->record, size);

        if (!p)
                return -ENOMEM;
        ch->record = p;
        ch->size = size;
        free(TAKE_PTR(ch->packed));
        return 0;
}

void channel_drop_piece(struct channel *ch) {
        free(TAKE_PTR(ch->piece));
        ch->part = ch->parts = 0;
}

/* Once a body, not once a try. */
void channel_pack(struct channel *ch) {
        ch->packed_len = 0;
        if (ch->uplink->options.plain || channel_body_len(ch) < GZIP_LEAST)
                return;
        if (!ch->packed)
                ch->packed = malloc(ch->size);
        if (ch->packed)
                ch->packed_len = gzip_pack(channel_body(ch), channel_body_len(ch), ch->packed, ch->size);
}

void channel_drop_buffers(struct channel *ch) {
        channel_drop_piece(ch);
        free(TAKE_PTR(ch->record));
        free(TAKE_PTR(ch->packed));
        ch->size = 0;
}

/* The oldest record behind after into the buffer. 1: it is there; 0: none; -errno. */
static int read_record(struct channel *ch, uint64_t after) {
        for (;;) {
                int r = spool_read(ch->spool, after, ch->record, ch->size, &ch->len, &ch->seq);

                if (r == -ENOBUFS && ch->size < SPOOL_RECORD_MAX)
                        r = grow_buffer(ch);
                else if (r > 0)
                        return 1;
                else {
                        ch->seq = 0;
                        return r;
                }
                if (r < 0)
                        return r;
        }
}

static uint64_t newest_durable(const struct channel *ch) {
        struct spool_stats st;

        spool_get_stats(ch->spool, &st);
        return st.synced_seq;
}

/* The newest record instead of the one in the buffer. 1: it is there; 0: that one stays. */
static int read_ahead(struct channel *ch) {
        uint64_t oldest = ch->seq, wanted = newest_durable(ch);

        if (!spool_may_settle_ahead(ch->spool, wanted))
                return 0;
        if (read_record(ch, wanted - 1) == 1 && ch->seq == wanted) {
                ch->ahead = true;
                return 1;
        }
        return read_record(ch, oldest - 1) == 1 ? 0 : -EIO; /* damaged: it is skipped when its turn comes */
}

/* An old record that another one of its minute stands for. */
static bool thin_out(struct channel *ch, usec_t made, usec_t now) {
        struct spool_gap lost[_SPOOL_LOSS_MAX] = { 0 };
        uint64_t minute = made / UPLINK_THIN_EACH;

        if (now - made <= UPLINK_THIN_AGE)
                return false;
        if (minute != ch->kept_minute || ch->seq == ch->spared) {
                ch->kept_minute = minute;
                return false;
        }
        lost[SPOOL_THINNED].records = 1;
        lost[SPOOL_THINNED].items = otlp_count_points(ch->record, ch->len);
        spool_settle(ch->spool, ch->seq, lost);
        ch->stats.lost[SPOOL_THINNED]++;
        ch->seq = 0;
        return true;
}

/* Metrics: 1: the record in the buffer is to be sent; 0: it was thinned out, another one is needed;
 * -errno. */
static int choose_record(struct channel *ch, usec_t now) {
        usec_t made = otlp_first_point_time(ch->record, ch->len);
        int r;

        ch->oldest_real = made;
        if (made == 0 || now <= made || now - made <= UPLINK_BEHIND)
                return 1;
        r = read_ahead(ch);
        if (r != 0)
                return r;
        return thin_out(ch, made, now) ? 0 : 1;
}

/* What is known of it now, before it is sent for the first time. */
static void begin_record(struct channel *ch) {
        ch->taken = ch->tried = ch->unsure = false;
        memset(ch->lost, 0, sizeof(ch->lost));
        spool_hold(ch->spool, ch->seq);
        if (ch->ahead) /* else the oldest one is, after a crash, and is sent again whatever its age */
                (void) ledger_save(spool_ledger(ch->spool));
        channel_drop_piece(ch);
        channel_pack(ch);
}

int channel_load(struct channel *ch) {
        unsigned tries = 0;
        usec_t now = 0;
        int r = 0;

        if (ch->seq > 0)
                return 1;
        (void) sd_event_now(ch->uplink->event, CLOCK_REALTIME, &now);
        ch->ahead = false;
        while (r == 0 && tries++ < THIN_AT_ONCE) {
                r = read_record(ch, 0);
                if (r <= 0)
                        break;
                if (ch->class == UPLINK_METRICS)
                        r = choose_record(ch, now);
                else
                        ch->oldest_real = otlp_first_log_time(ch->record, ch->len);
        }
        if (tries > 1)
                (void) ledger_save(spool_ledger(ch->spool)); /* if that fails, they are thinned once more */
        if (r == 0 && tries > THIN_AT_ONCE)
                return -EAGAIN;
        if (r == 0) /* until the next push */
                channel_drop_buffers(ch);
        if (r > 0)
                begin_record(ch);
        else
                ch->seq = 0;
        return r;
}

int channel_freshen(struct channel *ch) {
        if (ch->class != UPLINK_METRICS || ch->seq == 0 || !ch->tried || ch->unsure || ch->parts > 0 ||
            ch->seq == newest_durable(ch))
                return 0;
        ch->seq = 0;
        ch->kept_minute = 0;
        return channel_load(ch);
}
