/* SPDX-License-Identifier: Apache-2.0 */
#include "flows.h"

#include <assert.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include "flow_memory.h"
#include "flow_words.h"
#include "grow.h"
#include "tcp_figures.h"

#define BUSY_PART 100 /* of what the busiest socket moves: less is no data of the steps */
#define FORGET_AFTER 30 /* dumps without a connection */

/* Round trips inside of a data centre are tens of microseconds, over a region milliseconds, over the world
 * hundreds. */
const double flow_rtt_bounds[FLOW_RTT_BOUNDS] = { 25e-6,  50e-6,  100e-6, 200e-6,  400e-6,  800e-6,
                                                  1.6e-3, 3.2e-3, 6.4e-3, 12.8e-3, 25.6e-3, 51.2e-3,
                                                  0.1,    0.2,    0.4,    1.6 };

int flows_init(struct flows *f) {
        f->exact_timeouts = true;
        return flow_memory_new(&f->memory);
}

void flows_clear(struct flows *f) {
        free(f->links);
        f->memory = flow_memory_free(f->memory);
        f->links = NULL;
        f->n_links = f->links_size = 0;
}

/* --- Places ------------------------------------------------------------------------------------------- */

uint8_t flows_run(struct flows *f, const char *name) {
        for (uint8_t i = 1; i < FLOW_RUNS_MAX; i++)
                if (streq(f->runs[i], name))
                        return i;
        for (uint8_t i = 1; i < FLOW_RUNS_MAX && strlen(name) < FLOW_NAME_MAX; i++)
                if (!f->runs[i][0]) {
                        memcpy(f->runs[i], name, strlen(name) + 1);
                        return i;
                }
        return FLOW_NOBODY;
}

uint8_t flows_nic(struct flows *f, int index, const char *name) {
        uint8_t free_place = FLOW_NOBODY;

        for (uint8_t i = 1; i < FLOW_NICS_MAX; i++) {
                if (f->nics[i].index == index) {
                        (void) snprintf(f->nics[i].name, IF_NAMESIZE, "%s", name);
                        return i;
                }
                if (f->nics[i].index == 0 && free_place == FLOW_NOBODY)
                        free_place = i;
        }
        if (free_place != FLOW_NOBODY) {
                f->nics[free_place].index = index;
                (void) snprintf(f->nics[free_place].name, IF_NAMESIZE, "%s", name);
        }
        return free_place;
}

bool flows_has(const struct flows *f, size_t run, size_t nic) {
        return (run == FLOW_NOBODY || f->runs[run][0]) && (nic == FLOW_NOBODY || f->nics[nic].index);
}

static void forget_link(struct flows *f, struct flow_link *l) {
        f->n_named -= l->named && l->named_judged;
        f->n_named_others -= l->named && !l->named_judged;
        *l = (struct flow_link){ 0 };
}

/* Before what is new is added: a link keeps its metrics once it has them, so that no counter steps back. */
static void name_link(struct flows *f, struct flow_link *l) {
        bool judged = flow_is_judged(l);
        size_t *n = judged ? &f->n_named : &f->n_named_others;
        size_t most = !judged  ? FLOW_NAMED_OTHERS
                      : l->bad ? FLOW_NAMED_MAX
                               : FLOW_NAMED_MAX - FLOW_NAMED_BAD;

        if (l->named || (!judged && !l->has_events) || *n >= most)
                return;
        l->named = true;
        l->named_judged = judged;
        l->before = l->total;
        (*n)++;
}

/* Nothing is known of its sockets yet. */
static void begin_link(struct flow_link *l) {
        l->now = (union flow_counts){ 0 };
        l->connections = l->connecting = l->silent = l->full = 0;
        l->silent_msec = l->srtt_usec = l->min_rtt_usec = l->unacked = l->lost = l->receive_space = 0;
        l->delivery_rate = 0;
}

void flows_forget_run(struct flows *f, uint8_t run) {
        assert(run < FLOW_RUNS_MAX);
        if (run == FLOW_NOBODY)
                return;
        for (size_t i = 0; i < f->n_links; i++)
                if (f->links[i].used && f->links[i].run == run) {
                        flow_memory_forget_link(f->memory, (uint32_t) i);
                        forget_link(f, &f->links[i]);
                }
        memset(f->sums[run], 0, sizeof(f->sums[run]));
        memset(f->rtts[run], 0, sizeof(f->rtts[run]));
        f->runs[run][0] = '\0';
}

void flows_since(struct flows *f, usec_t at) {
        f->at = at;
        f->began_here = true;
}

void flows_pause(struct flows *f) {
        f->began_here = false;
        flow_memory_clear(f->memory);
        f->span = f->at = 0;
        f->sockets = 0;
        for (size_t i = 0; i < f->n_links; i++) {
                struct flow_link *l = &f->links[i];

                begin_link(l);
                l->seen = 0;
                l->bad = false;
                if (!l->has_events)
                        forget_link(f, l);
        }
}

/* --- Links -------------------------------------------------------------------------------------------- */

static bool is_link(const struct flow_link *l, const struct tcp_connection *s, struct flow_place p) {
        return l->used && l->nic == p.nic && l->run == p.run && l->family == s->family &&
               memcmp(l->peer, s->peer, sizeof(l->peer)) == 0;
}

/* FLOW_MEMORY_NO_LINK: there are most already. */
static uint32_t find_link(struct flows *f, const struct tcp_connection *s, struct flow_place p,
                          size_t most) {
        size_t place = f->n_links;
        struct flow_link *l;

        for (size_t i = f->n_links; i > 0; i--) { /* new sockets mostly go where the last one went */
                if (is_link(&f->links[i - 1], s, p)) {
                        f->links[i - 1].bound |= p.bound;
                        return (uint32_t) (i - 1);
                }
                if (!f->links[i - 1].used)
                        place = i - 1;
        }
        if (place >= most ||
            (place == f->n_links && grow(&f->links, &f->links_size, place + 1, sizeof(*f->links)) < 0))
                return FLOW_MEMORY_NO_LINK;
        f->n_links = MAX(f->n_links, place + 1);
        l = &f->links[place];
        *l = (struct flow_link){
                .used = true, .nic = p.nic, .run = p.run, .family = (uint8_t) s->family, .bound = p.bound
        };
        memcpy(l->local, s->local, sizeof(l->local));
        memcpy(l->peer, s->peer, sizeof(l->peer));
        return (uint32_t) place;
}

static void add_counts(union flow_counts *to, const union flow_counts *c) {
        for (size_t k = 0; k < ELEMENTSOF(to->all); k++)
                to->all[k] += c->all[k];
}

/* --- One socket ---------------------------------------------------------------------------------------- */

/* A kernel that does not count timeouts tells how many there were since data was last acknowledged. */
static uint64_t repeats_since(uint8_t before, uint8_t now) {
        return now >= before ? (uint64_t) (now - before) : now;
}

static union flow_counts counts_since(const struct flow_mark *before, const struct flow_mark *now,
                                      const struct tcp_connection *s) {
        static const union flow_counts widths = { .retransmits = UINT32_MAX,
                                                  .timeouts = UINT16_MAX,
                                                  .segments = UINT32_MAX,
                                                  .drops = UINT32_MAX };
        union flow_counts c;

        for (size_t k = 0; k < ELEMENTSOF(c.all); k++)
                if (widths.all[k]) /* it wraps */
                        c.all[k] = (now->counted.all[k] - before->counted.all[k]) & widths.all[k];
                else
                        c.all[k] = now->counted.all[k] - MIN(now->counted.all[k], before->counted.all[k]);
        if (s->info_size < TCP_TIMEOUTS_END)
                c.timeouts = repeats_since(before->repeats, now->repeats);
        c.syn_retries = s->state == TCP_STATE_SYN_SENT ? c.retransmits : 0;
        return c;
}

static uint32_t memory_of(const struct tcp_connection *s, size_t which) {
        return which < s->n_memory ? s->memory[which] : 0;
}

static struct flow_mark mark_of(const struct tcp_connection *s, const struct tcp_figures *t) {
        return (struct flow_mark){ .cookie = s->cookie,
                                   .counted = { .sent_bytes = s->info_size >= TCP_SENT_END ? t->bytes_sent
                                                                                           : t->bytes_acked,
                                                .received_bytes = t->bytes_received,
                                                .busy_usec = t->busy_time,
                                                .receiver_usec = t->rwnd_limited,
                                                .buffer_usec = t->sndbuf_limited,
                                                .retransmits = t->total_retrans,
                                                .segments = t->data_segs_out,
                                                .drops = memory_of(s, SK_MEMINFO_DROPS),
                                                .timeouts = t->total_rto },
                                   .repeats = t->retransmits };
}

static void take_round_trip(struct flows *f, struct flow_link *l, const struct tcp_figures *t, bool sent) {
        struct flow_rtts *h = &f->rtts[l->run][l->nic];
        double seconds = (double) t->rtt / 1e6;
        size_t i = 0;

        if (t->min_rtt > 0 && t->min_rtt != UINT32_MAX) /* ~0 until there is one (tcp_min_rtt()) */
                l->min_rtt_usec = l->min_rtt_usec == 0 ? t->min_rtt : MIN(l->min_rtt_usec, t->min_rtt);
        if (!sent || t->rtt == 0)
                return;
        l->srtt_usec = MAX(l->srtt_usec, t->rtt);
        while (i < FLOW_RTT_BOUNDS && seconds > flow_rtt_bounds[i])
                i++;
        h->counts[i]++;
        h->n++;
        h->sum += seconds;
}

/* What it is now, beside what it counted. */
static void take_socket_state(struct flows *f, struct flow_link *l, const struct tcp_connection *s,
                       const struct tcp_figures *t, bool sent) {
        l->connections++;
        l->connecting += s->state == TCP_STATE_SYN_SENT;
        l->unacked += t->unacked;
        l->lost += t->lost;
        l->delivery_rate = MAX(l->delivery_rate, t->delivery_rate);
        l->receive_space = MAX(l->receive_space, t->rcv_space);
        l->full += f->receive_max > 0 && memory_of(s, SK_MEMINFO_RCVBUF) >= f->receive_max;
        if (s->timer == TCP_TIMER_REPEAT && t->unacked > 0 && t->retransmits >= FLOW_SILENT_REPEATS &&
            t->last_ack_recv >= FLOW_SILENT_MSEC && s->state != TCP_STATE_SYN_SENT) {
                l->silent++;
                l->silent_msec = MAX(l->silent_msec, t->last_ack_recv);
        }
        take_round_trip(f, l, t, sent);
}

int flows_take(struct flows *f, const struct tcp_connection *s,
               struct flow_place (*place)(const struct tcp_connection *s, void *userdata), void *userdata) {
        struct flow_mark now, *mark;
        struct tcp_figures t = { 0 };
        union flow_counts c = { 0 };
        struct flow_link *l;
        bool known;
        int r;

        if (s->info)
                tcp_connection_info(s, &t, sizeof(t));
        now = mark_of(s, &t);
        f->sockets++;
        f->runs_told |= s->cgroup != 0;
        f->exact_timeouts &= !s->info || s->info_size >= TCP_TIMEOUTS_END;
        r = flow_memory_find(f->memory, s->cookie, f->dump, &mark, &known);
        if (r < 0) {
                f->left_out++;
                return r;
        }
        if (!known) {
                struct flow_place p = place(s, userdata);

                mark->link = p.leave_out || p.nic >= FLOW_NICS_MAX || p.run >= FLOW_RUNS_MAX
                                     ? FLOW_MEMORY_NO_LINK
                                     : find_link(f, s, p, FLOW_LINKS_MAX);
                f->left_out += mark->link == FLOW_MEMORY_NO_LINK && !p.leave_out;
        }
        if (mark->link == FLOW_MEMORY_NO_LINK)
                return 0;
        l = &f->links[mark->link];
        l->seen = f->dump;
        if (known || (f->span > 0 &&
                      (!f->began_here || l->run != FLOW_NOBODY))) /* a new one began since the last dump */
                c = counts_since(mark, &now, s);
        add_counts(&l->now, &c);
        take_socket_state(f, l, s, &t, c.segments > 0);
        now.link = mark->link;
        now.seen = f->dump;
        if (known && f->span > 0) {
                uint64_t bytes = c.sent_bytes + c.received_bytes, *busiest = f->busiest[l->run];

                busiest[0] = MAX(busiest[0], bytes);
                now.moved = (uint8_t) (mark->moved << 1 | (bytes > 0 && bytes >= busiest[1] / BUSY_PART));
                now.windows = (uint8_t) MIN(mark->windows + 1u, 8u);
        }
        *mark = now;
        return 1;
}

/* --- One dump ------------------------------------------------------------------------------------------ */

void flows_begin(struct flows *f, usec_t now) {
        f->span = f->at > 0 && now > f->at ? now - f->at : 0;
        f->at = now;
        f->dump++;
        f->sockets = 0;
        for (size_t i = 0; i < f->n_links; i++)
                begin_link(&f->links[i]);
        for (size_t r = 0; r < FLOW_RUNS_MAX; r++) {
                f->busiest[r][1] = f->busiest[r][0];
                f->busiest[r][0] = 0;
        }
        for (size_t r = 0; r < FLOW_RUNS_MAX; r++)
                for (size_t n = 0; n < FLOW_NICS_MAX; n++) {
                        if (!flows_has(f, r, n))
                                continue;
                        f->sums[r][n].now = (union flow_counts){ 0 };
                        f->sums[r][n].connections = f->sums[r][n].bad = f->sums[r][n].full = 0;
                }
}

void flows_end(struct flows *f, bool complete) {
        f->began_here = false;
        if (complete)
                flow_memory_forget_older(f->memory, f->dump);
        for (size_t i = 0; i < f->n_links; i++) {
                struct flow_link *l = &f->links[i];
                struct flow_sum *s = &f->sums[l->run][l->nic];

                if (!l->used)
                        continue;
                if (!l->has_events && f->dump - l->seen > FORGET_AFTER) {
                        forget_link(f, l);
                        continue;
                }
                flow_judge(f, l);
                name_link(f, l);
                add_counts(&l->total, &l->now);
                add_counts(&s->now, &l->now);
                add_counts(&s->total, &l->now);
                if (!l->named)
                        add_counts(&s->unnamed, &l->now);
                s->connections += l->connections;
                s->full += l->full;
                s->bad += l->bad;
        }
}

/* --- BPF ----------------------------------------------------------------------------------------------- */

/* Whose an entry is, in the words of a socket: addresses, control group. */
static struct tcp_connection socket_of(const struct net_peer_key *key) {
        struct tcp_connection s = { .family = AF_INET6, .cgroup = key->cgroup };

        memcpy(s.local, key->local, sizeof(s.local));
        memcpy(s.peer, key->peer, sizeof(s.peer));
        tcp_connection_unmap(&s);
        return s;
}

static void add_events(uint64_t *to, const struct net_counts *c) {
        const uint64_t told[_FLOW_EVENT_MAX] = { [FLOW_FAST] = c->retransmits[NET_FAST],
                                                 [FLOW_RTO] = c->retransmits[NET_RTO],
                                                 [FLOW_PROBE] = c->retransmits[NET_PROBE],
                                                 [FLOW_SYN] = c->retransmits[NET_SYN],
                                                 [FLOW_EXPIRED] = c->events[NET_RTO],
                                                 [FLOW_RESETS_SENT] = c->resets_sent,
                                                 [FLOW_RESETS_RECEIVED] = c->resets_received,
                                                 [FLOW_CONNECTS] = c->connects,
                                                 [FLOW_CONNECT_FAILURES] = c->connect_failures };

        for (size_t k = 0; k < _FLOW_EVENT_MAX; k++)
                to[k] += told[k];
}

static void begin_events(struct flows *f) {
        f->has_events = true;
        for (size_t i = 0; i < f->n_links; i++) {
                memset(f->links[i].events, 0, sizeof(f->links[i].events));
                f->links[i].has_events = false;
        }
        for (size_t r = 0; r < FLOW_RUNS_MAX; r++)
                for (size_t n = 0; n < FLOW_NICS_MAX; n++)
                        if (flows_has(f, r, n))
                                memset(f->sums[r][n].events, 0, sizeof(f->sums[r][n].events));
}

/* When a link gets series of its own, what was counted before stays among the others'. */
static void end_events(struct flows *f) {
        for (size_t i = 0; i < f->n_links; i++) {
                struct flow_link *l = &f->links[i];

                if (!l->used)
                        continue;
                if (!l->has_events && l->seen == 0) {
                        forget_link(f, l);
                        continue;
                }
                name_link(f, l);
                if (!l->named)
                        memcpy(l->events_before, l->events, sizeof(l->events));
                for (size_t k = 0; k < _FLOW_EVENT_MAX; k++)
                        f->sums[l->run][l->nic].events[k] += l->events_before[k];
        }
}

void flows_take_events(struct flows *f, const struct net_figures *figures,
                       struct flow_place (*place)(const struct tcp_connection *s, void *userdata),
                       void *userdata) {
        begin_events(f);
        for (size_t i = 0; i < NET_PEERS; i++) {
                struct flow_place p;
                struct tcp_connection s;
                uint32_t at;

                if (__atomic_load_n(&figures->peer_use[i], __ATOMIC_ACQUIRE) != NET_USED)
                        continue;
                s = socket_of(&figures->peers[i].key);
                p = place(&s, userdata);
                at = find_link(f, &s, p, FLOW_LINKS_MAX / 2); /* strangers do not take all */
                if (at == FLOW_MEMORY_NO_LINK) {
                        add_events(f->sums[p.run][p.nic].events, &figures->peers[i].counts);
                        continue;
                }
                f->links[at].has_events = true;
                add_events(f->links[at].events, &figures->peers[i].counts);
        }
        end_events(f);
}

struct flow_link *flows_next_unasked(struct flows *f) {
        for (size_t i = 0; i < f->n_links; i++)
                if (f->links[i].used && !f->links[i].asked)
                        return &f->links[i];
        return NULL;
}

void flows_ask_again(struct flows *f) {
        for (size_t i = 0; i < f->n_links; i++)
                f->links[i].asked = false;
}
