/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/stat.h>

#include "loop_timer.h"
#include "otlp_look.h"
#include "uplink_state.h"

#define SYNC_ACCURACY (250 * USEC_PER_MSEC)
#define FULL_PAUSE (4 * USEC_PER_SEC)
#define FAILED_PAUSE (8 * USEC_PER_SEC) /* a try costs a segment; what waits for it is in memory only */
/* segments that one record may cost others on a full disk, which somebody else may fill, too */
#define SHED_MOST 4

static_assert(2 * _UPLINK_CLASS_MAX <= SYNC_SLOTS_MAX,
              "slots for each class: behind those of the records, those of the ledgers");

const char *uplink_loss_name(enum spool_loss why) {
        static const char *const names[_SPOOL_LOSS_MAX] = {
                [SPOOL_BYTE_LIMIT] = "byte limit",
                [SPOOL_DAMAGED] = "damaged",
                [SPOOL_MALFORMED] = "refused: 400 malformed",
                [SPOOL_TOO_LARGE] = "refused: 413 too large",
                [SPOOL_UNPROCESSABLE] = "refused: 422 unprocessable",
                [SPOOL_IN_PART] = "refused: in part",
                [SPOOL_THINNED] = "thinned",
        };

        return why < _SPOOL_LOSS_MAX ? names[why] : "unknown";
}

static void arm_sync(struct channel *ch, usec_t span) {
        int enabled;

        if (sd_event_source_get_enabled(ch->sync_timer, &enabled) > 0)
                return; /* something waits already, and will take this along */
        (void) loop_timer_in(ch->sync_timer, span); /* fails only when the loop ends */
}

/* The spool cannot be written: said, and tried again later. */
static void spool_failed(struct channel *ch, int error) {
        struct uplink *u = ch->uplink;
        usec_t wait = USEC_PER_SEC << MIN(ch->sync_failures, 6u);

        /* On a full disk to look again costs little, and delivery makes room. */
        wait = MIN(wait, error == -ENOSPC ? FULL_PAUSE : FAILED_PAUSE);
        ch->durable = false;
        (void) snprintf(u->spool_error, sizeof(u->spool_error), "spool %.*s/%s: %s", 90, u->spool_dir,
                        uplink_class_name(ch->class), strerror(-error));
        ch->sync_failures++;
        arm_sync(ch, wait);
}

static void spool_works(struct channel *ch) {
        struct uplink *u = ch->uplink;
        bool all = true;

        ch->durable = true;
        ch->sync_failures = 0;
        for (size_t i = 0; i < _UPLINK_CLASS_MAX; i++)
                all = all && u->channels[i].durable;
        if (all)
                u->spool_error[0] = '\0';
}

static bool shed_below(struct uplink *u, enum uplink_class c);

/* Starts a sync of what was appended, unless one is at work: its end looks again. */
static void channel_sync(struct channel *ch) {
        int r;

        if (!ch->spool || ch->syncing)
                return;
        r = spool_sync_begin(ch->spool, &ch->task);
        if (r == 0 && !ch->durable) { /* what met the failure was refused; nothing else will find out */
                r = spool_prepare(ch->spool);
                if (r == -ENOSPC && shed_below(ch->uplink, ch->class))
                        r = spool_prepare(ch->spool);
                if (r >= 0)
                        spool_works(ch);
        }
        if (r < 0)
                spool_failed(ch, r);
        if (r <= 0)
                return;
        r = sync_start(ch->uplink->sync, ch->class, ch->task.fds, ch->task.n_fds,
                       ch->task.directory);
        if (r < 0) { /* cannot be: one task a class */
                for (size_t i = 0; i < ch->task.n_fds; i++)
                        (void) close(ch->task.fds[i]);
                spool_failed(ch, r);
                return;
        }
        ch->syncing = true;
}

static void sync_soon(struct channel *ch) {
        if (ch->sync_failures > 0)
                arm_sync(ch, USEC_PER_SEC); /* no sooner than the timer of the failure, if it runs */
        else if (ch->class == UPLINK_EVENTS)
                channel_sync(ch);
        else
                arm_sync(ch, UPLINK_SYNC_METRICS - SYNC_ACCURACY);
}

/* --- What was lost is reported ------------------------------------------------------------------------ */

/* A gap is closed in the ledger, synced, submitted as an event, and forgotten when that is durable. */

/* Whether there is a gap that no event tells yet. */
static bool untold(const struct channel *ch) {
        for (enum spool_loss why = 0; why < _SPOOL_LOSS_MAX; why++)
                if (ledger_gap(spool_ledger(ch->spool), why) && ch->gap_event[why] == 0)
                        return true;
        return false;
}

static void ledger_synced(struct channel *ch, int result) {
        struct uplink *u = ch->uplink;

        ch->gap_syncing = false;
        ledger_end(spool_ledger(ch->spool), result);
        if (result < 0) {
                ch->gap_next = 0;
                return;
        }
        for (enum spool_loss why = 0; why < _SPOOL_LOSS_MAX; why++) {
                const struct spool_gap *g = ledger_gap(spool_ledger(ch->spool), why);
                void *userdata = u->options.userdata;
                uint64_t seq;

                if (!g || ch->gap_event[why] > 0)
                        continue;
                if (u->options.on_gap(ch->class, spool_id(ch->spool), g, why, &seq, userdata) >= 0)
                        ch->gap_event[why] = seq;
        }
}

static void channel_gaps_look(struct channel *ch, usec_t now) {
        struct uplink *u = ch->uplink;
        int fd;

        if (!ch->spool || ch->gap_syncing || now < ch->gap_next)
                return;
        if (!ledger_close_gaps(spool_ledger(ch->spool)) || !untold(ch) ||
            ledger_begin(spool_ledger(ch->spool), &fd) < 0)
                return; /* a disk that fails is tried again at the next look */
        ch->gap_next = now + (u->options.gap_pause > 0 ? u->options.gap_pause : UPLINK_GAP_PAUSE);
        ch->gap_syncing = true;
        if (sync_start(u->sync, _UPLINK_CLASS_MAX + ch->class, &fd, 1, false) < 0) {
                (void) close(fd); /* cannot be: one a class */
                ledger_synced(ch, -EBUSY);
        }
}

static void gaps_look(struct uplink *u, usec_t now) {
        for (size_t c = 0; c < _UPLINK_CLASS_MAX && u->options.on_gap; c++)
                channel_gaps_look(&u->channels[c], now);
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

/* --- Syncs that ended -------------------------------------------------------------------------------- */

static void on_synced(size_t slot, int result, void *userdata) {
        struct uplink *u = userdata;
        struct channel *ch = &u->channels[slot % _UPLINK_CLASS_MAX];
        struct spool_stats st;
        int r;

        if (slot >= _UPLINK_CLASS_MAX) {
                ledger_synced(ch, result);
                return;
        }
        ch->syncing = false;
        r = spool_sync_end(ch->spool, &ch->task, result);
        if (r < 0) {
                spool_failed(ch, r);
                return;
        }
        spool_get_stats(ch->spool, &st);
        if (st.synced_seq >= ch->task.seq) /* else a failure has overtaken the task, and was said */
                spool_works(ch);
        if (st.synced_seq > ch->told) {
                ch->told = st.synced_seq;
                if (ch->class == UPLINK_EVENTS && !u->options.aside)
                        uplink_gaps_durable(u, st.synced_seq);
                if (u->options.on_durable)
                        u->options.on_durable(ch->class, st.synced_seq, u->options.userdata);
        }
        if (st.next_seq - 1 > st.synced_seq)
                sync_soon(ch);
        channel_send(ch);
}

static uint64_t segment_bytes(const struct uplink *u) {
        return MAX(MIN((uint64_t) UPLINK_SEGMENT_BYTES, u->options.max_bytes / 16),
                   (uint64_t) SPOOL_SEGMENT_MIN);
}

/* Classes in the order of their importance: each has what the ones before it leave, and a new segment of
 * theirs. */
static void share_out(struct uplink *u) {
        uint64_t segment = segment_bytes(u), left = u->options.max_bytes - _UPLINK_CLASS_MAX * 2 * segment;

        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                uint64_t beyond, limit = 2 * segment + left;
                struct spool_stats st;

                if (!u->channels[c].spool)
                        continue;
                if (c == UPLINK_LOGS && u->options.log_bytes > 0)
                        limit = MIN(limit, MAX(u->options.log_bytes, 2 * segment));
                spool_set_limit(u->channels[c].spool, limit);
                spool_get_stats(u->channels[c].spool, &st);
                beyond = st.bytes + segment > 2 * segment ? st.bytes - segment : 0;
                left -= MIN(left, beyond);
        }
}

/* The disk is full: what is least important goes, oldest first. False: nothing was left to go. */
static bool shed_below(struct uplink *u, enum uplink_class c) {
        for (size_t i = _UPLINK_CLASS_MAX; i > (size_t) c + 1; i--)
                if (u->channels[i - 1].spool && spool_shed(u->channels[i - 1].spool))
                        return true;
        return false;
}

static int channel_open(struct channel *ch) {
        struct uplink *u = ch->uplink;
        struct spool_options o = {
                .max_bytes = u->options.max_bytes,
                .segment_bytes = segment_bytes(u),
                .count = ch->class == UPLINK_METRICS ? otlp_count_points
                         : ch->class == UPLINK_LOGS  ? otlp_count_logs
                                                     : NULL,
        };
        _cleanup_free_ char *path = NULL;
        struct spool_stats st;
        int r;

        if (u->options.closed)
                return -EPERM;
        if (asprintf(&path, "%s/%s", u->spool_dir, uplink_class_name(ch->class)) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        if (mkdir(u->spool_dir, 0700) < 0 && errno != EEXIST)
                return -errno;
        r = spool_open(path, &o, &ch->spool);
        if (r < 0)
                return r;
        spool_get_stats(ch->spool, &st);
        ch->told = st.synced_seq;
        ch->spared = spool_held(ch->spool);
        spool_works(ch);
        share_out(u);
        return 0;
}

static int on_sync_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct channel *ch = userdata;

        (void) source;
        (void) usec;
        if (!ch->spool) {
                ch->open_error = channel_open(ch);
                if (ch->open_error < 0)
                        spool_failed(ch, ch->open_error);
                else
                        channel_send(ch);
                return 0;
        }
        channel_sync(ch);
        return 0;
}

static int channel_new(struct uplink *u, enum uplink_class c) {
        struct channel *ch = &u->channels[c];
        int r;

        ch->uplink = u;
        ch->class = c;
        r = loop_timer_new(u->event, CLOCK_MONOTONIC, SYNC_ACCURACY, "spool-sync", on_sync_timer, ch,
                           &ch->sync_timer);
        if (r < 0)
                return r;
        if (u->n_endpoints > 0) {
                r = channel_init_send(ch);
                if (r < 0)
                        return r;
        }
        ch->open_error = channel_open(ch);
        if (ch->open_error == -EBUSY || ch->open_error == -EPROTONOSUPPORT || ch->open_error == -EINVAL)
                return ch->open_error; /* a person has to decide */
        if (ch->open_error < 0)
                spool_failed(ch, ch->open_error);
        return 0;
}

int uplink_new(sd_event *e, const struct uplink_options *o, struct uplink **ret) {
        _cleanup_(uplink_freep) struct uplink *u = NULL;
        int r;

        if (o->max_bytes < UPLINK_BYTES_MIN)
                return -EINVAL;
        u = calloc(1, sizeof(*u));
        if (!u)
                return -ENOMEM;
        u->event = sd_event_ref(e);
        u->options = *o;
        u->spool_dir = strdup(o->spool_dir);
        u->user_agent = strdup(o->user_agent);
        u->proxy = o->proxy && *o->proxy ? strdup(o->proxy) : NULL;
        if (!u->spool_dir || !u->user_agent || (o->proxy && *o->proxy && !u->proxy))
                return -ENOMEM;
        r = uplink_endpoints_init(u, o);
        if (r >= 0)
                r = sync_new(e, on_synced, u, &u->sync);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX && r >= 0; c++)
                r = channel_new(u, (enum uplink_class) c);
        if (r < 0)
                return r;
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                channel_send(&u->channels[c]);
        *ret = TAKE_PTR(u);
        return 0;
}

struct uplink *uplink_free(struct uplink *u) {
        if (!u)
                return NULL;
        uplink_endpoints_clear(u);
        u->sync = sync_free(u->sync);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                struct channel *ch = &u->channels[c];

                ch->sync_timer = sd_event_source_disable_unref(ch->sync_timer);
                channel_clear_send(ch);
                if (ch->spool) {
                        /* nobody waits for it any more: what was decided since goes in now */
                        if (ch->gap_syncing)
                                ledger_end(spool_ledger(ch->spool), -ECANCELED);
                        (void) spool_sync(ch->spool); /* nobody is left to report it to; the stats were */
                        (void) ledger_save(spool_ledger(ch->spool));
                }
                ch->spool = spool_free(ch->spool);
        }
        free(u->spool_dir);
        free(u->user_agent);
        free(u->proxy);
        u->event = sd_event_unref(u->event);
        free(u);
        return NULL;
}

int uplink_submit(struct uplink *u, enum uplink_class c, const void *data, size_t len, uint64_t *ret_seq) {
        struct channel *ch = &u->channels[c];
        int r;

        r = ch->spool ? spool_append(ch->spool, data, len, ret_seq) : ch->open_error;
        for (unsigned i = 0; i < SHED_MOST && ch->spool && r == -ENOSPC && shed_below(u, c); i++)
                r = spool_append(ch->spool, data, len, ret_seq);
        if (r >= 0) {
                share_out(u);
                sync_soon(ch);
                return 0;
        }
        ch->stats.not_kept++;
        if (ch->spool && r != -E2BIG && r != -EINVAL)
                spool_failed(ch, r);
        return r;
}

void uplink_release(struct uplink *u) {
        u->options.held = false;
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                channel_send(&u->channels[c]);
}

void uplink_set_limit(struct uplink *u, uint64_t max_bytes) {
        u->options.max_bytes = MAX(max_bytes, (uint64_t) UPLINK_BYTES_MIN);
        share_out(u);
}

bool uplink_is_durable(const struct uplink *u, enum uplink_class c) {
        return u->channels[c].durable;
}

bool uplink_is_done(const struct uplink *u) {
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                const struct channel *ch = &u->channels[c];
                struct spool_stats st;

                if (!ch->spool || ch->sending || ch->gap_syncing || ledger_has_gaps(spool_ledger(ch->spool)))
                        return false;
                spool_get_stats(ch->spool, &st);
                if (st.records > 0)
                        return false;
        }
        return true;
}

size_t uplink_record_max(const struct uplink *u) {
        uint64_t units = segment_bytes(u) / SPOOL_UNIT;

        return (size_t) MIN(units * SPOOL_UNIT - 64, (uint64_t) SPOOL_RECORD_MAX); /* headers: 56 bytes */
}

void uplink_sync_now(struct uplink *u, enum uplink_class c) {
        struct channel *ch = &u->channels[c];

        if (!ch->spool || ch->syncing || ch->sync_failures > 0)
                return; /* a timer, or the end of the sync at work, takes it along */
        (void) sd_event_source_set_enabled(ch->sync_timer, SD_EVENT_OFF);
        channel_sync(ch);
}

int uplink_next(const struct uplink *u, enum uplink_class c, uint64_t *ret_spool_id, uint64_t *ret_seq) {
        const struct channel *ch = &u->channels[c];
        struct spool_stats st;

        if (!ch->spool)
                return ch->open_error;
        spool_get_stats(ch->spool, &st);
        *ret_spool_id = spool_id(ch->spool);
        *ret_seq = st.next_seq;
        return 0;
}

void uplink_get_stats(const struct uplink *u, struct uplink_stats *ret) {
        *ret = (struct uplink_stats) { .last_ok_boot = u->last_ok_boot, .durable = true };
        memcpy(ret->last_error, u->last_error, sizeof(ret->last_error));
        memcpy(ret->spool_error, u->spool_error, sizeof(ret->spool_error));
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                const struct channel *ch = &u->channels[c];
                struct uplink_class_stats *t = &ret->classes[c];

                *t = ch->stats;
                if (ch->spool)
                        spool_get_stats(ch->spool, &t->spool);
                t->lost[SPOOL_BYTE_LIMIT] = t->spool.dropped_bytes_limit;
                t->lost[SPOOL_DAMAGED] = t->spool.damaged;
                t->oldest_real = ch->seq > 0 ? ch->oldest_real : 0;
                t->durable = ch->durable;
                ret->durable = ret->durable && ch->durable;
        }
        uplink_endpoints_stats(u, ret);
}

void uplink_refresh(struct uplink *u) {
        usec_t now;

        if (sd_event_now(u->event, CLOCK_BOOTTIME, &now) < 0)
                return;
        gaps_look(u, now);
        if (!tls_files_configured(&u->tls) || !tls_files_look(&u->tls))
                return;
        for (size_t i = 0; i < u->n_endpoints; i++)
                exchange_renew(u->endpoints[i].exchanges[0]); /* and those beside it */
        uplink_try_now(u);
}

void uplink_try_now(struct uplink *u) {
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                channel_try_now(&u->channels[c]);
}
