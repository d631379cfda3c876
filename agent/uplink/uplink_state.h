/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside of the uplink, shared by the uplink*.c files only. */
#include "endpoint.h"
#include "sync.h"
#include "uplink.h"

/* One class: its spool, how far it is synced, and what is being sent. */
struct channel {
        struct uplink *uplink;
        enum uplink_class class;
        struct spool *spool; /* NULL: cannot be opened now, open_error says why */
        int open_error;
        bool durable, syncing;
        struct spool_sync_task task;
        uint64_t told; /* on_durable was called up to here */
        unsigned sync_failures;
        sd_event_source *sync_timer;

        uint8_t *record; /* read from the spool, being sent; seq 0: none */
        size_t size, len;
        uint8_t *packed; /* as large as record; packed_len 0: it is sent as it is */
        size_t packed_len;
        uint8_t *piece; /* a part of the record instead of it, for a receiver that found it too large */
        size_t piece_len;
        unsigned part, parts; /* parts is 0 while it is sent as a whole */
        bool taken; /* something of it */
        bool ahead;  /* there are older ones */
        bool tried;  /* it was sent once, or more often */
        bool unsure; /* it may have been taken, for all we know: nothing else may happen to it */
        uint64_t spared;      /* was being sent when the previous process ended: not thinned */
        uint64_t kept_minute; /* of the last record that was not thinned out */
        struct spool_gap lost[_SPOOL_LOSS_MAX]; /* of it: records and items */
        usec_t oldest_real;
        uint64_t seq;
        bool sending;
        struct uplink_route routes[CONFIG_URLS_MAX];
        size_t route;     /* of the request at work */
        usec_t wake;      /* when send_timer rings; 0: it does not */
        sd_event_source *send_timer;

        bool gap_syncing;
        usec_t gap_next;                      /* boot clock: none is reported before */
        uint64_t gap_event[_SPOOL_LOSS_MAX];  /* the event that reports it; 0: not submitted */

        struct uplink_class_stats stats; /* what is counted */
};

struct uplink {
        sd_event *event;
        struct uplink_options options; /* its texts are not valid after uplink_new() */
        char *spool_dir, *user_agent, *proxy; /* proxy: NULL: none */
        struct endpoint endpoints[CONFIG_URLS_MAX];
        size_t n_endpoints; /* 0: spool only */
        struct tls_files tls;
        struct sync *sync;
        struct channel channels[_UPLINK_CLASS_MAX];
        char last_error[320], spool_error[160];
        usec_t last_ok_boot;
};

/* uplink_load.c: which record is next. 1: it is in the buffer; 0: there is none; -EAGAIN: call again soon;
 * -errno. */
int channel_load(struct channel *ch);
void channel_drop_buffers(struct channel *ch);
void channel_drop_piece(struct channel *ch);
/* What is sent now: the record, or the part of it. */
static inline const uint8_t *channel_body(const struct channel *ch) {
        return ch->piece ? ch->piece : ch->record;
}

static inline size_t channel_body_len(const struct channel *ch) {
        return ch->piece ? ch->piece_len : ch->len;
}

/* Compresses it, where that is wanted and worth it. */
void channel_pack(struct channel *ch);
/* A record that waited for a good route may not be the newest any more, which is to go first. */
int channel_freshen(struct channel *ch);

/* uplink_send.c. Sends the next durable record, if there is one and nothing prevents it. */
void channel_send(struct channel *ch);
int channel_init_send(struct channel *ch);
void channel_clear_send(struct channel *ch);
/* What parked it is not so any more: all is tried at once. */
void channel_try_now(struct channel *ch);

/* Where records go, and with which certificates. */
int uplink_endpoints_init(struct uplink *u, const struct uplink_options *o);
void uplink_endpoints_clear(struct uplink *u);
void uplink_endpoints_stats(const struct uplink *u, struct uplink_stats *ret);
