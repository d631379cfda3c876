/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one table of what TCP went through between this host and its peers: a link is a NIC, a peer's
 * address and a run. It has two sources. Pure: what they tell goes in, and whose it is is asked.
 *
 * Dumps of sockets, while a run lives. A socket's counters are kept by its cookie, so that a dump counts
 * what is new in it; the first dump only sets the marks. What is not seen: what happens to a socket
 * between the last dump that has it and its end, and sockets that come and go between two dumps.
 *
 * The network set of BPF programs, where it runs: it counts at the event, what belongs to no run, too,
 * and tells what made TCP repeat a segment. Its counters are taken as they are.
 *
 * After the first dumps nothing is allocated, but where there are more sockets or links than ever before.
 * Bounded; what finds no room is counted.
 */
#include <net/if.h>

#include "net_figures.h"
#include "tcp_connections.h"

#define FLOW_LINKS_MAX 1024
#define FLOW_SOCKETS_MAX 16384
#define FLOW_RUNS_MAX 17 /* the first: of no run, or of nobody knows which */
#define FLOW_NICS_MAX 17 /* the first: of none that is known */
#define FLOW_NAME_MAX 64
#define FLOW_NOBODY 0 /* a run, a NIC */

/* The same data was retransmitted so often, and nothing was acknowledged for so long, before silence counts:
 * the third repetition comes some seconds after the first sending (RFC 6298). */
#define FLOW_SILENT_REPEATS 3
#define FLOW_SILENT_MSEC 2000

/* How often or how long, over a span. */
union flow_counts {
        struct {
                uint64_t retransmits; /* segments, those of a connection that is begun included */
                uint64_t timeouts;    /* timers of these that ran out; before Linux 6.7 at least so many */
                uint64_t syn_retries; /* of retransmits: those of connections that are begun */
                uint64_t segments;    /* with data, sent; repetitions included */
                uint64_t sent_bytes, received_bytes;
                /* with data to send; of that: held by the peer's window, by the send buffer */
                uint64_t busy_usec, receiver_usec, buffer_usec;
                uint64_t drops; /* received and thrown away: repeated, out of the window, no memory */
        };
        uint64_t all[10];
};

/* What BPF counted, since it was loaded. */
enum flow_event {
        FLOW_FAST = NET_FAST,
        FLOW_RTO = NET_RTO,
        FLOW_PROBE = NET_PROBE,
        FLOW_SYN = NET_SYN, /* segments, by what made TCP repeat them */
        FLOW_EXPIRED, /* retransmission timers that ran out */
        FLOW_RESETS_SENT,
        FLOW_RESETS_RECEIVED,
        FLOW_CONNECTS, /* that we began */
        FLOW_CONNECT_FAILURES,
        _FLOW_EVENT_MAX,
};

struct flow_link {
        bool used;
        uint8_t nic, run;  /* places in struct flows */
        /* that its packets leave by, where it is not its address's; 0: none that is known */
        uint8_t wrong_nic;
        uint8_t family, local[16], peer[16];
        char name[FLOW_NAME_MAX]; /* "worker 5"; empty: the peer is none that is known */
        bool is_worker;           /* of the slice, or of another slice of the run */
        bool bound;               /* to the NIC */
        bool asked;               /* name and wrong_nic are settled for now: flows_next_unasked() */

        union flow_counts now, total; /* between the last two dumps; since it was first seen */
        /* As of the last dump. */
        unsigned connections, connecting; /* connecting: of them, those without an answer yet */
        unsigned silent;                  /* of them: nothing is acknowledged */
        unsigned full;        /* of them: the receive buffer is as large as tcp_rmem lets it become */
        uint32_t silent_msec; /* of the one that is silent longest */
        uint32_t srtt_usec;     /* the greatest of those that sent; 0: not known */
        uint32_t min_rtt_usec;  /* the least of all; 0: not known */
        uint32_t unacked, lost; /* segments */
        uint32_t receive_space; /* bytes that a program takes in a round trip, the greatest */
        uint64_t delivery_rate; /* bytes a second, the greatest */

        bool bad; /* flow_words.h: by what happened between the last two dumps, or before and not healed */
        unsigned good_for; /* dumps without a reason, while bad */
        usec_t bad_since;  /* boot clock */

        uint64_t events[_FLOW_EVENT_MAX];
        uint64_t events_before[_FLOW_EVENT_MAX]; /* as reported before it was named */
        bool has_events; /* BPF has an entry for it */

        bool named, named_judged;  /* has metrics of its own (flow_samples.h); as one that is judged */
        union flow_counts before; /* total when it was named */
        unsigned seen;             /* number of the last dump that has it; 0: none yet */
};

/*
 * At most FLOW_NAMED_MAX links that are judged have metrics of their own, the first ones and then those that
 * turn bad, and FLOW_NAMED_OTHERS of those that only BPF counts.
 */
#define FLOW_NAMED_MAX 32
#define FLOW_NAMED_BAD 8 /* of them are kept for those that turn bad */
#define FLOW_NAMED_OTHERS 16

/* Of each NIC and run, since the run is known here: sums that never step back when a link is forgotten. */
struct flow_sum {
        union flow_counts now, total;
        union flow_counts unnamed; /* of total, that of links without metrics of their own */
        uint64_t events[_FLOW_EVENT_MAX]; /* the same of BPF */
        unsigned connections, bad, full;
};

#define FLOW_RTT_BOUNDS 16
struct flow_rtts {
        uint64_t counts[FLOW_RTT_BOUNDS + 1], n;
        double sum; /* s */
};
extern const double flow_rtt_bounds[FLOW_RTT_BOUNDS]; /* s */

struct flow_place {
        uint8_t nic, run;
        bool leave_out; /* one's own */
        bool bound;     /* to the NIC, whatever the routes say */
};

struct flows {
        struct flow_link *links;
        size_t n_links, links_size;
        struct {
                int index; /* 0: the place is free */
                char name[IF_NAMESIZE];
        } nics[FLOW_NICS_MAX];
        char runs[FLOW_RUNS_MAX][FLOW_NAME_MAX]; /* "": the place is free */
        struct flow_sum sums[FLOW_RUNS_MAX][FLOW_NICS_MAX];
        uint64_t busiest[FLOW_RUNS_MAX][2]; /* bytes that a socket moved at most: in this span, before */
        struct flow_rtts rtts[FLOW_RUNS_MAX][FLOW_NICS_MAX];
        uint64_t receive_max; /* the third of net.ipv4.tcp_rmem; 0: not known */
        unsigned dump;        /* their number; 0: none yet */
        bool began_here;     /* the next dump is the first of runs whose beginning is known: flows_since() */
        usec_t at, span;     /* boot clock, of the last; since the one before, 0: there was none */
        size_t sockets;      /* in the last dump */
        uint64_t left_out;   /* sockets that found no room, each dump's */
        bool exact_timeouts; /* the kernel counts them */
        bool runs_told;      /* the kernel tells whose sockets are */
        bool has_events;     /* BPF runs */
        size_t n_named, n_named_others; /* links with metrics of their own: judged ones, others */
        struct flow_memory *memory; /* the marks of sockets */
};

/* f is zeroed: a hundred kilobytes, of which only the places in use become memory. -ENOMEM. */
int flows_init(struct flows *f);
void flows_clear(struct flows *f);

/* The place of a run, a NIC: made where there is none yet. FLOW_NOBODY: no room. */
uint8_t flows_run(struct flows *f, const char *name);
uint8_t flows_nic(struct flows *f, int index, const char *name);
/* Both places are taken. What never was is never touched, so that it takes no memory. */
bool flows_has(const struct flows *f, size_t run, size_t nic);
/* The run is over: its links and sums are gone, its place is free. */
void flows_forget_run(struct flows *f, uint8_t run);
/* The runs that are here began at this instant (boot clock) or later, before the first dump: what their
 * sockets have counted by then is of the span since. */
void flows_since(struct flows *f, usec_t at);
/* The dumps stopped: the next is a first one. What was counted of NICs and by BPF stays. */
void flows_pause(struct flows *f);

/*
 * One dump: begin, each socket, end. place is asked once for each socket that is new. 1: it belongs to a
 * link; 0: it is nobody's; -ENOMEM, -ENOSPC: the socket is left out and counted. After flows_end() the links
 * say what was. complete: the kernel listed all, so that those that it did not list are closed.
 */
void flows_begin(struct flows *f, usec_t now);
int flows_take(struct flows *f, const struct tcp_connection *s,
               struct flow_place (*place)(const struct tcp_connection *s, void *userdata), void *userdata);
void flows_end(struct flows *f, bool complete);

/* What BPF has counted. place is asked for each entry each time. Between dumps. */
void flows_take_events(struct flows *f, const struct net_figures *figures,
                       struct flow_place (*place)(const struct tcp_connection *s, void *userdata),
                       void *userdata);

/* A link whose name or path is not settled; NULL: none. The caller fills both in and sets asked. */
struct flow_link *flows_next_unasked(struct flows *f);
/* All are to be asked anew: the slice or the routes may be other ones now. */
void flows_ask_again(struct flows *f);
