/* SPDX-License-Identifier: Apache-2.0 */
#include "libtpu_part.h"

#include <assert.h>
#include <math.h>

#include "calls.h"
#include "init_args.h"
#include "json_text.h"
#include "log.h"
#include "texts.h"
#include "utf8.h"

#define CHIPS_MAX 8 /* of a host; as many ports belong to libtpu (init_args.h) */
#define ERROR_TEXT_MAX 400

/* What libtpu reported last of each chip of this host. A chip is what a process calls one: its number counts
 * the process's own chips. */
#define CHIP_ROWS_MAX 64 /* of all processes; more are left out */
#define CHIP_NAME_MAX 16

enum chip_value { CHIP_HBM_USED, CHIP_HBM_TOTAL, CHIP_DUTY_CYCLE, CHIP_IDLE, _CHIP_VALUE_MAX };

struct chip_row {
        unsigned port; /* its process, by its place in the list of ports */
        char chip[CHIP_NAME_MAX];
        double values[_CHIP_VALUE_MAX]; /* bytes, bytes, 0 to 1, seconds; NAN: not reported */
};
struct chip_table {
        size_t n;
        struct chip_row rows[CHIP_ROWS_MAX];
};

struct libtpu_state {
        struct bus *bus;
        struct libtpu_client *client; /* NULL: no port is to be asked */
        struct libtpu_reading reading;
        struct chip_table chips;
        uint16_t ports[LIBTPU_PORTS_MAX];
        size_t n_ports;
        unsigned source; /* the first of one for each metric of each port */
        unsigned rounds[LIBTPU_PORTS_MAX][_LIBTPU_METRIC_MAX]; /* how often each was answered */
        struct {
                bool now;                      /* in the answer that is being read */
                char reported[ERROR_TEXT_MAX]; /* by an event; "": there is none */
        } errors[LIBTPU_PORTS_MAX][2];
        bool troubled[LIBTPU_PORTS_MAX];
};

_Static_assert(SETTINGS_PORTS_MAX == LIBTPU_PORTS_MAX, "what can be configured can be asked");

static unsigned source_of(const struct libtpu_state *l, unsigned port, enum libtpu_metric id) {
        assert(port < LIBTPU_PORTS_MAX && id < _LIBTPU_METRIC_MAX);
        return l->source + port * _LIBTPU_METRIC_MAX + id;
}

/* --- The chips, for people (GET /v1/chips) ------------------------------------------------------------- */

static const struct {
        enum libtpu_metric id;
        enum chip_value value;
} taken[] = {
        { LIBTPU_HBM_USAGE, CHIP_HBM_USED },
        { LIBTPU_HBM_LIMIT, CHIP_HBM_TOTAL },
        { LIBTPU_DUTY_CYCLE, CHIP_DUTY_CYCLE },
        { LIBTPU_IDLE, CHIP_IDLE },
};
_Static_assert(ELEMENTSOF(taken) == _CHIP_VALUE_MAX, "each value comes from one metric");

/* NULL: there is no room for another. */
static struct chip_row *row_of(struct chip_table *t, unsigned port, const char *chip) {
        struct chip_row *row;

        for (size_t i = 0; i < t->n; i++)
                if (t->rows[i].port == port && streq(t->rows[i].chip, chip))
                        return &t->rows[i];
        if (t->n >= CHIP_ROWS_MAX || strlen(chip) >= CHIP_NAME_MAX)
                return NULL;
        row = &t->rows[t->n++];
        row->port = port;
        (void) snprintf(row->chip, sizeof(row->chip), "%s", chip);
        for (size_t i = 0; i < _CHIP_VALUE_MAX; i++)
                row->values[i] = NAN;
        return row;
}

/* One point; metrics that say nothing of a chip's state are passed over. */
static void chip_table_take(struct chip_table *t, unsigned port, enum libtpu_metric id,
                            const struct libtpu_point *p) {
        for (size_t i = 0; i < ELEMENTSOF(taken); i++) {
                struct chip_row *row;

                if (taken[i].id != id)
                        continue;
                row = row_of(t, port, p->values[0]);
                if (row)
                        row->values[taken[i].value] = p->sample.is_int ? (double) p->sample.i : p->sample.d;
        }
}

/* The process is gone, or its answer void. */
static void chip_table_forget(struct chip_table *t, unsigned port) {
        size_t n = 0;

        for (size_t i = 0; i < t->n; i++)
                if (t->rows[i].port != port)
                        t->rows[n++] = t->rows[i];
        t->n = n;
}

static int compare_rows(const void *a, const void *b) {
        const struct chip_row *x = a, *y = b;

        /* Chips are numbers, as a rule. */
        return COMPARE(x->port, y->port) ?: COMPARE(strlen(x->chip), strlen(y->chip)) ?:
                                            strcmp(x->chip, y->chip);
}

static json_t *value_json(double v) {
        return isfinite(v) ? json_real(v) : json_null();
}

/* null: not reported. ports: the numbers of the ports. A new reference; NULL: out of memory. */
static json_t *chip_table_to_json(const struct chip_table *t, const uint16_t *ports) {
        struct chip_table sorted = *t;
        json_t *list = json_array();

        qsort(sorted.rows, sorted.n, sizeof(*sorted.rows), compare_rows);
        for (size_t i = 0; i < sorted.n; i++) {
                const struct chip_row *r = &sorted.rows[i];

                list = json_list_add(
                        list, json_pack("{s:i, s:i, s:s, s:o, s:o, s:o, s:o}", "process", (int) r->port,
                                        "port", (int) ports[r->port], "chip", r->chip, "hbm_used_bytes",
                                        value_json(r->values[CHIP_HBM_USED]), "hbm_total_bytes",
                                        value_json(r->values[CHIP_HBM_TOTAL]), "duty_cycle",
                                        value_json(r->values[CHIP_DUTY_CYCLE]), "idle_seconds",
                                        value_json(r->values[CHIP_IDLE])));
        }
        return list;
}

/* --- Errors that libtpu itself reports ----------------------------------------------------------------- */

static int error_index(enum libtpu_metric id) {
        return id == LIBTPU_MEGASCALE_ERROR ? 0 : id == LIBTPU_SLICE_ERROR ? 1 : -1;
}

static void print_attributes(const struct libtpu_point *p, char text[static ERROR_TEXT_MAX]) {
        text[0] = '\0';
        for (size_t i = 0; i < p->n_attributes; i++)
                text_append(text, ERROR_TEXT_MAX, ", ", "%s=%s", p->attributes[i].key,
                            p->attributes[i].value);
        (void) utf8_scrub(text, strlen(text)); /* it may have been cut inside of a character */
}

static void report_error(struct libtpu_state *l, unsigned port, int index, const struct libtpu_point *p) {
        static const char *const kinds[] = { "megascale", "slice" };
        char *reported = l->errors[port][index].reported;
        const char *type = p->values[0][0] ? p->values[0] : "unknown";
        char text[ERROR_TEXT_MAX];

        print_attributes(p, text);
        l->errors[port][index].now = true;
        if (streq(text, reported))
                return;
        (void) snprintf(reported, ERROR_TEXT_MAX, "%s", text);
        (void) bus_emit(l->bus,
                        EVENT_OF(RUNTIME_ERROR, .kind = kinds[index], .type = type,
                                 .run = host_runs_only(l->bus->runs), .port = l->ports[port], .text = text),
                        NULL);
}

static bool is_set(const struct sample *s) {
        return s->is_int ? s->i != 0 : s->d != 0;
}

/* --- Answers ----------------------------------------------------------------------------------------- */

static void on_point(unsigned port, enum libtpu_metric id, const struct libtpu_point *p, void *userdata) {
        const struct libtpu_def *d = libtpu_def(id);
        struct libtpu_state *l = userdata;
        struct sample m = p->sample;
        int e = error_index(id);
        char process[8];

        (void) snprintf(process, sizeof(process), "%u", port);
        m.keys[0] = "tpu.run.name";
        m.values[0] = host_runs_only(l->bus->runs);
        m.keys[1] = "tpu.process";
        m.values[1] = process;
        for (size_t k = 0; k < LIBTPU_KEYS; k++) {
                m.keys[2 + k] = d->our_keys[k];
                m.values[2 + k] = p->values[k];
        }
        bus_take_sample(l->bus, source_of(l, port, id), l->rounds[port][id] + 1, &m,
                          p->start_real ? p->start_real : l->bus->started_real);
        chip_table_take(&l->chips, port, id, p);
        if (e >= 0 && is_set(&p->sample))
                report_error(l, port, e, p);
}

static void on_answered(unsigned port, enum libtpu_metric id, void *userdata) {
        struct libtpu_state *l = userdata;
        int e = error_index(id);

        l->rounds[port][id]++;
        bus_end_samples(l->bus, source_of(l, port, id), l->rounds[port][id]);
        if (e >= 0) {
                if (!l->errors[port][e].now)
                        l->errors[port][e].reported[0] = '\0';
                l->errors[port][e].now = false;
        }
}

static void forget_port(struct libtpu_state *l, unsigned port) {
        for (enum libtpu_metric id = 0; id < _LIBTPU_METRIC_MAX; id++)
                if (l->rounds[port][id] > 0) {
                        bus_end_samples(l->bus, source_of(l, port, id), l->rounds[port][id] + 1);
                        l->rounds[port][id] = 0;
                }
        memset(l->errors[port], 0, sizeof(l->errors[port]));
        chip_table_forget(&l->chips, port);
}

/* A process that ends is no trouble; one that does not answer is logged once. */
static void on_gone(unsigned port, const char *why, void *userdata) {
        struct libtpu_state *l = userdata;

        forget_port(l, port);
        if (why && !l->troubled[port])
                log_warning("the metrics of the TPU runtime on port %u cannot be had: %s (it is asked more "
                            "seldom; whose port it is: ss -ltnp sport = :%u)",
                            l->ports[port], why, l->ports[port]);
        l->troubled[port] = why != NULL;
}

static void on_round(const struct libtpu_reading *r, void *userdata) {
        ((struct libtpu_state *) userdata)->reading = *r;
}

static void tick_libtpu(void *self) {
        struct libtpu_state *l = self;

        if (l->client)
                libtpu_client_look(l->client, host_now(l->bus->host), host_now_real(l->bus->host),
                                   host_runs_living(l->bus->runs) > 0);
}

/* --- Ports ------------------------------------------------------------------------------------------- */

/* "auto": one for each chip, as TPU_RUNTIME_METRICS_PORTS of runs and of tpu-env; of a folder, none. */
static size_t auto_ports(const struct bus *b, uint16_t ports[static LIBTPU_PORTS_MAX]) {
        uint32_t chips;

        if (!b->host->real_root)
                return 0;
        if (identity_get_u32(&b->identity, IDENTITY_CHIPS, &chips) < 0)
                chips = CHIPS_MAX;
        chips = MIN(chips, (uint32_t) CHIPS_MAX);
        for (uint32_t i = 0; i < chips; i++)
                ports[i] = (uint16_t) (PORT_TPU_METRICS + i);
        return chips;
}

static int make_client(struct libtpu_state *l) {
        const struct libtpu_handlers h = { on_point, on_answered, on_gone, on_round };
        uint16_t ports[LIBTPU_PORTS_MAX] = { 0 };
        size_t n;

        if (streq(l->bus->settings.libtpu_ports, "auto"))
                n = auto_ports(l->bus, ports);
        else
                n = settings_libtpu_ports(l->bus->settings.libtpu_ports, ports);
        if (n == l->n_ports && (n == 0 || memcmp(ports, l->ports, n * sizeof(*ports)) == 0))
                return 0;
        for (unsigned port = 0; port < l->n_ports; port++)
                forget_port(l, port);
        l->client = libtpu_client_free(l->client);
        l->reading = LIBTPU_READING_NULL;
        memcpy(l->ports, ports, n * sizeof(*ports));
        l->n_ports = n;
        return n > 0 ? libtpu_client_new(l->bus->event, ports, n, "tpu-hostd/" TPU_HOSTD_VERSION, &h, l,
                                         &l->client)
                     : 0;
}

/* --- GET /v1/chips ----------------------------------------------------------------------------------- */

static int get_chips(void *self, const struct http_request *r, struct http_reply *ret) {
        const struct libtpu_state *l = self;
        const struct libtpu_reading *last = &l->reading;
        const struct host *h = l->bus->host;

        (void) r;
        return answer_json(ret, 200,
                           json_pack("{s:o, s:s, s:s, s:o}", "looked",
                                     answer_boot_instant(last->at, host_now(h), host_now_real(h)), "run",
                                     host_runs_only(l->bus->runs), "error",
                                     last->error ? last->error_type : "", "chips",
                                     chip_table_to_json(&l->chips, l->ports)));
}

static const struct part_route libtpu_routes[] = {
        { ROUTE("GET", "/v1/chips"), .call = get_chips },
        PART_ROUTES_END,
};

/* --- The part ---------------------------------------------------------------------------------------- */

static int start_libtpu(void *self) {
        struct libtpu_state *l = self;

        l->reading = LIBTPU_READING_NULL;
        l->source = bus_sources(l->bus, LIBTPU_PORTS_MAX * _LIBTPU_METRIC_MAX);
        return make_client(l);
}

static void hear_libtpu(void *self, const struct bus_news *n) {
        struct libtpu_state *l = self;
        bool started = l->source > 0;
        int r = n->topic == BUS_IDENTITY && started ? make_client(l) : 0; /* the ports may be others */

        if (r < 0)
                (void) log_warning_errno(r, "the TPU runtime's metrics cannot be asked for: %m");
}

static void stop_libtpu(void *self) {
        struct libtpu_state *l = self;

        l->client = libtpu_client_free(l->client);
}

const struct part libtpu_part = {
        .name = "libtpu",
        .size = sizeof(struct libtpu_state),
        .routes = libtpu_routes,
        .start = start_libtpu,
        .hear = hear_libtpu,
        .tick = tick_libtpu,
        .stop = stop_libtpu,
};

const struct libtpu_reading *libtpu_reading(const struct bus *b) {
        return &((const struct libtpu_state *) bus_part(b, &libtpu_part))->reading;
}

int libtpu_ask_status(const struct bus *b, void (*done)(const struct libtpu_status *s, void *userdata),
                      void *userdata) {
        const struct libtpu_state *l = bus_part(b, &libtpu_part);

        return l->client ? libtpu_client_status(l->client, done, userdata) : -ENODEV;
}

void libtpu_cancel_status(const struct bus *b) {
        const struct libtpu_state *l = bus_part(b, &libtpu_part);

        if (l->client)
                libtpu_client_cancel_status(l->client);
}
