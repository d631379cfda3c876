/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside of the uplink, shared by the uplink*.c files only.
 */
#include "sender.h"
#include "sync.h"
#include "uplink.h"

/* One class: its spool, how far it is synced, and what is being sent. */
struct channel {
        struct uplink *uplink;
        enum uplink_class class;
        char *url; /* NULL: spool only */

        struct spool *spool; /* NULL: cannot be opened now, open_error says why */
        int open_error;
        bool durable, syncing;
        struct spool_sync_job job;
        uint64_t told; /* on_durable was called up to here */
        unsigned sync_failures;
        sd_event_source *sync_timer;

        uint8_t *record; /* read from the spool, on its way; seq 0: none */
        size_t size, len;
        uint64_t seq;
        bool sending, waiting, parked;
        unsigned failures;
        sd_event_source *send_timer;

        uint64_t sent, retried, refused, rejected, not_kept;
};

struct uplink {
        sd_event *event;
        struct uplink_options options; /* its texts are not valid after uplink_new() */
        char *spool_dir;
        struct sync *sync;
        struct sender *sender;
        struct channel channels[_UPLINK_CLASS_MAX];
        char last_error[160], spool_error[160];
        usec_t last_ok_boot;
};

/* Sends the next durable record, if there is one and nothing is in the way. */
void channel_send(struct channel *ch);
/* An exchange ended. */
void channel_answered(struct channel *ch, const struct sender_answer *a);
int channel_init_send(struct channel *ch, const char *endpoint);
