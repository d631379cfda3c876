/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The TCP connections that somebody watches, read again and again. A dump walks the kernel's whole table.
 * That takes 1 to 5 ms of CPU time by the machine's memory, however few connections there are; to ask for
 * one of them takes 10 µs (measured). So those that are known are asked for one by one. A dump is made where
 * there may be new ones: the number of TCP sockets of the network namespace has changed
 * (/proc/net/sockstat), a known one is closed, or the last dump is old.
 */
#include "tcp_connections.h"

#define TCP_WATCHED_MAX 256u                        /* more of them are read by dumps alone */
#define TCP_WATCHED_DUMP_AGAIN (300 * USEC_PER_SEC) /* at the latest */

struct tcp_watched;
/* -ENOMEM. */
int tcp_watched_new(struct tcp_watched **ret);
struct tcp_watched *tcp_watched_free(struct tcp_watched *w);
DEFINE_CLEANUP(struct tcp_watched *, tcp_watched_free)

/*
 * Calls take with each connection that is watched, and in a dump with all others, too; take says by > 0 that
 * it watches one, by < 0 that it ends the reading. now: a clock. Returns 1 when all were read (a dump), 0
 * when only known ones were, or as tcp_connections_read() fails. Another root than "/" is always read whole.
 */
int tcp_watched_read(struct tcp_watched *w, const struct host *h, const struct tcp_query *query, usec_t now,
                     tcp_connection_func take, void *userdata);
/* The next reading is a dump. */
void tcp_watched_forget(struct tcp_watched *w);
