/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtpu-driver ROUNDS STEP-MS PORT…: asks libtpu's metrics service in rounds and prints what is told, a
 * JSON object a line. A round begins STEP-MS after the last, on a clock that then stands ten seconds
 * further. In the environment STATUS asks for the cores after the rounds, QUIET prints no points.
 */
#include <jansson.h>

#include "clock.h"
#include "libtpu_client.h"

struct driver {
        sd_event *event;
        sd_event_source *timer;
        struct libtpu_client *client;
        long rounds;
        usec_t step, now;
        bool status, quiet, expected;
        uint64_t points;
};

static void print(json_t *o) {
        (void) json_dumpf(o, stdout, JSON_COMPACT);
        (void) putchar('\n');
        json_decref(o);
}

static json_t *value_of(const struct sample *s) {
        json_t *bounds, *counts;

        if (s->kind != SAMPLE_HISTOGRAM)
                return s->is_int ? json_integer(s->i) : json_real(s->d);
        bounds = json_array();
        counts = json_array();
        for (size_t i = 0; i <= s->h->n_bounds; i++) {
                if (i < s->h->n_bounds)
                        (void) json_array_append_new(bounds, json_real(s->h->bounds[i]));
                (void) json_array_append_new(counts, json_integer((json_int_t) s->h->counts[i]));
        }
        return json_pack("{s:I,s:f,s:o,s:o,s:o?,s:o?}", "count", (json_int_t) s->h->count, "sum", s->h->sum,
                         "bounds", bounds, "counts", counts, "min",
                         isnan(s->h->min) ? NULL : json_real(s->h->min), "max",
                         isnan(s->h->max) ? NULL : json_real(s->h->max));
}

static void on_point(unsigned port, enum libtpu_metric id, const struct libtpu_point *p, void *userdata) {
        struct driver *d = userdata;
        const struct libtpu_def *def = libtpu_def(id);
        json_t *labels;

        d->points++;
        if (d->quiet)
                return;
        labels = json_object();
        for (size_t k = 0; k < LIBTPU_KEYS && def->our_keys[k]; k++)
                (void) json_object_set_new(labels, def->our_keys[k], json_string(p->values[k]));
        print(json_pack("{s:s,s:i,s:s,s:o,s:o,s:I}", "event", "point", "port", (int) port, "name",
                        p->sample.name, "labels", labels, "value", value_of(&p->sample), "start",
                        (json_int_t) p->start_real));
}

static void on_answered(unsigned port, enum libtpu_metric id, void *userdata) {
        (void) port, (void) id, (void) userdata;
}

static void on_gone(unsigned port, const char *why, void *userdata) {
        (void) userdata;
        print(json_pack("{s:s,s:i,s:s?}", "event", "gone", "port", (int) port, "why", why));
}

static void on_status(const struct libtpu_status *s, void *userdata) {
        struct driver *d = userdata;
        json_t *cores = json_array();

        for (size_t i = 0; i < s->n; i++) {
                const struct libtpu_core *c = &s->cores[i];

                (void) json_array_append_new(
                        cores, json_pack("{s:i,s:i,s:I,s:I,s:I,s:I,s:i,s:s,s:s,s:s}", "core", (int) c->core,
                                         "chip", (int) c->chip, "pc", (json_int_t) c->pc, "tag",
                                         (json_int_t) c->tag, "launch", (json_int_t) c->launch, "run",
                                         (json_int_t) c->run, "queued", (int) c->queued, "fingerprint",
                                         c->fingerprint, "location", c->location, "error", c->error));
        }
        print(json_pack("{s:s,s:o,s:s,s:i}", "event", "status", "cores", cores, "why", s->why, "processes",
                        (int) s->processes));
        (void) sd_event_exit(d->event, 0);
}

static void finish(struct driver *d) {
        struct libtpu_stats s;

        libtpu_client_stats(d->client, &s);
        print(json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "event", "end", "calls",
                        (json_int_t) s.traffic.calls, "exchanges", (json_int_t) s.traffic.exchanges,
                        "connections", (json_int_t) s.traffic.connections, "sent",
                        (json_int_t) s.traffic.sent, "received", (json_int_t) s.traffic.received, "left_out",
                        (json_int_t) s.left_out, "refused", (json_int_t) s.refused, "points",
                        (json_int_t) d->points));
        if (!d->status || libtpu_client_status(d->client, on_status, d) < 0 || getenv("LEAVE"))
                (void) sd_event_exit(d->event, 0);
}

static void on_round(const struct libtpu_reading *r, void *userdata) {
        struct driver *d = userdata;

        if (!d->quiet)
                print(json_pack("{s:s,s:i,s:f,s:f,s:I,s:b,s:s,s:b}", "event", "round", "processes",
                                (int) r->processes, "duty", isnan(r->duty_cycle) ? -1 : r->duty_cycle,
                                "idle", isnan(r->idle_seconds) ? -1 : r->idle_seconds, "queued",
                                (json_int_t) r->queued, "error", r->error, "error_type", r->error_type,
                                "known", r->at > 0));
        if (--d->rounds <= 0)
                finish(d);
        else
                (void) sd_event_source_set_time_relative(d->timer, d->step),
                        (void) sd_event_source_set_enabled(d->timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct driver *d = userdata;

        (void) source, (void) usec;
        d->now += 10 * USEC_PER_SEC;
        libtpu_client_look(d->client, d->now, clock_real(&clock_system), d->expected);
        return 0;
}

int main(int argc, char **argv) {
        const struct libtpu_handlers h = { on_point, on_answered, on_gone, on_round };
        struct driver d = { .now = 100 * USEC_PER_SEC };
        uint16_t ports[LIBTPU_PORTS_MAX];
        size_t n = 0;
        int r;

        if (argc < 4)
                return 64;
        d.rounds = strtol(argv[1], NULL, 10);
        d.step = (usec_t) strtoul(argv[2], NULL, 10) * USEC_PER_MSEC;
        d.status = getenv("STATUS") != NULL;
        d.quiet = getenv("QUIET") != NULL;
        d.expected = !getenv("UNEXPECTED");
        for (int i = 3; i < argc && n < LIBTPU_PORTS_MAX; i++)
                ports[n++] = (uint16_t) strtoul(argv[i], NULL, 10);
        r = sd_event_default(&d.event);
        if (r >= 0)
                r = libtpu_client_new(d.event, ports, n, "tpu-hostd/test", &h, &d, &d.client);
        if (r >= 0)
                r = sd_event_add_time_relative(d.event, &d.timer, CLOCK_MONOTONIC, 0, 1, on_timer, &d);
        if (r >= 0)
                r = sd_event_loop(d.event);
        (void) libtpu_client_free(d.client);
        (void) sd_event_source_disable_unref(d.timer);
        (void) sd_event_unref(d.event);
        return r < 0 ? 1 : 0;
}
