/* SPDX-License-Identifier: Apache-2.0 */
#include "uplink_samples.h"

const char *uplink_drop_name(unsigned why) {
        return why < _SPOOL_LOSS_MAX ? uplink_loss_name((enum spool_loss) why) : "disk";
}

uint64_t uplink_drop_count(const struct uplink_class_stats *c, unsigned why) {
        return why < _SPOOL_LOSS_MAX ? c->lost[why] : c->not_kept;
}

static int64_t whole(uint64_t n) {
        return (int64_t) MIN(n, (uint64_t) INT64_MAX);
}

static void put_losses(const struct uplink_class_stats *c, const char *name, struct sink *s) {
        struct sample m = { .name = "tpu.uplink.dropped",
                            .unit = "{record}",
                            .description = "Records that were lost for good, by why",
                            .kind = SAMPLE_COUNTER,
                            .is_int = true,
                            .keys = { "tpu.uplink.class", "tpu.uplink.reason" },
                            .values = { name } };

        for (unsigned l = 0; l < UPLINK_DROPS; l++) {
                m.values[1] = uplink_drop_name(l);
                m.i = whole(uplink_drop_count(c, l));
                s->sample(s, &m);
        }
}

static void put_bytes(const struct uplink_class_stats *c, const char *name, struct sink *s) {
        struct sample m = { .name = "tpu.uplink.io",
                            .unit = "By",
                            .description = "Bytes of the records sent: body before, wire after packing",
                            .kind = SAMPLE_COUNTER,
                            .is_int = true,
                            .keys = { "tpu.uplink.class", "tpu.uplink.io.kind" },
                            .values = { name, "body" } };

        m.i = whole(c->body_bytes);
        s->sample(s, &m);
        m.values[1] = "wire";
        m.i = whole(c->wire_bytes);
        s->sample(s, &m);
}

/* How old the oldest record is that waits; 0 when none does, nothing when nobody has looked at it yet. */
static void put_lag(const struct uplink_class_stats *c, const char *name, usec_t now_real, struct sink *s) {
        bool waits = c->spool.records > 0 && c->oldest_real > 0 && now_real > c->oldest_real;
        const struct sample m = { .name = "tpu.uplink.lag",
                                  .unit = "s",
                                  .description = "Age of the oldest record that waits to be sent",
                                  .d = waits ? (double) (now_real - c->oldest_real) / (double) USEC_PER_SEC : 0,
                                  .keys = { "tpu.uplink.class" },
                                  .values = { name } };

        if (waits || c->spool.records == 0)
                s->sample(s, &m);
}

static void put_class(const struct uplink_class_stats *c, const char *name, struct sink *s) {
        const struct {
                const char *name, *unit, *description;
                enum sample_kind kind;
                uint64_t value;
        } numbers[] = {
                { "tpu.uplink.kept", "{record}", "Records that wait in the spool", SAMPLE_GAUGE,
                  c->spool.records },
                { "tpu.uplink.kept_size", "By", "What they take on the disk", SAMPLE_GAUGE, c->spool.bytes },
                { "tpu.uplink.appended", "{record}", "Records put into the spool", SAMPLE_COUNTER,
                  c->spool.appended },
                { "tpu.uplink.sent", "{record}", "Records that a receiver took", SAMPLE_COUNTER, c->sent },
                { "tpu.uplink.retried", "{exchange}", "Exchanges that ended undecided and are tried again",
                  SAMPLE_COUNTER, c->retried },
                { "tpu.uplink.parked", "1", "1 while no endpoint accepts what is sent", SAMPLE_GAUGE,
                  c->parked },
        };

        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                const struct sample m = { .name = numbers[i].name,
                                          .unit = numbers[i].unit,
                                          .description = numbers[i].description,
                                          .kind = numbers[i].kind,
                                          .is_int = true,
                                          .i = whole(numbers[i].value),
                                          .keys = { "tpu.uplink.class" },
                                          .values = { name } };

                s->sample(s, &m);
        }
}

void uplink_samples(const struct uplink_stats *u, uint64_t lost, usec_t now_real, struct sink *s) {
        const struct sample unbuilt = { .name = "tpu.uplink.unbuilt",
                                        .unit = "{record}",
                                        .description = "Records that never reached the spool",
                                        .kind = SAMPLE_COUNTER,
                                        .is_int = true,
                                        .i = whole(lost) };

        for (enum uplink_class c = 0; c < _UPLINK_CLASS_MAX; c++) {
                put_class(&u->classes[c], uplink_class_name(c), s);
                put_bytes(&u->classes[c], uplink_class_name(c), s);
                put_losses(&u->classes[c], uplink_class_name(c), s);
                put_lag(&u->classes[c], uplink_class_name(c), now_real, s);
        }
        s->sample(s, &unbuilt);
}
