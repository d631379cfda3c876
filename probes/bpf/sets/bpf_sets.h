/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The BPF programs of this host, as tpu-hostd has them: loaded by tpu-hostd-bpf (probes/bpf/loader/), whom
 * this starts, and handed over as descriptors. No libbpf here. What is attached lives as long as these
 * descriptors: nothing is pinned, and nothing is left when tpu-hostd is killed.
 *
 * Figures of a set are one struct in memory that the programs write and we have mapped (NAME_figures.h):
 * reading takes neither a system call nor a capability. Watch programs are attached by their descriptors,
 * which needs no capability from Linux 5.19 on; before that it is -EPERM. Which it is here is tried when a
 * set is taken: its verdict is UNKNOWN then, with this reason.
 */
#include "bpf_report.h"

#define BPF_WATCH_REFUSED \
        "this kernel attaches BPF programs for processes with CAP_BPF alone (Linux before 5.19)"

struct bpf_sets;

/*
 * Starts program with the capabilities that we have, and gives CAP_BPF and CAP_PERFMON up for good, whether
 * it succeeds or not. To be called before any thread is started and any network socket opened. -ENOENT (no
 * such program: built without BPF), -EXDEV (the capabilities could not be given up: nothing is kept), or
 * another -errno.
 */
int bpf_sets_start(const char *program, struct bpf_sets **ret);
/* Detaches all. */
struct bpf_sets *bpf_sets_free(struct bpf_sets *s);
DEFINE_CLEANUP(struct bpf_sets *, bpf_sets_free)

/* What to wait for (EPOLLIN) until all is taken; open until bpf_sets_free(). */
int bpf_sets_fd(const struct bpf_sets *s);
/* Takes what is there: 1 when that was all (the loader is reaped), 0 when more is to come, -errno when it
 * failed. */
int bpf_sets_take(struct bpf_sets *s);

/* Sets that the loader has reported. */
size_t bpf_sets_count(const struct bpf_sets *s);
const struct bpf_report *bpf_sets_report(const struct bpf_sets *s, size_t i);

/* Why a set is not whole, or not there; empty: it is whole. */
const char *bpf_sets_reason(const struct bpf_sets *s, const char *set);
/* The figures of a set, which change while they are looked at. NULL: there are none, or not of this size. */
const void *bpf_sets_figures(const struct bpf_sets *s, const char *set, size_t size);
/* A map of a set: its descriptor (borrowed), or -ENOENT. */
int bpf_sets_map(const struct bpf_sets *s, const char *set, const char *map);
/* Maps a map of this size that programs and we write: NULL with errno. Unmapped by bpf_sets_free(). */
void *bpf_sets_map_memory(struct bpf_sets *s, const char *set, const char *map, size_t size);

/*
 * Attaches the watch programs of a set (all, or none). -ENOENT: it has none, -EALREADY, -EPERM: this kernel
 * (before Linux 5.19) wants a capability for it.
 */
int bpf_sets_watch(struct bpf_sets *s, const char *set);
void bpf_sets_unwatch(struct bpf_sets *s, const char *set);
bool bpf_sets_watched(const struct bpf_sets *s, const char *set);
