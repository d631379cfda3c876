/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The address of a local socket, for those who connect and those who listen. */
#include <sys/un.h>

/* -ENAMETOOLONG: path does not fit. */
int frame_address(const char *path, struct sockaddr_un *ret);
