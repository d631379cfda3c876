/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who stands as most do. Threads of one role (in a process of one role: the main thread; else a thread's
 * name; else where its own code begins) are compared over all ranks: by what they wait for and in which
 * line, else in which function, else by what they wait for alone. Nothing else tells a pool that idles, a
 * feeder or a poller from a thread that is stuck: these stand alike everywhere.
 */
#include "place.h"

enum alike {
        ALIKE_UNSURE, /* few have the role, or its threads stand in many places */
        ALIKE_MOST,
        ALIKE_NEAR, /* in another line of the function that most are in */
        ALIKE_ODD,
};

#define ALIKE_LEVELS 3u

struct alike_count {
        uint64_t key;
        uint64_t role;
        uint32_t ranks, last; /* last: rank + 1 */
        uint8_t level;        /* ALIKE_LEVELS: of the role itself */
        uint8_t most; /* of a role: bits of levels in which more than half of its ranks stand alike */
};
struct alike_table {
        struct alike_count *slots;
        size_t n, size; /* size: a power of two, or 0 */
        size_t hosts;
};
#define ALIKE_TABLE_NULL ((struct alike_table){ 0 })
void alike_clear(struct alike_table *t);

struct alike_thread {
        uint64_t role;
        uint64_t places[ALIKE_LEVELS]; /* line, function, kind */
};
/* main: the main thread of a rank. moved: the two captures show it elsewhere, so lines do not count. */
struct alike_thread alike_thread(const struct stack_table *t, const struct stack_code *codes,
                                 const struct host_capture *c, const struct captured_process *p,
                                 const struct captured_thread *thread, uint64_t process, bool main,
                                 bool moved);
/* rank: whose thread it is. What finds no room in a large table is not counted. -ENOMEM. */
int alike_add(struct alike_table *t, const struct alike_thread *a, uint32_t rank);
/* When all are there. hosts: how many have ranks. */
void alike_settle(struct alike_table *t, size_t hosts);
/* Of a process, by its command without numbers and how many of the same its host started before. */
uint64_t alike_process(const char *command, uint32_t before);
enum alike alike_judge(const struct alike_table *t, const struct alike_thread *a);
