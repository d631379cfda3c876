/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/random.h>

#include "check_words.h"
#include "lane.h"
#include "loop_timer.h"
#include "nic_setting.h"
#include "path_plan.h"
#include "pathproof.h"
#include "resolve.h"
#include "tcp_connections.h"

#define PORT_TRIES_MAX 512 /* a process has 1024 descriptors */
#define BURST 16 /* packets between two looks at the answers: their jumbo buffers must fit the sockets' */
#define CONNECTIONS_BYTES (4 * 1024 * 1024) /* of the kernel's answer: some ten thousand */
#define PING_GROUPS "/proc/sys/net/ipv4/ping_group_range"

struct pathproof {
        sd_event *event; /* borrowed, as host */
        const struct host *host;
        bool asked_for;
        void (*done)(struct path_report *r, void *userdata);
        void *userdata;

        struct link_table links;
        struct path_plan plan; /* from the routes on, of paths that can be tried alone: each is a target */
        struct resolver *resolver;
        struct path_report report;
        struct qdisc_table qdiscs; /* as they were before the first packet */
        usec_t started;

        struct start { /* one of our addresses */
                union path_address source;
                struct lane *lane;
                sd_event_source *io[2];
        } starts[PROOF_LANES_MAX];
        size_t n_starts;
        struct proof_target *targets;
        struct proof *proof;
        struct port_try { /* of each path, then of each of our addresses from this host itself */
                struct pathproof *all;
                struct port_probe *probe;
                struct path_port port;
        } *tries;
        size_t n_tries, tries_open;
        struct own_drops drops; /* as they were before the first packet */
        bool proven;            /* no more packets: the tries are waited for */
        sd_event_source *timer;
};

struct pathproof *pathproof_free(struct pathproof *p) {
        if (!p)
                return NULL;
        (void) sd_event_source_disable_unref(p->timer);
        for (size_t i = 0; i < p->n_starts; i++) {
                (void) sd_event_source_disable_unref(p->starts[i].io[0]);
                (void) sd_event_source_disable_unref(p->starts[i].io[1]);
                (void) lane_free(p->starts[i].lane);
        }
        (void) resolver_free(p->resolver);
        (void) proof_free(p->proof);
        path_plan_clear(&p->plan);
        link_table_clear(&p->links);
        path_report_clear(&p->report);
        qdisc_table_clear(&p->qdiscs);
        for (size_t i = 0; i < p->n_tries; i++)
                (void) port_probe_free(p->tries[i].probe);
        free(p->tries);
        free(p->targets);
        free(p);
        return NULL;
}

/* --- The end ------------------------------------------------------------------------------------------- */

/* Ends the run; p may be gone afterwards. */
static void finish_proof(struct pathproof *p) {
        if (host_name(p->host, p->report.host) < 0)
                p->report.host[0] = '\0';
        (void) clock_text(host_now_real(p->host), p->report.time);
        p->report.duration = host_now(p->host) - p->started;
        p->done(&p->report, p->userdata);
}

/* Of the whole run, without a path. */
static int add_run_finding(struct pathproof *p, struct finding *f, const char *found) {
        finding_set(f->found, "%s", found);
        return finding_list_add(&p->report.findings, f);
}

static int could_not(struct pathproof *p, int error) {
        char range[64], group[16];
        struct finding f;

        if (error != -EACCES) {
                check_tell(&f, WORDS_PATH_NOT_TRIED, NULL,
                           error == -E2BIG ? "too many paths: name fewer peers" : strerror(-error));
                return add_run_finding(p, &f, "not tried");
        }
        if (host_read(p->host, PING_GROUPS, range, sizeof(range), NULL) < 0)
                (void) snprintf(range, sizeof(range), "not readable");
        (void) snprintf(group, sizeof(group), "%u", (unsigned) getegid());
        check_tell(&f, WORDS_PATH_NO_PING, NULL, range, group);
        return add_run_finding(p, &f, "not tried: ping sockets are not permitted");
}

static int nothing_to_try(struct pathproof *p, bool any_peer) {
        struct finding f;

        if (p->report.findings.n > 0)
                return 0;
        check_tell(&f, any_peer ? WORDS_PATH_NONE : WORDS_PATH_NO_PEER, NULL);
        return add_run_finding(p, &f,
                           any_peer ? "no peer but this host: there is no path to prove"
                                    : "not tried: no peer is known");
}

/* --- Proving ------------------------------------------------------------------------------------------- */

static void drain_lanes(struct pathproof *p) {
        struct lane_answer a;

        for (size_t i = 0; p->proof && i < p->n_starts; i++)
                while (lane_receive(p->starts[i].lane, &a) > 0)
                        if (a.packet.target < p->plan.n &&
                            address_equal(&a.from, &p->plan.paths[a.packet.target].what.to))
                                proof_answered(p->proof, &a.packet, a.fragment);
}

/* One line a NIC that holds back what it sends, whatever the paths say. */
static void add_qdiscs(struct pathproof *p, const struct qdisc_table *now) {
        for (size_t i = 0; i < p->links.n; i++) {
                const struct link *l = &p->links.links[i];
                bool used = false;
                struct finding f;

                for (size_t k = 0; k < p->plan.n; k++) {
                        struct path_result *what = &p->plan.paths[k].what;

                        if (!streq(what->nic, l->name))
                                continue;
                        path_view_add_qdisc(&what->view, l->index, &p->qdiscs, now);
                        used = true;
                }
                if (used && nic_qdisc_judge(now, l, &f) && f.verdict != VERDICT_OK)
                        (void) finding_list_add(&p->report.findings, &f); /* no memory: the paths stay */
        }
}

static int take_connection(const struct tcp_connection *c, void *userdata) {
        struct pathproof *p = userdata;

        for (size_t i = 0; i < p->plan.n; i++) {
                struct path_result *r = &p->plan.paths[i].what;

                if (path_view_is_of(c, &r->from, &r->to))
                        path_view_add_connection(&r->view, c);
        }
        return 0;
}

/* Real connections to the peers say what the kernel holds them to; without them the route does. */
static void add_connections(struct pathproof *p) {
        const struct tcp_query established = { .states = TCP_ESTABLISHED_BIT,
                                               .with_info = true,
                                               .max = CONNECTIONS_BYTES };

        /* More than that, or none at all: nothing is said of them. */
        (void) tcp_connections_read(p->host, &established, take_connection, p);
}

/*
 * Whether lost packets alone may have silenced a port: the chance that both of its two tries were lost, on
 * one path of all, by the share of small echoes that were. A path that answers nothing is no lossy one.
 */
static bool loss_may_silence(const struct pathproof *p) {
        double echoes = 0, lost = 0;

        for (size_t i = 0; i < p->plan.n; i++) {
                struct proof_result r;

                proof_result(p->proof, i, &r);
                if (r.lost < r.echoes) {
                        echoes += r.echoes;
                        lost += r.lost;
                }
        }
        return echoes > 0 && (double) p->plan.n * (lost / echoes) * (lost / echoes) > 0.001;
}

/* What came of the ports: of one that was silent, whether this host threw it away itself. */
static void add_ports(struct pathproof *p) {
        bool lossy = loss_may_silence(p);
        struct own_drops now;
        const char *words;

        own_drops_read(p->host, &now);
        words = own_drops_words(&p->drops, &now);
        for (size_t i = 0; i < p->n_tries; i++) {
                struct path_port *port = &p->tries[i].port;

                if (port->tried && port->answer == PORT_SILENT)
                        port->dropped_by = words;
                port->lossy = lossy;
                if (i < p->plan.n)
                        p->plan.paths[i].what.port = *port;
        }
}

/* From one of our addresses to itself: what drops that drops what peers send. */
static void add_inward(struct pathproof *p) {
        for (size_t i = p->plan.n; i < p->n_tries; i++) {
                const struct path_port *port = &p->tries[i].port;
                char address[ADDRESS_TEXT_MAX], number[8];
                struct finding f;

                if (!port->tried || port->answer == PORT_ANSWERS || port->answer == PORT_REFUSES)
                        continue;
                (void) snprintf(number, sizeof(number), "%d", PATH_PORT);
                (void) address_text(&p->starts[i - p->plan.n].source, address);
                check_tell(&f, WORDS_PATH_TCP_INWARD, address, number, address);
                (void) add_run_finding(p, &f, "no answer"); /* no memory: the paths stay */
        }
}

static void judge_paths(struct pathproof *p) {
        _cleanup_qdiscs_ struct qdisc_table now = QDISC_TABLE_NULL;

        add_ports(p);
        add_inward(p);
        add_connections(p);
        if (qdiscs_read(p->host, &now) == 0)
                add_qdiscs(p, &now);
        for (size_t i = 0; i < p->plan.n; i++) {
                struct path_result *r = &p->plan.paths[i].what;
                const struct link *nic;

                proof_result(p->proof, i, &r->proof);
                nic = link_by_name(&p->links, r->nic);
                if (r->proof.answer == PROOF_SILENT && nic)
                        path_view_add_hop(&r->view, p->host, nic->index, &r->to);
                if (path_report_add(&p->report, r) < 0)
                        break; /* no memory: fewer results than paths */
        }
        finish_proof(p);
}

static int on_next_packet(sd_event_source *s, uint64_t usec, void *userdata) {
        struct pathproof *p = userdata;
        struct proof_packet packet;
        usec_t wake = 0;

        (void) s;
        (void) usec;
        drain_lanes(p);
        for (unsigned sent = 1; proof_next(p->proof, host_now(p->host), &packet, &wake) > 0; sent++) {
                int r = lane_send(p->starts[p->targets[packet.target].lane].lane,
                                  &p->plan.paths[packet.target].what.to, &packet);

                p->report.packets++;
                if (r < 0 && r != -EAGAIN)
                        proof_refused(p->proof, &packet, r);
                if (sent % BURST == 0)
                        drain_lanes(p);
        }
        p->proven = wake == USEC_INFINITY;
        if (p->proven && p->tries_open == 0)
                judge_paths(p); /* p may be gone */
        if (wake == USEC_INFINITY)
                return 0;
        (void) loop_timer_at(p->timer, wake); /* fails only when the loop ends */
        return 0;
}

static int on_answer(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        struct pathproof *p = userdata;

        (void) s;
        (void) fd;
        (void) events;
        drain_lanes(p);
        /* The last answer may have settled everything; what is next is asked soon, not within this
         * handler. */
        (void) loop_timer_at(p->timer, 0);
        return 0;
}

/* --- Starting ------------------------------------------------------------------------------------------ */

static int watch_socket(struct pathproof *p, int fd, sd_event_source **ret) {
        int r = sd_event_add_io(p->event, ret, fd, EPOLLIN, on_answer, p);

        return r < 0 ? r : sd_event_source_set_description(*ret, "path: answers");
}

/* The lane of a source, made where there is none yet. */
static int find_lane(struct pathproof *p, const union path_address *source, unsigned *ret) {
        struct start *s = p->starts;
        uint64_t secret;
        int r;

        while (s < p->starts + p->n_starts && !address_equal(&s->source, source))
                s++;
        *ret = (unsigned) (s - p->starts);
        if (*ret < p->n_starts)
                return 0;
        if (p->n_starts == PROOF_LANES_MAX)
                return -E2BIG;
        if (getrandom(&secret, sizeof(secret), 0) != (ssize_t) sizeof(secret))
                return -EIO;
        r = lane_new(source, secret, &s->lane);
        if (r < 0)
                return r;
        s->source = *source;
        p->n_starts++;
        r = watch_socket(p, lane_ping_fd(s->lane), &s->io[0]);
        return r < 0 ? r : watch_socket(p, lane_udp_fd(s->lane), &s->io[1]);
}

static void on_port(enum port_answer a, int error, void *userdata) {
        struct port_try *t = userdata;
        struct pathproof *p = t->all;

        t->port = (struct path_port){ .tried = true, .answer = a, .error = error };
        assert(p->tries_open > 0);
        if (--p->tries_open > 0 || !p->proven)
                return;
        /* Not from within the probe's own call. */
        (void) loop_timer_at(p->timer, 0);
}

/* One that cannot be made is not tried: of so many paths that descriptors run out, the last. */
static int start_ports(struct pathproof *p) {
        p->n_tries = p->plan.n + p->n_starts;
        p->tries = calloc(p->n_tries, sizeof(*p->tries));
        if (!p->tries)
                return -ENOMEM;
        own_drops_read(p->host, &p->drops);
        for (size_t i = 0; i < MIN(p->n_tries, (size_t) PORT_TRIES_MAX); i++) {
                struct port_try *t = &p->tries[i];
                const union path_address *from = i < p->plan.n ? &p->plan.paths[i].what.from :
                                                                 &p->starts[i - p->plan.n].source;

                t->all = p;
                if (port_probe_new(p->event, from, i < p->plan.n ? &p->plan.paths[i].what.to : from,
                                   PATH_PORT, PATHPROOF_PORTS_TIME, on_port, t, &t->probe) == 0)
                        p->tries_open++;
        }
        return 0;
}

/* 0: it goes on from the loop. */
static int start_proof(struct pathproof *p) {
        int r = 0;

        if (p->plan.n > PROOF_TARGETS_MAX)
                return -E2BIG;
        p->targets = calloc(p->plan.n, sizeof(*p->targets));
        p->report.results = calloc(p->plan.n, sizeof(*p->report.results));
        if (!p->targets || !p->report.results)
                return -ENOMEM;
        for (size_t i = 0; i < p->plan.n && r >= 0; i++) {
                p->targets[i].full = p->plan.paths[i].what.mtu;
                r = find_lane(p, &p->plan.paths[i].what.from, &p->targets[i].lane);
        }
        if (r >= 0)
                r = start_ports(p);
        if (r >= 0)
                r = proof_new(p->targets, p->plan.n, &p->proof);
        if (r >= 0)
                r = loop_timer_new(p->event, CLOCK_BOOTTIME, USEC_PER_MSEC, "path: next packet",
                                   on_next_packet, p, &p->timer);
        return r < 0 ? r : loop_timer_at(p->timer, 0);
}

static void on_names(void *userdata) {
        struct pathproof *p = userdata;
        bool any_peer = p->plan.n > 0;
        int r = path_plan_route(&p->plan, p->host, &p->links, p->asked_for, &p->report.findings);

        if (r == 0 && p->plan.n > 0)
                r = start_proof(p);
        else if (r == 0)
                r = nothing_to_try(p, any_peer);
        /* Without memory for one finding, the empty list says that nothing is known. */
        if (r < 0)
                (void) could_not(p, r);
        if (r < 0 || p->plan.n == 0)
                finish_proof(p);
}

int pathproof_new(sd_event *e, const struct host *h, const struct intent *intent,
                  const struct path_peers *peers, bool asked_for,
                  void (*done)(struct path_report *r, void *userdata), void *userdata,
                  struct pathproof **ret) {
        _cleanup_(pathproof_freep) struct pathproof *p = calloc(1, sizeof(*p));
        int r;

        if (!p)
                return -ENOMEM;
        *p = (struct pathproof){
                .event = e, .host = h, .asked_for = asked_for, .done = done, .userdata = userdata
        };
        if (!h->real_root)
                return -EOPNOTSUPP;
        p->started = host_now(h);
        (void) qdiscs_read(h, &p->qdiscs); /* without them nothing is said of drops */
        r = links_read(h, &p->links);
        if (r == 0)
                r = path_plan_make(&p->links, intent, peers, &p->plan);
        if (r == 0)
                r = resolver_new(e, &p->plan, PATHPROOF_NAMES_TIME, on_names, p, &p->resolver);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}
