/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where to listen: "127.0.0.1:4318", "[::1]:9471", "0.0.0.0:4318". Addresses are numbers: nothing is looked
 * up. Port 0 takes a free one.
 */
#include <sys/socket.h>

#include "base.h"

#define TCP_ADDRESS_TEXT_MAX 64

struct tcp_address {
        struct sockaddr_storage sa;
        socklen_t len;
};

/* -EINVAL when text is no ADDR:PORT. */
int tcp_address_parse(const char *text, struct tcp_address *ret);
/* 127.0.0.0/8 or ::1. */
bool tcp_address_is_loopback(const struct tcp_address *a);
/* A listening, non-blocking socket, and where it really is. [::] takes IPv4 as well. */
int tcp_address_listen(const struct tcp_address *a, int *ret_fd,
                       char ret_where[static TCP_ADDRESS_TEXT_MAX]);
/* The address without the port, an IPv4 one as such also on a socket of both; "?" when it is of another
 * family. */
void tcp_address_host(const struct sockaddr *sa, char ret[static TCP_ADDRESS_TEXT_MAX]);
