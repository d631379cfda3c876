/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Findings and samples of a worker as lines of JSON, between two processes of one version: {"finding": …},
 * {"sample": …}, and last {"done": 0 or -errno}.
 */
#include "probe.h"

#define WIRE_LINE_MAX 4096
#define WIRE_NAMES_MAX 64

/* Texts of samples must outlive them: each one is kept once, as long as the reader. */
struct wire_reader {
        char *line; /* what came of one that has not ended; NULL: nothing */
        size_t n;
        bool done;  /* the last line came */
        int result; /* of the probe, when done */
        char *names[WIRE_NAMES_MAX];
        size_t n_names;
};

/* Runs p and writes what it says. -EIO when out does not take it. */
int wire_serve(const struct probe *p, const struct host *h, const struct probe_context *c, FILE *out);
/* Takes bytes, hands whole lines to s. -EBADMSG: no line of ours; -E2BIG: too long; -ENOMEM. */
int wire_take(struct wire_reader *r, const char *data, size_t len, struct sink *s);
/* For the next run; names stay. */
void wire_restart(struct wire_reader *r);
void wire_clear(struct wire_reader *r);
