/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The marks of sockets between two dumps, by cookie: how far each had counted. */
#include "flows.h"

#define FLOW_MEMORY_NO_LINK UINT32_MAX

struct flow_mark {
        uint64_t cookie;
        union flow_counts counted; /* since the socket began, as the kernel has it: cut at its own widths */
        uint32_t link; /* FLOW_MEMORY_NO_LINK: it is not counted */
        unsigned seen; /* the dump; 0: there is no mark here */
        uint8_t repeats;
        uint8_t moved;   /* a bit for each of the last spans between two dumps, the last lowest */
        uint8_t windows; /* so many of them are known */
};

struct flow_memory;
int flow_memory_new(struct flow_memory **ret);
struct flow_memory *flow_memory_free(struct flow_memory *m);
void flow_memory_clear(struct flow_memory *m);
/* The mark of this socket, made where there is none, as seen in this dump (not 0); valid until the next
 * call. -ENOSPC, -ENOMEM. */
int flow_memory_find(struct flow_memory *m, uint64_t cookie, unsigned dump, struct flow_mark **ret,
                     bool *ret_known);
/* The same, if there is one: nothing changes. */
const struct flow_mark *flow_memory_look(const struct flow_memory *m, uint64_t cookie);
/* Sockets that this dump did not have are closed. */
void flow_memory_forget_older(struct flow_memory *m, unsigned dump);
/* Its sockets are not counted any more. */
void flow_memory_forget_link(struct flow_memory *m, uint32_t link);
