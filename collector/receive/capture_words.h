/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A file of its own, so that it is fuzzed without a registry: the query of POST /registry/v1/capture
 * (docs/registry.md, Captures), checked.
 */
#include "http_arguments.h"

/* What a host says of its capture. */
struct capture_words {
        char episode[64]; /* empty: the host took it for itself */
        char slice[64], host[64], incarnation[40], run[64], suspicion[16];
        int64_t worker, generation; /* generation -1: not known */
        int64_t round, rounds, hosts, slice_hosts, taken;
};

/* What a later agent says besides is passed over. -EINVAL with why, naming the argument. */
int capture_words_parse(const struct http_request *q, struct capture_words *ret,
                        char why[static ARGUMENTS_WHY_MAX]);
