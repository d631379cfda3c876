/* SPDX-License-Identifier: Apache-2.0 */
#include "run_ports.h"

#include <assert.h>

#include "check_words.h"
#include "environment.h"
#include "init_args.h"
#include "run_record.h"

/* --- Which --------------------------------------------------------------------------------------------- */

struct port_list {
        struct run_port *ports;
        size_t n, visited;
};

static void add_port(struct port_list *l, const char *host, const char *address, uint16_t port,
                     bool coordinators) {
        struct run_port *p = &l->ports[l->n];

        if (l->n == RUN_PORTS_MAX || port == 0)
                return;
        *p = (struct run_port){ .port = port, .coordinators = coordinators };
        (void) snprintf(p->host, sizeof(p->host), "%.63s", host);
        (void) snprintf(p->address, sizeof(p->address), "%.63s", address);
        l->n++;
}

static bool add_mesh(const char *host, const char *address, void *userdata) {
        struct port_list *l = userdata;
        size_t at = ++l->visited;

        if (at <= RUN_PORTS_NEAR || (at & (at - 1)) == 0)
                add_port(l, host, address, PORT_TPU_MESH, false);
        return true;
}

static const char *variable_of(const Run__Spec *spec, const char *name) {
        size_t len = strlen(name);

        for (size_t i = spec->n_env; i > 0; i--) /* the last counts */
                if (strncmp(spec->env[i - 1], name, len) == 0 && spec->env[i - 1][len] == '=')
                        return spec->env[i - 1] + len + 1;
        return NULL;
}

static uint16_t multislice_port(const Run__Spec *spec, uint16_t coordinator) {
        const char *own = variable_of(spec, "MEGASCALE_PORT");
        unsigned long port = own ? strtoul(own, NULL, 10) : 0;

        if (own)
                return port > UINT16_MAX ? 0 : (uint16_t) port;
        return port_of_megascale(variable_of(spec, "LIBTPU_INIT_ARGS"), coordinator,
                                 streq(spec->framework, "ray"));
}

size_t run_ports_of(const json_t *run, const Run__Spec *spec, const char *slice, unsigned worker, bool chips,
                    struct run_port ret[static RUN_PORTS_MAX]) {
        struct port_list l = { .ports = ret };
        struct run_coordinator c;

        run_coordinator_of(run, &c);
        if (c.port > 0 && !run_is_coordinator(run, slice, worker)) {
                add_port(&l, c.host, c.address, c.port, true);
                if (chips && json_array_size(json_object_get(run, "slices")) > 1)
                        add_port(&l, c.host, c.address, multislice_port(spec, c.port), true);
        }
        if (chips)
                run_visit_peers(run, slice, worker, add_mesh, &l);
        return l.n;
}

/* --- What came ----------------------------------------------------------------------------------------- */

static bool is_bad(const struct run_port *p) {
        return p->answered && p->answer != PORT_ANSWERS && p->answer != PORT_REFUSES;
}

static const char *port_text(const struct run_port *p, char *buf, size_t size) {
        const char *owner = port_owner(p->port);

        if (p->coordinators)
                (void) snprintf(buf, size, "the coordinator %.48s (%.48s)", p->host, p->address);
        else
                (void) snprintf(buf, size, "%.48s (%.48s)%s%s%s", p->host, p->address, owner ? ", " : "",
                                owner ? owner : "", owner ? "," : "");
        return buf;
}

/* "; and 2 more: h2:8471, h3:8471" */
static void more_text(const struct run_port *ports, size_t n, const struct run_port *but, char *buf,
                      size_t size) {
        size_t more = 0, len = 0;

        buf[0] = '\0';
        for (size_t i = 0; i < n; i++)
                more += is_bad(&ports[i]) && &ports[i] != but;
        if (more > 0)
                len = (size_t) snprintf(buf, size, "and %zu more:", more);
        for (size_t i = 0; i < n && len + 40 < size; i++)
                if (is_bad(&ports[i]) && &ports[i] != but)
                        len += (size_t) snprintf(buf + len, size - len, " %.30s:%u", ports[i].host,
                                                 ports[i].port);
}

/* What of the routes connect(2) says, in words. */
static const char *no_way_text(int error) {
        switch (error) {
        case EINVAL:
                return "a route of this host is a blackhole";
        case EACCES:
                return "a route or a rule of this host prohibits it";
        case EHOSTUNREACH:
                return "No route to host: its route is unreachable, or nobody answers there";
        default:
                return strerror(error);
        }
}

static void tell_port(const struct run_port *p, const char *name, const char *more, struct finding *ret) {
        char who[160], port[8], seconds[8];

        (void) port_text(p, who, sizeof(who));
        (void) snprintf(port, sizeof(port), "%u", p->port);
        (void) snprintf(seconds, sizeof(seconds), "%u", (unsigned) (RUN_PORTS_TIME / USEC_PER_SEC));
        if (p->answer == PORT_SILENT)
                check_tell(ret, WORDS_PORT_BLOCKED, "", port, who, name, seconds, more, p->host);
        else if (p->answer == PORT_REJECTED)
                check_tell(ret, WORDS_PORT_REJECTED, "", port, who, name, more, p->host);
        else
                check_tell(ret, WORDS_PORT_AWAY, "", who, name, no_way_text(p->error), p->address, more);
}

bool run_ports_judge(const struct run_port *ports, size_t n, const char *name, struct finding *ret) {
        const struct run_port *first = NULL;
        char more[120];

        for (size_t i = 0; i < n && !first; i++)
                if (is_bad(&ports[i]))
                        first = &ports[i];
        if (!first)
                return false;
        more_text(ports, n, first, more, sizeof(more));
        tell_port(first, name, more, ret);
        return true;
}

/* --- Tried --------------------------------------------------------------------------------------------- */

struct run_ports {
        struct run_port ports[RUN_PORTS_MAX];
        struct port_try {
                struct run_ports *all;
                struct port_probe *probe;
        } tries[RUN_PORTS_MAX];
        size_t n, open;
        sd_event_source *end;
        void (*done)(const struct run_port *ports, size_t n, void *userdata);
        void *userdata;
};

static int on_all_tried(sd_event_source *s, void *userdata) {
        struct run_ports *p = userdata;

        (void) s;
        p->done(p->ports, p->n, p->userdata); /* and p may be gone */
        return 0;
}

static void on_tried(enum port_answer a, int error, void *userdata) {
        struct port_try *t = userdata;
        struct run_ports *all = t->all;
        struct run_port *p = &all->ports[t - all->tries];

        p->answered = true;
        p->answer = a;
        p->error = error;
        assert(all->open > 0);
        if (--all->open == 0)
                /* Fails for a source without a loop only. */
                (void) sd_event_source_set_enabled(all->end, SD_EVENT_ONESHOT);
}

int run_ports_new(sd_event *e, const struct run_port *ports, size_t n,
                  void (*done)(const struct run_port *ports, size_t n, void *userdata), void *userdata,
                  struct run_ports **ret) {
        _cleanup_(run_ports_freep) struct run_ports *p = calloc(1, sizeof(*p));
        int r;

        assert(n <= RUN_PORTS_MAX);
        if (!p)
                return -ENOMEM;
        p->n = n;
        p->done = done;
        p->userdata = userdata;
        memcpy(p->ports, ports, n * sizeof(ports[0]));
        r = sd_event_add_defer(e, &p->end, on_all_tried, p);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(p->end, "run-ports");
        for (size_t i = 0; i < n; i++) {
                union path_address to;

                p->tries[i].all = p;
                if (address_parse(p->ports[i].address, &to) == 0 &&
                    port_probe_new(e, NULL, &to, p->ports[i].port, RUN_PORTS_TIME, on_tried, &p->tries[i],
                                   &p->tries[i].probe) >= 0)
                        p->open++; /* else it is no address, or there is no descriptor: not answered */
        }
        if (p->open > 0)
                r = sd_event_source_set_enabled(p->end, SD_EVENT_OFF);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

struct run_ports *run_ports_free(struct run_ports *p) {
        if (!p)
                return NULL;
        p->end = sd_event_source_disable_unref(p->end);
        for (size_t i = 0; i < p->n; i++)
                p->tries[i].probe = port_probe_free(p->tries[i].probe);
        free(p);
        return NULL;
}
