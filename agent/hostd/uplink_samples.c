/* SPDX-License-Identifier: Apache-2.0 */
#include "uplink_samples.h"

const char *uplink_drop_name(unsigned why) {
        return why < _SPOOL_LOSS_MAX ? uplink_loss_name((enum spool_loss) why) : "disk";
}

uint64_t uplink_drop_count(const struct uplink_class_stats *c, unsigned why) {
        return why < _SPOOL_LOSS_MAX ? c->lost[why] : c->not_kept;
}

/* How old the oldest record is that waits; 0 when none does, nothing when nobody has looked at it yet. */
static void put_lag(const struct uplink_class_stats *c, const char *name, usec_t now_real, struct sink *s) {
        bool waits = c->spool.records > 0 && c->oldest_real > 0 && now_real > c->oldest_real;

        if (waits || c->spool.records == 0)
                put_double(s, METRIC_UPLINK_LAG,
                           waits ? (double) (now_real - c->oldest_real) / (double) USEC_PER_SEC : 0, name,
                           NULL, NULL);
}

static void put_class(const struct uplink_class_stats *c, const char *name, struct sink *s) {
        put_uint(s, METRIC_UPLINK_KEPT, c->spool.records, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_KEPT_SIZE, c->spool.bytes, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_APPENDED, c->spool.appended, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_SENT, c->sent, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_RETRIED, c->retried, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_PARKED, c->parked, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_IO, c->body_bytes, name, "body", NULL);
        put_uint(s, METRIC_UPLINK_IO, c->wire_bytes, name, "wire", NULL);
        for (unsigned l = 0; l < UPLINK_DROPS; l++)
                put_uint(s, METRIC_UPLINK_DROPPED, uplink_drop_count(c, l), name, uplink_drop_name(l), NULL);
}

void uplink_samples(const struct uplink_stats *u, uint64_t lost, usec_t now_real, struct sink *s) {
        for (enum uplink_class c = 0; c < _UPLINK_CLASS_MAX; c++) {
                put_class(&u->classes[c], uplink_class_name(c), s);
                put_lag(&u->classes[c], uplink_class_name(c), now_real, s);
        }
        put_uint(s, METRIC_UPLINK_UNBUILT, lost, NULL, NULL, NULL);
}
