/* SPDX-License-Identifier: Apache-2.0 */
#include "wait_ends.h"

#include <sys/socket.h>

#define LISTENS 10u /* TCP_LISTEN of net/tcp_states.h, of AF_UNIX, too */

bool wait_end_is_other(const struct captured_end *e, const struct captured_wait *w, uint64_t number) {
        return e->kind == w->kind && e->number == number &&
               (e->space == w->space || !e->space || !w->space) &&
               (w->kind == WAIT_SOCKET || (w->writes ? e->reads : e->writes));
}

bool wait_is_for_the_end(const struct host_capture *c, const struct captured_process *p,
                         const struct captured_wait *w) {
        bool reads = false, writes = false;

        for (size_t i = 0; i < c->n_ends && w->kind == WAIT_PIPE && w->any; i++) {
                const struct captured_end *e = &c->ends[i];

                if (e->kind == w->kind && e->number == w->number && e->pid == p->pid &&
                    (e->space == w->space || !e->space || !w->space)) {
                        reads |= e->reads;
                        writes |= e->writes;
                }
        }
        return reads != writes && reads == w->writes;
}

bool wait_end_of_unix(const struct captured_socket *s, const struct captured_socket *x) {
        if (x->family != AF_UNIX || x->inode == s->inode)
                return false;
        if (s->peer > 0 || x->peer > 0)
                return s->peer == x->inode;
        if (s->local == s->remote) /* neither has a path */
                return x->local == x->remote && x->local == s->local && x->state != LISTENS &&
                       (x->inode == s->inode + 1 || s->inode == x->inode + 1);
        return s->remote != 0 ? x->local == s->remote : x->remote == s->local;
}
