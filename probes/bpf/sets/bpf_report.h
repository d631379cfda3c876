/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What tpu-hostd-bpf tells tpu-hostd of each set of BPF programs: one message a set over a SOCK_SEQPACKET
 * socket, with the descriptors of its things by SCM_RIGHTS in the order of things[]. Both ends come out of
 * one build: a message of another size is refused.
 */
#include "base.h"
#include "finding.h"

#define BPF_THINGS_MAX 40u
#define BPF_NAME_MAX 32u
#define BPF_REASON_MAX 256u

enum bpf_thing_kind {
        BPF_THING_MAP,   /* the figures are the map "figures" */
        BPF_THING_LINK,  /* a program that is attached as long as this is open; name: the program's */
        BPF_THING_WATCH, /* a program that is loaded, and not attached; name: of its tracepoint */
        _BPF_THING_MAX,
};

struct bpf_thing {
        enum bpf_thing_kind kind;
        uint32_t size; /* of a map that can be mapped: bytes; else 0 */
        char name[BPF_NAME_MAX];
};

struct bpf_report {
        char name[BPF_NAME_MAX], summary[96];
        enum verdict verdict;        /* OK, or UNKNOWN with the reason */
        char reason[BPF_REASON_MAX]; /* for people: what is missing, and why */
        uint32_t programs, loaded;   /* how many the set has, how many the kernel took */
        uint32_t n_things;
        struct bpf_thing things[BPF_THINGS_MAX];
};
