/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Loads and attaches one set, and says how it went. */
#include "bpf_own.h"
#include "bpf_report.h"
#include "bpf_set.h"

struct loaded_set {
        struct bpf_object *object;
        struct bpf_link *links[BPF_THINGS_MAX];
        size_t n_links;
        struct bpf_report report;
        int fds[BPF_THINGS_MAX]; /* borrowed from the above */
};

/* kernel: its types; NULL when it tells none. Whatever happens, ret is to be cleared and its report can be
 * sent. */
void load_set(const struct bpf_set *set, const struct bpf_own *own, const struct btf *kernel,
              struct loaded_set *ret);
/* From now on what libbpf and the verifier say goes to standard error. */
void load_say_all(void);
void loaded_set_clear(struct loaded_set *l);
