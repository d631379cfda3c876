/* SPDX-License-Identifier: Apache-2.0 */
#include "libtpu_client.h"

#define BUDGET (4 * LIBTPU_MESSAGE_MAX) /* bytes of one exchange */

struct port;

/* Who a question's answer belongs to. */
struct asked {
        struct port *port;
        enum libtpu_metric id;
};

struct port {
        struct libtpu_client *client;
        unsigned index;
        struct grpc_local *grpc;
        bool offered[_LIBTPU_METRIC_MAX];
        struct asked asked[_LIBTPU_METRIC_MAX];
        bool known;                  /* offered was reported since it was connected */
        bool live;                   /* it answered, and gone was not reported since */
        bool refused;                /* nobody listened there when it was asked last */
        usec_t slow_at, quiet_until; /* boot clock: when the slow ones were asked; no question before */
        usec_t backoff;
        unsigned waits; /* answers that are to come */
};

struct libtpu_client {
        sd_event *event;
        sd_event_source *none; /* tells a status that nobody can give */
        struct libtpu_handlers handlers;
        void *userdata;
        struct port ports[LIBTPU_PORTS_MAX];
        size_t n_ports;
        struct libtpu_reader reader;
        struct libtpu_reading reading; /* of the round in progress */
        bool in_round, asking;         /* asking: the round is being begun: it cannot be over */
        usec_t round_at, all_at, now, now_real; /* all_at: when every port was asked last */
        /* live_round: the last in which a process had answered, or was expected */
        uint64_t rounds, live_round, refused;
        int64_t run_id, launch_id;
        struct libtpu_status *status; /* NULL: none is in progress */
        unsigned status_waits;
        void (*status_done)(const struct libtpu_status *s, void *userdata);
        void *status_userdata;
};

/* --- Rounds ------------------------------------------------------------------------------------------ */

static void end_round(struct libtpu_client *c) {
        if (!c->in_round || c->asking)
                return;
        for (size_t i = 0; i < c->n_ports; i++)
                if (c->ports[i].waits > 0)
                        return;
        c->in_round = false;
        c->reading.processes = 0;
        for (size_t i = 0; i < c->n_ports; i++)
                c->reading.processes += c->ports[i].live;
        c->reading.at = c->reading.processes > 0 ? c->now : 0;
        c->reading.run_id = c->run_id;
        c->reading.launch_id = c->launch_id;
        c->handlers.round(&c->reading, c->userdata);
}

static void tell_gone(struct port *p, const char *why) {
        bool was_live = p->live;

        p->known = p->live = false;
        p->slow_at = 0;
        if (was_live || why)
                p->client->handlers.gone(p->index, why, p->client->userdata);
}

/* One that does not answer well is asked more and more seldom. */
static void be_quiet(struct port *p, const char *why) {
        p->backoff = p->backoff ? MIN(2 * p->backoff, LIBTPU_BACKOFF_MAX) : 2 * LIBTPU_INTERVAL;
        p->quiet_until = p->client->now + p->backoff;
        tell_gone(p, why);
}

static void on_closed(int error, const char *why, void *userdata) {
        struct port *p = userdata;

        /* a process that ends closes its connection; that shows by the port being refused, or here */
        if (error == -ECONNRESET || error == -ECONNREFUSED || error == -EPIPE)
                tell_gone(p, NULL);
        else
                be_quiet(p, why);
        end_round(p->client);
}

/* --- Answers ----------------------------------------------------------------------------------------- */

static void on_point(const struct libtpu_point *point, void *userdata) {
        const struct asked *a = userdata;
        struct libtpu_client *c = a->port->client;

        libtpu_reading_take(&c->reading, a->id, point);
        c->handlers.point(a->port->index, a->id, point, c->userdata);
}

/* A metric that cannot be had now has no points; that an answer makes no sense is the process's trouble. */
static void on_metric(int error, const uint8_t *data, size_t len, const char *why, void *userdata) {
        struct asked *a = userdata;
        struct port *p = a->port;
        struct libtpu_client *c = p->client;
        int r = error;

        (void) why;
        p->waits--;
        if (r == 0)
                r = libtpu_metric_read(&c->reader, a->id, data, len, c->now_real, on_point, a);
        if (r >= 0 || r == -EREMOTEIO || r == -ENOTSUP || r == -EBADMSG || r == -E2BIG || r == -EMSGSIZE)
                c->handlers.answered(p->index, a->id, c->userdata);
        end_round(c);
}

/* --- Asking ------------------------------------------------------------------------------------------ */

static int ask(struct port *p, const char *method, const uint8_t *data, size_t len,
               void (*done)(int, const uint8_t *, size_t, const char *, void *), void *userdata) {
        const struct grpc_session_question q = {
                .method = method, .data = data, .len = len, .done = done, .userdata = userdata
        };

        int r = grpc_local_ask(p->grpc, &q);

        if (r == 0)
                p->waits++;
        return r;
}

static unsigned live(const struct libtpu_client *c) {
        unsigned n = 0;

        for (size_t i = 0; i < c->n_ports; i++)
                n += c->ports[i].live;
        return n;
}

/*
 * Where there are several processes each is asked about itself alone; libtpu else tells each what it knows
 * of all. With one, the question is the one that Google's own clients ask.
 */
static void ask_metrics(struct port *p) {
        bool alone = live(p->client) <= 1,
             slow = p->slow_at == 0 || p->client->now >= p->slow_at + LIBTPU_SLOW_INTERVAL;
        uint8_t buf[LIBTPU_REQUEST_MAX];

        for (enum libtpu_metric id = 0; id < _LIBTPU_METRIC_MAX; id++)
                if (p->offered[id] && (slow || libtpu_def(id)->kind == SAMPLE_GAUGE))
                        (void) ask(p, LIBTPU_METHOD_METRIC, buf, libtpu_metric_request(id, !alone, buf),
                                   on_metric, &p->asked[id]);
        if (slow)
                p->slow_at = p->client->now;
}

static void on_list(int error, const uint8_t *data, size_t len, const char *why, void *userdata) {
        struct port *p = userdata;
        struct libtpu_client *c = p->client;
        bool before[_LIBTPU_METRIC_MAX], first = !p->known;
        int r = error;

        p->waits--;
        memcpy(before, p->offered, sizeof(before));
        if (r == 0)
                r = libtpu_list_read(&c->reader, data, len, p->offered);
        if (r == 0) {
                p->known = p->live = true;
                p->backoff = 0;
                for (enum libtpu_metric id = 0; id < _LIBTPU_METRIC_MAX; id++)
                        if (before[id] && !p->offered[id])
                                c->handlers.answered(p->index, id, c->userdata);
                if (first) {
                        ask_metrics(p);
                        grpc_local_send(p->grpc);
                }
        } else if (r == -ENOTSUP || r == -EREMOTEIO || r == -EBADMSG || r == -E2BIG || r == -EMSGSIZE)
                be_quiet(p, error < 0 ? why : "what it offers cannot be read");
        end_round(c);
}

static void ask_list(struct port *p) {
        uint8_t buf[LIBTPU_REQUEST_MAX];

        (void) ask(p, LIBTPU_METHOD_LIST, buf, libtpu_list_request(buf), on_list, p); /* else next time */
}

/* libtpu offers more as the program goes on. */
static void look_at(struct port *p) {
        int r;

        if (p->client->now < p->quiet_until || p->waits > 0)
                return;
        r = grpc_local_open(p->grpc);
        p->refused = r == -ECONNREFUSED;
        p->client->refused += p->refused;
        if (p->refused)
                return tell_gone(p, NULL);
        if (r < 0)
                return be_quiet(p, strerror(-r));
        if (!p->known || p->client->now >= p->slow_at + LIBTPU_SLOW_INTERVAL)
                ask_list(p);
        if (p->known)
                ask_metrics(p);
        grpc_local_send(p->grpc);
}

/* Whether a round asks also those further ports where nobody listened: see libtpu_client.h. */
static bool asks_all(struct libtpu_client *c) {
        if (c->all_at > 0 && c->now < c->all_at + LIBTPU_SLOW_INTERVAL && live(c) == 0)
                return false;
        c->all_at = c->now;
        return true;
}

static bool asks_first(struct libtpu_client *c, bool expected) {
        if (expected || live(c) > 0)
                c->live_round = c->rounds;
        return c->rounds - c->live_round <= LIBTPU_QUIET_ROUNDS || c->rounds % 3 == 0;
}

void libtpu_client_look(struct libtpu_client *c, usec_t now, usec_t now_real, bool expected) {
        bool first, all;

        if (c->in_round || (c->round_at > 0 && now < c->round_at + LIBTPU_INTERVAL))
                return;
        c->round_at = c->now = now;
        c->now_real = now_real;
        c->rounds++;
        c->reading = LIBTPU_READING_NULL;
        c->in_round = c->asking = true;
        first = asks_first(c, expected);
        all = first && asks_all(c);
        for (size_t i = 0; i < c->n_ports; i++)
                if (all || (i == 0 && first) || !c->ports[i].refused)
                        look_at(&c->ports[i]);
        c->asking = false;
        end_round(c);
}

/* --- Status ------------------------------------------------------------------------------------------ */

static void keep_ids(struct libtpu_client *c, const struct libtpu_status *s) {
        c->run_id = c->launch_id = -1;
        for (size_t i = 0; i < s->n; i++) {
                c->run_id = c->run_id < 0 ? s->cores[i].run : MIN(c->run_id, s->cores[i].run);
                c->launch_id = c->launch_id < 0 ? s->cores[i].launch : MIN(c->launch_id, s->cores[i].launch);
        }
}

static void end_status(struct libtpu_client *c) {
        _cleanup_free_ struct libtpu_status *s = NULL;

        if (!c->status || c->status_waits > 0)
                return;
        s = TAKE_PTR(c->status); /* done may ask for the next one */
        keep_ids(c, s);
        c->status_done(s, c->status_userdata);
}

static void on_status(int error, const uint8_t *data, size_t len, const char *why, void *userdata) {
        struct port *p = userdata;
        struct libtpu_client *c = p->client;
        int r = error;

        p->waits--;
        if (c->status_waits > 0)
                c->status_waits--;
        if (r == 0 && c->status) /* NULL: cancelled */
                r = libtpu_status_read(&c->reader, data, len, c->status);
        if (r < 0 && c->status && !c->status->why[0])
                (void) snprintf(c->status->why, sizeof(c->status->why), "%s",
                                error < 0 ? why : "the answer cannot be read");
        end_status(c);
        end_round(c);
}

static int on_none(sd_event_source *source, void *userdata) {
        (void) source;
        end_status(userdata);
        return 0;
}

static void ask_status(struct port *p) {
        struct libtpu_client *c = p->client;
        uint8_t buf[LIBTPU_REQUEST_MAX];
        int r = grpc_local_open(p->grpc);

        if (r == -EBUSY) /* asked for while we tell that the connection has ended */
                (void) snprintf(c->status->why, sizeof(c->status->why),
                                "the connection to libtpu has just ended");
        if (r < 0)
                return;
        c->status_waits++;
        if (ask(p, LIBTPU_METHOD_STATUS, buf, libtpu_status_request(buf), on_status, p) < 0)
                c->status_waits--;
}

int libtpu_client_status(struct libtpu_client *c,
                         void (*done)(const struct libtpu_status *s, void *userdata), void *userdata) {
        if (c->status || c->status_waits > 0)
                return -EBUSY;
        c->status = calloc(1, sizeof(*c->status));
        if (!c->status)
                return -ENOMEM;
        c->status_done = done;
        c->status_userdata = userdata;
        for (size_t i = 0; i < c->n_ports; i++)
                ask_status(&c->ports[i]);
        if (c->status_waits == 0) {
                if (!c->status->why[0])
                        (void) snprintf(c->status->why, sizeof(c->status->why),
                                        "no process of this host offers libtpu's metrics");
                return sd_event_source_set_enabled(c->none, SD_EVENT_ONESHOT);
        }
        c->status_waits++; /* an end that comes while they are sent is reported afterwards */
        for (size_t i = 0; i < c->n_ports; i++)
                grpc_local_send(c->ports[i].grpc);
        if (--c->status_waits == 0)
                return sd_event_source_set_enabled(c->none, SD_EVENT_ONESHOT);
        return 0;
}

void libtpu_client_cancel_status(struct libtpu_client *c) {
        free(TAKE_PTR(c->status)); /* the answers that still come are passed over */
        (void) sd_event_source_set_enabled(c->none, SD_EVENT_OFF);
}

/* --- Life -------------------------------------------------------------------------------------------- */

void libtpu_client_stats(const struct libtpu_client *c, struct libtpu_stats *ret) {
        *ret = (struct libtpu_stats){
                .rounds = c->rounds, .left_out = c->reader.left_out, .refused = c->refused, .live = live(c)
        };
        for (size_t i = 0; i < c->n_ports; i++) {
                const struct grpc_local_traffic *t = grpc_local_traffic(c->ports[i].grpc);

                ret->traffic.calls += t->calls;
                ret->traffic.exchanges += t->exchanges;
                ret->traffic.connections += t->connections;
                ret->traffic.sent += t->sent;
                ret->traffic.received += t->received;
        }
}

static int add_port(struct libtpu_client *c, uint16_t number, const char *user_agent) {
        struct port *p = &c->ports[c->n_ports];
        const struct grpc_local_options o = { .name = "libtpu",
                                              .user_agent = user_agent,
                                              .port = number,
                                              .message_max = LIBTPU_MESSAGE_MAX,
                                              .budget = BUDGET,
                                              .timeout = LIBTPU_TIMEOUT,
                                              .closed = on_closed,
                                              .userdata = p };
        int r;

        p->client = c;
        p->index = (unsigned) c->n_ports;
        for (enum libtpu_metric id = 0; id < _LIBTPU_METRIC_MAX; id++)
                p->asked[id] = (struct asked){ .port = p, .id = id };
        r = grpc_local_new(c->event, &o, &p->grpc);
        if (r == 0)
                c->n_ports++;
        return r;
}

int libtpu_client_new(sd_event *e, const uint16_t *ports, size_t n, const char *user_agent,
                      const struct libtpu_handlers *h, void *userdata, struct libtpu_client **ret) {
        _cleanup_(libtpu_client_freep) struct libtpu_client *c = calloc(1, sizeof(*c));
        int r = 0;

        if (!c)
                return -ENOMEM;
        c->event = sd_event_ref(e);
        c->handlers = *h;
        c->userdata = userdata;
        c->run_id = c->launch_id = -1;
        libtpu_reader_init(&c->reader);
        for (size_t i = 0; r == 0 && i < MIN(n, (size_t) LIBTPU_PORTS_MAX); i++)
                r = add_port(c, ports[i], user_agent);
        if (r == 0)
                r = sd_event_add_defer(e, &c->none, on_none, c);
        if (r >= 0)
                r = sd_event_source_set_enabled(c->none, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->none, "libtpu-none");
        *ret = TAKE_PTR(c);
        return 0;
}

struct libtpu_client *libtpu_client_free(struct libtpu_client *c) {
        if (!c)
                return NULL;
        c->none = sd_event_source_disable_unref(c->none);
        for (size_t i = 0; i < c->n_ports; i++)
                (void) grpc_local_free(c->ports[i].grpc);
        c->status_waits = 0;
        end_status(c);
        libtpu_reader_clear(&c->reader);
        c->event = sd_event_unref(c->event);
        free(c);
        return NULL;
}
