/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Captures for a diagnosis: a round is one capture of a run, or two that are some seconds apart. Asked for
 * by the registry's record capture/SLICE, by this host for itself where there is no registry that could, or
 * by a caller. tpu-launchd takes them; capture_deliver.h has what becomes of them.
 */
#include "capture_deliver.h"
#include "local_call.h"

/* Asks tpu-launchd for one capture of a run. native: with native frames. -ENOMEM. */
int capture_ask(struct bus *b, const char *run, bool native, usec_t timeout,
                void (*done)(const struct local_answer *a, void *userdata), void *userdata,
                struct local_call **ret);

struct capture_rounds;
int capture_rounds_new(struct bus *b, struct capture_rounds **ret);
/* Who waits for a round is answered that it was given up. */
struct capture_rounds *capture_rounds_free(struct capture_rounds *k);

/*
 * The record capture/ of this host's slice. fresh: it came while the registry was there, and is not of long
 * ago.
 */
void capture_rounds_record(struct capture_rounds *k, const json_t *record, bool fresh);
/*
 * A suspicion that counts began: without a registry that would ask all hosts, this one captures for itself.
 */
void capture_rounds_suspected(struct capture_rounds *k, const char *run, uint64_t generation,
                              const struct suspicion *s);
/* The registry may be back, or led by another collector; other: it is a different registry altogether. */
void capture_rounds_registry(struct capture_rounds *k, bool other);
/*
 * One capture of the run ("": of the one that runs here) for somebody, which goes to no collector. answer is
 * called once with the capture, or with NULL and why there is none. -EBUSY.
 */
int capture_rounds_order(struct capture_rounds *k, const char *run, capture_answer_t answer, void *token);
/* Where the shelf is. */
const char *capture_rounds_directory(const struct capture_rounds *k);
