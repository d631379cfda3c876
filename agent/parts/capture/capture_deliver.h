/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What becomes of the stacks of a round: what this host knows of the run is put behind them, with what its
 * connections say of its peers (a cut network shows in no stack). The whole lies on the shelf
 * (capture_shelf.h), goes to the collector of the registry (capture_send.h), and as text, for exporters,
 * into an event; what a caller asked for goes to that caller instead.
 */
#include "capture_send.h"
#include "libtpu_status.h"

/* data: the capture; NULL: why there is none. */
typedef void (*capture_answer_t)(void *token, const uint8_t *data, size_t len, const char *why);

struct capture_round {
        struct bus *bus; /* NULL: the place is free */
        const char *directory; /* of the shelf; borrowed, as is send */
        struct capture_send *send;
        struct capture_sent what; /* of round 0 or 1; its file and time are of the last capture */
        char name[64];            /* of the episode, also of one that this host took for itself */
        usec_t wanted, second;    /* wanted: real time; second: after the first, 0: there is none */
        struct reach *reach;      /* asked in the first capture, looked at in the second */
        capture_answer_t answer;  /* NULL: nobody waits */
        void *token;
};

/*
 * One capture. stacks: of tpu-stack, not looked at; NULL with problem. cores: NULL: no libtpu was asked.
 * taken: real time.
 */
void capture_deliver(struct capture_round *c, const uint8_t *stacks, size_t len,
                     const struct libtpu_status *cores, const char *problem, usec_t taken);
/* Gives up what is left of it; who waits is answered. */
void capture_round_clear(struct capture_round *c);
