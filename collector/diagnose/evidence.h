/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The ranks of a scene and where they stand. A rank is a process that makes steps: one with connections to
 * other hosts of the run and no such child; else one whose rank is known and whose parent's is not; else one
 * that no captured process has started. A thread is looked at for each: the main thread; where all main
 * threads stand alike and wait, the thread of that name which stands alike on most ranks, but not on all.
 */
#include "alike.h"
#include "peers.h"
#include "scene.h"

#define RANK_NAME_MAX 32u

struct rank {
        uint32_t host;                             /* of the evidence */
        uint32_t pid, number;                      /* CAPTURE_RANK_NONE */
        const struct captured_process *process[2]; /* of the two captures; NULL */
        const struct captured_thread *thread[2];   /* that is looked at; NULL */
        struct place place;                        /* in the last capture that shows it */
        bool both;                                 /* both captures show it */
        bool moved;                                /* both, and its frames or its state differ */
        enum alike alike;
        uint32_t class;
};

/* Ranks that stand at the same place. Greatest first. */
struct rank_class {
        struct place place;
        bool moved;
        uint32_t n;
        uint32_t example; /* a rank */
};

struct evidence {
        const struct scene *scene;
        struct seen_hosts all;
        struct seen_host *hosts; /* those of all */
        struct stack_code *codes;
        struct peers peers;
        struct rank *ranks;
        uint64_t
                *process_roles; /* of all processes of the last captures: equal on hosts that run the same */
        struct alike_table alike;
        struct rank_class *classes;
        uint64_t *meetings; /* in what ranks wait that stand as most do; sorted */
        size_t n_meetings;
        size_t n_hosts, n_silent, n_ranks, n_classes, ranks_size, classes_size;
        char thread_name[RANK_NAME_MAX]; /* of the threads that are looked at; "": the main threads */
};
#define EVIDENCE_NULL ((struct evidence){ 0 })
void evidence_clear(struct evidence *e);

/* As seen_hosts_gather() has it. */
int evidence_gather(struct evidence *e, const struct scene *s, const char *slice, uint32_t hosts);

/* Of a host's process; STACK_NONE: it is none. */
uint32_t evidence_rank(const struct evidence *e, uint32_t host, const struct captured_process *p);
/* It waits in the library code in which most of those wait that stand as most do. */
bool evidence_waits_as_most(const struct evidence *e, uint32_t rank);
/* How a thread of the last capture stands among those of its role. */
enum alike evidence_alike(const struct evidence *e, uint32_t host, const struct captured_process *p,
                          const struct captured_thread *thread);
/* Both captures have it, at other places. */
bool thread_moved(const struct seen_host *h, const struct captured_process *p,
                  const struct captured_thread *thread);
/* Likewise, at the same place. */
bool thread_stuck(const struct seen_host *h, const struct captured_process *p,
                  const struct captured_thread *thread);
/* Both captures have it, running, and in between it got a hundredth of a CPU at most. */
bool thread_starved(const struct seen_host *h, const struct captured_process *p,
                    const struct captured_thread *thread);
/* Both captures have it, running, or asleep in the same function of the training's own code: a call that is
 * tried again and again stays where it is, whatever line of it is at work. */
bool thread_stays(const struct evidence *e, uint32_t host, const struct captured_process *p,
                  const struct captured_thread *thread);
