/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The marks of sockets between two dumps, by cookie: how far each had counted. */
#include "base.h"

#define FLOW_MEMORY_NO_LINK UINT32_MAX

struct flow_mark {
        uint64_t cookie;
        uint64_t sent, received, busy, receiver, buffer;
        uint32_t retransmits, segments, drops;
        uint16_t timeouts;
        uint8_t repeats;
        uint32_t link; /* FLOW_MEMORY_NO_LINK: it is not counted */
        unsigned seen; /* the dump */
};

struct flow_memory;
int flow_memory_new(struct flow_memory **ret);
struct flow_memory *flow_memory_free(struct flow_memory *m);
void flow_memory_clear(struct flow_memory *m);
/* The mark of this socket, made where there is none; valid until the next call. -ENOSPC, -ENOMEM. */
int flow_memory_find(struct flow_memory *m, uint64_t cookie, struct flow_mark **ret, bool *ret_known);
/* Sockets that this dump did not have are closed. */
void flow_memory_forget_older(struct flow_memory *m, unsigned dump);
/* Its sockets are not counted any more. */
void flow_memory_forget_link(struct flow_memory *m, uint32_t link);
