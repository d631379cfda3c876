/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether a TCP port can be reached before anybody listens there: a refusal (RST) proves the path as well as
 * a connection does, silence proves that something in between drops, and an ICMP error that it rejects.
 * Nothing is sent over a connection.
 */
#include <systemd/sd-event.h>

#include "host.h"
#include "path_address.h"

enum port_answer {
        PORT_ANSWERS,  /* somebody listens, and took the connection */
        PORT_REFUSES,  /* nobody listens: the path is good */
        PORT_SILENT,   /* no answer in time */
        PORT_REJECTED, /* an ICMP error came: a firewall's, for nobody who lives there sends one */
        PORT_NO_WAY,   /* this host's own routes say that there is none: see error */
        _PORT_ANSWER_MAX,
};

struct port_probe;
/*
 * from NULL: as the kernel chooses. done is called once, from the loop, and may free it. -errno: there is no
 * such address here, or no descriptor.
 */
int port_probe_new(sd_event *e, const union path_address *from, const union path_address *to, uint16_t port,
                   usec_t timeout,
                   void (*done)(enum port_answer a, int error, void *userdata), void *userdata,
                   struct port_probe **ret);
struct port_probe *port_probe_free(struct port_probe *p);
DEFINE_CLEANUP(struct port_probe *, port_probe_free)

/* Whether this host could listen there now: 0, -EADDRINUSE, -EACCES, … */
int port_is_free(uint16_t port);

/*
 * What this host's own kernel has thrown away of what it was to send, as its counters say it: the packet
 * filter tells a connection nothing, and neither does an IPsec policy. Two readings around a try tell
 * whether a silent peer is to blame.
 */
struct own_drops {
        uint64_t refused; /* segments that could not be sent again: TCPRetransFail of /proc/net/netstat */
        uint64_t ipsec;   /* of the policies: XfrmOut… of /proc/net/xfrm_stat */
};

/* What cannot be read stays 0. */
void own_drops_read(const struct host *h, struct own_drops *ret);

/* Who dropped between both, in words: NULL: nobody here. */
const char *own_drops_words(const struct own_drops *before, const struct own_drops *after);
