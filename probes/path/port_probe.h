/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether a TCP port can be reached before anybody listens there: a refusal (RST) proves the path as well as
 * a connection does, silence proves that something in between drops, and an ICMP error that it rejects.
 * Nothing is sent over a connection.
 */
#include <systemd/sd-event.h>

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
