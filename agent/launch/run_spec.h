/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a run's specification says besides who, where and what: which intent it belongs to, what it may use,
 * how it is ended, started again and told of a preemption. Kept in the run's file; secrets are not
 * (handover.h).
 */
#include "base.h"
#include "local.pb-c.h"
#include "problem.h"

#define SPEC_LABEL_SIZE 64
#define SPEC_SETS_MAX 8192 /* the highest number of a CPU or NUMA node, and one */
#define SPEC_GRACE_MAX (3600 * USEC_PER_SEC) /* GKE's longest grace of a TPU node's termination */
#define SPEC_GRACE_DEFAULT (90 * USEC_PER_SEC) /* systemd's own DefaultTimeoutStopSec= */
#define SPEC_RESTARTS_MAX 1000
#define SPEC_PREEMPT_ARGV_MAX 64
#define SPEC_UNLIMITED UINT64_MAX

/* A set of small numbers as bits, lowest first: what systemd takes for CPUAffinity and NUMAMask. */
struct number_set {
        uint8_t bits[SPEC_SETS_MAX / 8];
        size_t bytes; /* in use; 0: none was given */
};
/* "0-3,8". The empty text is the empty set. -EINVAL, -ERANGE. */
int number_set_parse(const char *text, struct number_set *ret);

struct run_spec {
        uint64_t generation; /* of the intent; 0: a local run */
        char intent[SPEC_LABEL_SIZE], slice[SPEC_LABEL_SIZE], worker[SPEC_LABEL_SIZE];
        uint64_t memlock, nofile, memory_max; /* SPEC_UNLIMITED: no limit */
        uint64_t memory_total,
                memory_high;      /* of the slice: the service, and containers that the run starts */
        char cpus[128], numa[64]; /* as number_set_parse() takes them; "": all */
        bool keep_core;
        usec_t grace; /* never 0 */
        uint32_t restarts;
        int preempt_signal; /* 0: none */
        char **preempt_argv; /* NULL: none */
        bool share_devices, any_device;
        char **devices; /* which it may open besides the TPU's: device_list.h; NULL: none */
        bool remote; /* asked for by the principal remote: it gets no new privileges */
};

/* The defaults of everything. */
void run_spec_init(struct run_spec *s);
/* Returns 0, or -EINVAL, -ERANGE, -ENOMEM with p filled; s is to be cleared in any case. */
int run_spec_from_request(const Local__RunRequest *q, struct run_spec *s, struct problem *p);
void run_spec_clear(struct run_spec *s);
/* Whether the run's slice has a limit of its own. */
bool run_spec_limits_slice(const struct run_spec *s);

/* "TERM" for SIGTERM; "" for 0. */
const char *run_signal_name(int number);
