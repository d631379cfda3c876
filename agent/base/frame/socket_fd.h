/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Bytes over a Unix stream socket, with a descriptor beside them (unix(7), SCM_RIGHTS). No call blocks. */
#include <sys/types.h>

#include "base.h"

/* As send(2). *fd, unless it is -1, goes with the first byte; then it is closed and -1. */
ssize_t socket_send(int socket, const void *data, size_t len, int *fd);
/* As recv(2). A descriptor that comes along takes the place of *fd, which is closed. */
ssize_t socket_receive(int socket, void *buf, size_t size, int *fd);
