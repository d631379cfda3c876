/* SPDX-License-Identifier: Apache-2.0 */
/* What was lost is told: closed in the ledger, synced, submitted as an event, forgotten when that is durable. */
#include "uplink_state.h"

const char *uplink_loss_name(enum spool_loss why) {
        switch (why) {
        case SPOOL_BYTE_LIMIT:
                return "byte limit";
        case SPOOL_DAMAGED:
                return "damaged";
        case SPOOL_MALFORMED:
                return "refused: 400 malformed";
        case SPOOL_TOO_LARGE:
                return "refused: 413 too large";
        case SPOOL_UNPROCESSABLE:
                return "refused: 422 unprocessable";
        case SPOOL_IN_PART:
                return "refused: in part";
        case SPOOL_THINNED:
                return "thinned";
        case _SPOOL_LOSS_MAX:
                break;
        }
        return "unknown";
}

/* Whether there is a gap that no event tells yet. */
static bool untold(const struct channel *ch) {
        for (enum spool_loss why = 0; why < _SPOOL_LOSS_MAX; why++)
                if (ledger_gap(spool_ledger(ch->spool), why) && ch->gap_event[why] == 0)
                        return true;
        return false;
}

static void channel_gaps_look(struct channel *ch, usec_t now) {
        struct uplink *u = ch->uplink;
        int fd;

        if (!ch->spool || ch->gap_syncing || now < ch->gap_next)
                return;
        if (!ledger_close_gaps(spool_ledger(ch->spool)) || !untold(ch) || ledger_begin(spool_ledger(ch->spool), &fd) < 0)
                return; /* a disk that fails is tried again at the next look */
        ch->gap_next = now + (u->options.gap_pause > 0 ? u->options.gap_pause : UPLINK_GAP_PAUSE);
        ch->gap_syncing = true;
        if (sync_start(u->sync, _UPLINK_CLASS_MAX + ch->class, &fd, 1, false) < 0) { /* cannot be: one a class */
                (void) close(fd);
                channel_ledger_synced(ch, -EBUSY);
        }
}

void uplink_gaps_look(struct uplink *u, usec_t now) {
        for (size_t c = 0; c < _UPLINK_CLASS_MAX && u->options.on_gap; c++)
                channel_gaps_look(&u->channels[c], now);
}

void channel_ledger_synced(struct channel *ch, int result) {
        struct uplink *u = ch->uplink;

        ch->gap_syncing = false;
        ledger_end(spool_ledger(ch->spool), result);
        if (result < 0) {
                ch->gap_next = 0;
                return;
        }
        for (enum spool_loss why = 0; why < _SPOOL_LOSS_MAX; why++) {
                const struct spool_gap *g = ledger_gap(spool_ledger(ch->spool), why);
                uint64_t seq;

                if (g && ch->gap_event[why] == 0 &&
                    u->options.on_gap(ch->class, spool_id(ch->spool), g, why, &seq, u->options.userdata) >= 0)
                        ch->gap_event[why] = seq;
        }
}

void uplink_gaps_durable(struct uplink *u, uint64_t seq) {
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                struct channel *ch = &u->channels[c];

                for (enum spool_loss why = 0; why < _SPOOL_LOSS_MAX; why++)
                        if (ch->gap_event[why] > 0 && ch->gap_event[why] <= seq) {
                                ch->gap_event[why] = 0;
                                ledger_told(spool_ledger(ch->spool), why);
                        }
        }
}
