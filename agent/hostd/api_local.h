/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The query API's Unix socket: who is connected, by the credentials of connect(2), and how much of it one
 * user may have, so that nobody keeps root's tpuctl out. Who has enough is answered 503 at once.
 */
#include <microhttpd.h>
#include <sys/socket.h>

#include "api.h"
#include "api_deadline.h"

#define API_LOCAL_LIMIT 32 /* what libmicrohttpd accepts: beyond, clients wait; of which */
#define API_LOCAL_OF_USERS 24 /* all but root have at most, and */
#define API_LOCAL_OF_USER 12 /* each of them */

struct api_local;
int api_local_new(sd_event *e, struct api_local **ret);
/* After libmicrohttpd's end. */
struct api_local *api_local_free(struct api_local *l);
DEFINE_CLEANUP(struct api_local *, api_local_free)

/* What libmicrohttpd is to be started with; items is borrowed by nobody. */
void api_local_mhd_options(struct api_local *l, struct MHD_OptionItem items[API_OPTIONS]);

/* Who calls; NULL: nobody who may. */
const struct ucred *api_local_peer(struct MHD_Connection *mhd);
/* The call waits for us: no deadline. */
void api_local_waits(struct api_local *l, struct MHD_Connection *mhd);
/* The answer goes out now. */
void api_local_answers(struct api_local *l, struct MHD_Connection *mhd);
/* It is out, or nobody takes it: the next request may come. */
void api_local_done(struct api_local *l, struct MHD_Connection *mhd);
