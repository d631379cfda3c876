/* SPDX-License-Identifier: Apache-2.0 */
#include "net_state.h"

#include "bpf_part.h"
#include "flow_samples.h"
#include "flow_words.h"
#include "log.h"
#include "net_drops.h"
#include "tcp_figures.h"

#define SETTLE_AGAIN (60 * USEC_PER_SEC)     /* routes, addresses and the slice change without a word */
#define CAPTURED_MAX 8                           /* bad links of a capture */
#define DROPS_MANY 100                       /* packets in an interval, of one reason at one place */
#define DROPS_AGAIN (600 * USEC_PER_SEC)

/* --- Events ------------------------------------------------------------------------------------------- */

static void report_bad_links(struct net_state *n, size_t bad) {
        const struct flow_link *l = flow_next_bad(&n->flows, NULL);
        char text[FLOW_TEXT_MAX], peer[FLOW_NAME_MAX], address[FLOW_NAME_MAX];

        flow_summary(&n->flows, text);
        (void) bus_emit(n->bus,
                          EVENT_OF(NET_LINK_BAD, .run = n->flows.runs[l->run],
                                   .nic = n->flows.nics[l->nic].name, .peer = flow_peer_text(l, peer),
                                   .address = flow_address_text(l->family, l->peer, address),
                                   .links = (int64_t) bad, .timeouts = (int64_t) l->now.timeouts,
                                   .retransmits = (int64_t) l->now.retransmits, .text = text),
                          NULL);
}

/* One for all that turn bad in a tick, and one when the last is well. */
static void report_changes(struct net_state *n) {
        size_t bad = 0, new = 0;

        for (size_t i = 0; i < n->flows.n_links; i++) {
                const struct flow_link *l = &n->flows.links[i];

                bad += l->used && l->bad;
                new += l->used && l->bad && l->bad_since == n->flows.at;
        }
        if (new > 0)
                report_bad_links(n, bad);
        else if (bad == 0 && n->bad > 0)
                (void) bus_emit(n->bus, EVENT_OF(NET_LINKS_GOOD, .links = (int64_t) n->bad), NULL);
        n->bad = bad;
}

static void report_drops(struct bus *b, const struct net_figures *f, const struct net_drop *d,
                       uint64_t packets, usec_t interval) {
        const struct net_drop_meaning *m = net_drop_meaning(f, d);
        char place[NET_SYMBOL];

        net_drop_place(d, place);
        (void) bus_emit(b,
                          EVENT_OF(PACKETS_DROPPED, .reason = m->reason, .place = place,
                                   .packets = (int64_t) MIN(packets, (uint64_t) INT64_MAX),
                                   .interval_usec = (int64_t) MIN(interval, (usec_t) INT64_MAX),
                                   .meaning = m->meaning, .remedy = m->remedy),
                          NULL);
}

static void look_at_drops(struct net_state *n, const struct net_figures *f, usec_t now) {
        for (size_t i = 0; i < NET_DROPS; i++) {
                const struct net_drop *d = &f->dropped[i];
                struct net_drop_seen *seen = &n->drops[i];
                uint64_t packets, more;

                if (__atomic_load_n(&f->drop_use[i], __ATOMIC_ACQUIRE) != NET_USED)
                        continue;
                if (seen->reason != d->reason || seen->location != d->location)
                        *seen = (struct net_drop_seen){ .reason = d->reason, .location = d->location };
                packets = net_drop_packets(f, i);
                more = packets - MIN(packets, seen->packets);
                seen->packets = packets;
                if (n->drops_looked == 0 || more < DROPS_MANY || !net_drop_meaning(f, d) ||
                    (seen->told > 0 && now - seen->told < DROPS_AGAIN))
                        continue;
                seen->told = now;
                report_drops(n->bus, f, d, more, now - n->drops_looked);
        }
        n->drops_looked = now;
}

/* --- The dump ----------------------------------------------------------------------------------------- */

static int take_connection(const struct tcp_connection *c, void *userdata) {
        struct net_state *n = userdata;
        int r = flows_take(&n->flows, c, net_place_of, n->places);

        return r == -ENOSPC ? 0 : r; /* counted, and reported as tpu.net.left_out */
}

static void read_limit(struct net_state *n) {
        char text[96];
        uint64_t most;

        if (host_read(n->bus->host, "/proc/sys/net/ipv4/tcp_rmem", text, sizeof(text), NULL) < 0 ||
            sscanf(text, "%*u %*u %" SCNu64, &most) != 1)
                most = 0;
        n->flows.receive_max = most;
}

static void look_at_sockets(struct net_state *n, usec_t now) {
        const struct tcp_query query = {
                .states = TCP_SOCKET_STATES, .with_info = true, .with_memory = true, .max = NET_DUMP_MAX
        };
        int r;

        flows_begin(&n->flows, now);
        r = tcp_watched_read(n->sockets, n->bus->host, &query, now, take_connection, n);
        flows_end(&n->flows, r > 0);
        if (r < 0 && !n->failed)
                (void) log_warning_errno(
                        r, "the TCP connections of this host cannot be looked at, the network of runs is "
                           "not watched: %m");
        n->failed = r < 0;
        (void) snprintf(n->why_not, sizeof(n->why_not), "%s", r < 0 ? strerror(-r) : "");
}

/* Runs that started after us, and none before: nothing of theirs is from before the first look. */
static void begin_counting(struct net_state *n) {
        const struct host_runs *l = n->bus->runs;
        usec_t now_real = host_now_real(n->bus->host), now = host_now(n->bus->host), first = now_real;

        for (size_t i = 0; i < l->n; i++)
                if (host_run_lives(&l->runs[i]))
                        first = MIN(first, l->runs[i].started_real);
        n->since_real = now_real;
        if (first < n->bus->started_real || first == now_real || now_real - first >= now)
                return;
        n->since_real = first;
        flows_since(&n->flows, now - (now_real - first));
}

static void switch_on(struct net_state *n, bool on) {
        if (on && !n->on)
                begin_counting(n);
        if (!on && n->on) {
                flows_pause(&n->flows);
                tcp_watched_forget(n->sockets);
                n->bad = 0;
        }
        n->on = on;
}

static void look_at_network(struct net_state *n, usec_t now) {
        const struct net_figures *figures = bpf_net_figures(n->bus);
        bool again;

        switch_on(n, net_places_take_runs(n->places, n->on));
        again = n->on && (n->settled == 0 || now - n->settled >= SETTLE_AGAIN);
        if (again) {
                n->settled = now;
                read_limit(n);
                flows_ask_again(&n->flows);
        }
        net_places_begin(n->places, again);
        if (n->on)
                look_at_sockets(n, now);
        if (figures) {
                flows_take_events(&n->flows, figures, net_place_of_entry, n->places);
                look_at_drops(n, figures, now);
        }
        net_places_settle(n->places);
        if (n->on)
                report_changes(n);
}

/* Counters of sockets count from since_real on, those of BPF since tpu-hostd started. */
static void sample_net(void *self, struct bus_sink *s) {
        struct net_state *n = self;
        const struct net_figures *figures = bpf_net_figures(n->bus);

        look_at_network(n, host_now(n->bus->host));
        net_looks_tick(n->looks);
        if (figures) {
                flow_event_samples(&n->flows, &s->sink);
                net_drop_samples(figures, &s->sink);
        }
        s->start_real = n->since_real;
        if (n->on)
                flow_samples(&n->flows, &s->sink);
}

void net_tell_links(const struct bus *b, struct finding_list *list) {
        const struct net_state *n = bus_part(b, &net_part);
        int r = n->on ? flow_tell(&n->flows, CAPTURED_MAX, list) : 0;

        if (r < 0)
                (void) log_debug_errno(r, "bad links are left out of the capture: %m");
}

/* --- The part ----------------------------------------------------------------------------------------- */

static int start_net(void *self) {
        struct net_state *n = self;
        int r = flows_init(&n->flows);

        if (r >= 0)
                r = net_places_new(n->bus, &n->flows, &n->places);
        if (r >= 0)
                r = net_looks_new(n, &n->looks);
        if (r >= 0)
                r = tcp_watched_new(&n->sockets);
        return r < 0 ? log_error_errno(r, "the network of runs cannot be watched: %m") : 0;
}

static void stop_net(void *self) {
        struct net_state *n = self;

        n->sockets = tcp_watched_free(n->sockets);
        n->looks = net_looks_free(n->looks);
        n->places = net_places_free(n->places);
        flows_clear(&n->flows);
}

static void hear_net(void *self, const struct bus_news *n) {
        if (n->topic == BUS_SUSPICION)
                net_hear_suspicion(self, n->suspicion.run, n->suspicion.now);
        if (n->topic == BUS_RECORD && n->record.value && n->record.fresh &&
            startswith(n->record.key, "capture/"))
                net_hear_request(self, n->record.value);
}

static const struct part_route routes[] = {
        { ROUTE_WITH("GET", "/v1/net", ARGUMENTS(TAKES_SOME("peer"))), .call = get_net },
        PART_ROUTES_END,
};

const struct part net_part = {
        .name = "net",
        .size = sizeof(struct net_state),
        .routes = routes,
        .start = start_net,
        .sample = sample_net,
        .hear = hear_net,
        .stop = stop_net,
};
