/* SPDX-License-Identifier: Apache-2.0 */
#include "bus.h"

#include <assert.h>
#include <systemd/sd-daemon.h>

#include "journal.h"
#include "log.h"
#include "part.h"
#include "paths.h"

/* --- Life ---------------------------------------------------------------------------------------------- */

static const struct host_runs no_runs;

int bus_init(struct bus *b) {
        b->runs = &no_runs;
        b->state = HOST_UNKNOWN;
        event_ring_init(&b->ring);
        return check_table_init(&b->checks) < 0 || sample_store_init(&b->samples) < 0 ? -ENOMEM : 0;
}

void bus_clear(struct bus *b) {
        telemetry_clear(&b->telemetry);
        event_ring_clear(&b->ring);
        sample_store_clear(&b->samples);
        check_table_clear(&b->checks);
        identity_clear(&b->identity);
}

unsigned bus_sources(struct bus *b, unsigned n) {
        unsigned first = SOURCE_PROBES_MAX + (unsigned) b->n_parts + b->sources;

        b->sources += n;
        return first;
}

void *bus_part(const struct bus *b, const struct part *p) {
        size_t i = 0;

        while (i < b->n_parts && b->parts[i] != p)
                i++;
        assert(i < b->n_parts);
        return b->states[i];
}

/* --- Events -------------------------------------------------------------------------------------------- */

void bus_note(struct bus *b, const struct event *e) {
        int r;

        r = journal_event(e);
        if (r < 0)
                (void) log_warning_errno(r, "event %s is not in the journal: %m", event_def(e->id)->name);
        r = event_ring_add(&b->ring, e, host_now_real(b->host));
        if (r < 0)
                (void) log_warning_errno(r, "event %s is not in /v1/events: %m", event_def(e->id)->name);
        bus_tell(b, BUS_EVENT);
}

int bus_emit(struct bus *b, const struct event *e, uint64_t *ret_seq) {
        struct event_value values[EVENT_FIELDS_MAX];
        struct otlp_attribute body[EVENT_FIELDS_MAX];
        size_t n = event_values(e, values);
        int r;

        bus_note(b, e);
        for (size_t i = 0; i < n; i++)
                body[i] = (struct otlp_attribute){ values[i].key, values[i].text, values[i].number };
        r = telemetry_event(&b->telemetry, event_def(e->id)->name, e->severity, host_now_real(b->host), body,
                            n,
                            ret_seq);
        if (r < 0)
                (void) log_warning_errno(r, "event %s is not in the spool: %m", event_def(e->id)->name);
        return r;
}

int bus_describe(struct bus *b) {
        int r = telemetry_describe(&b->telemetry, &b->identity, b->name, b->machine_id, b->boot_id);

        return r < 0 ? log_error_errno(r, "records cannot be described: %m") : 0;
}

/* --- The state of the host ----------------------------------------------------------------------------- */

static void report_to_systemd(struct bus *b, const char *reasons) {
        (void) sd_notifyf(false, "STATUS=%s%s%s; %zu checks; %s%s", host_state_name(b->state),
                          reasons[0] ? ": " : "", reasons, b->checks.n,
                          b->settings.endpoint[0] ? "sends to " : "no endpoint, records stay in the spool",
                          b->settings.endpoint);
}

void bus_report_state(struct bus *b) {
        enum host_state before = b->state, now = check_table_state(&b->checks);
        char reasons[900], ordered[768];
        bool news = now != before || b->orders_changed;
        size_t n;

        if (!b->watching || (now == before && !b->status_stale))
                return;
        b->state = now;
        b->status_stale = b->orders_changed = false;
        bus_tell(b, BUS_MEMBER);
        (void) snprintf(reasons, sizeof(reasons), "%s", orders_text(&b->orders, ordered, sizeof(ordered)));
        n = strlen(reasons);
        (void) check_table_reasons(&b->checks, reasons + n + (n > 0 ? 2 : 0), sizeof(reasons) - n - 2);
        if (n > 0 && reasons[n + 2])
                memcpy(reasons + n, "; ", 2);
        report_to_systemd(b, reasons);
        if (!news)
                return;
        if (now != before)
                bus_tell(b, BUS_CHECKS);
        (void) bus_emit(b,
                        EVENT_AS(HOST_STATE_CHANGED,
                                 now == HOST_READY   ? SEVERITY_INFO
                                 : now == HOST_UNFIT ? SEVERITY_ERROR
                                                     : SEVERITY_WARN,
                                 .from = host_state_name(before), .to = host_state_name(now),
                                 .reasons = reasons),
                        NULL);
}

static const char *settled_name(enum verdict v) {
        return v == _VERDICT_MAX ? "absent" : verdict_name(v);
}

static void report_check(const struct check_change *c, void *userdata) {
        const struct finding *f = &c->finding;
        struct bus *b = userdata;
        const struct order *silence = orders_silence_of(&b->orders, f->check, f->subject);
        enum severity severity = silence                                        ? SEVERITY_INFO
                                 : c->to == VERDICT_FAIL                        ? SEVERITY_ERROR
                                 : c->to == VERDICT_OK || c->to == _VERDICT_MAX ? SEVERITY_INFO
                                                                                : SEVERITY_WARN;

        (void) bus_emit(b,
                        EVENT_AS(CHECK_CHANGED, severity, .check = f->check, .subject = f->subject,
                                 .from = settled_name(c->from), .to = settled_name(c->to), .found = f->found,
                                 .wanted = f->wanted, .source = f->source, .reason = f->reason,
                                 .remedy = f->remedy, .silenced = silence ? silence->reason : "no"),
                        NULL);
}

void bus_take_finding(struct bus *b, unsigned source, unsigned round, const struct finding *f) {
        const struct health_policy policy = settings_policy(&b->settings, f->check);
        size_t known = b->checks.n;
        struct check_change change;
        int r;

        r = check_table_take(&b->checks, &policy, source, round, f, host_now(b->host), &change);
        if (b->checks.n != known)
                bus_mark_silenced(b);
        if (r > 0) {
                b->status_stale = true;
                report_check(&change, b);
                bus_tell(b, BUS_CHECKS);
        } else if (r < 0 && b->table_full++ == 0)
                (void) log_warning_errno(r,
                                         "more than %d checks: %s %s and further ones are not watched: %m",
                                         CHECKS_MAX, f->check, f->subject);
}

void bus_settle(struct bus *b, unsigned source, unsigned round) {
        check_table_end_run(&b->checks, source, round, report_check, b);
        bus_report_state(b);
}

void bus_end_samples(struct bus *b, unsigned source, unsigned round) {
        sample_store_end_run(&b->samples, source, round);
}

void bus_end_round(struct bus *b, unsigned source, unsigned round) {
        bus_end_samples(b, source, round);
        bus_settle(b, source, round);
}

void bus_mark_silenced(struct bus *b) {
        for (size_t i = 0; i < b->checks.n; i++) {
                const struct kept_finding *f = b->checks.entries[i].latest;

                b->checks.health[i].silenced = orders_silence_of(&b->orders, f->check, f->subject) != NULL;
        }
}

bool bus_observes(const struct bus *b) {
        return b->intent.observe || orders_find((struct orders *) (uintptr_t) &b->orders, ORDER_OBSERVE);
}

void bus_forget_runs(struct bus *b) {
        b->runs = &no_runs;
}

/* --- Samples ------------------------------------------------------------------------------------------- */

void bus_take_sample(struct bus *b, unsigned source, unsigned round, const struct sample *m,
                     usec_t start_real) {
        const struct sample_origin o = {
                .source = source, .run = round, .now_real = host_now_real(b->host), .start_real = start_real
        };
        int r = sample_store_take(&b->samples, &o, m);

        if (r == -ENOSPC && b->samples.refused == 1)
                (void) log_warning_errno(r, "more than %d series: %s and further ones are not kept: %m",
                                         SAMPLES_MAX, m->name);
}

static void sink_sample(struct sink *s, const struct sample *m) {
        const struct bus_sink *to = (const struct bus_sink *) s; /* the sink is the first member */

        bus_take_sample(to->bus, to->source, to->round, m, to->start_real);
}

static void sink_finding(struct sink *s, const struct finding *f) {
        const struct bus_sink *to = (const struct bus_sink *) s;

        bus_take_finding(to->bus, to->source, to->round, f);
}

struct bus_sink bus_sink(struct bus *b, unsigned source, unsigned round) {
        return (struct bus_sink){ .sink = { .finding = sink_finding, .sample = sink_sample },
                                  .bus = b,
                                  .source = source,
                                  .round = round,
                                  .start_real = b->started_real };
}

void bus_push(struct bus *b) {
        int r = telemetry_push(&b->telemetry, &b->samples);

        if (r < 0)
                (void) log_warning_errno(r, "metrics are not in the spool: %m");
        uplink_sync_now(b->telemetry.uplink, UPLINK_METRICS); /* nothing comes before the next tick */
}

/* --- What parts tell each other ------------------------------------------------------------------------ */

void bus_publish(struct bus *b, const struct bus_news *n) {
        for (size_t i = 0; i < b->n_parts; i++)
                if (b->parts[i]->hear)
                        b->parts[i]->hear(b->states[i], n);
}

void bus_tell(struct bus *b, enum bus_topic topic) {
        bus_publish(b, &(struct bus_news){ .topic = topic });
}

/* --- Of this machine ----------------------------------------------------------------------------------- */

const char *bus_own(const struct bus *b, const char *configured, const char *own) {
        return configured[0] ? configured : b->host->real_root ? own : NULL;
}

const char *bus_launchd_socket(const struct bus *b) {
        return bus_own(b, b->settings.launchd_socket, PATH_LAUNCHD_SOCKET);
}
