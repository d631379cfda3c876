/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is remembered in memory so that a push of known series asks the database nothing: the number of a
 * series by the bytes that a sender names it with, and the numbers that each host has. Forgotten and read
 * again at will. Inside the room only.
 */
#include "base.h"

#define SERIES_KEYS_MAX 200000 /* beyond, all are forgotten */

struct series_key {
        uint32_t next; /* index + 1 in the same bucket */
        uint32_t hash, len;
        int64_t id;
        uint8_t *bytes;
};

struct host_series { /* an open hash; 0 is free */
        uint32_t *ids;
        uint32_t n, size;
        bool loaded;
        int64_t through; /* the last row that table latest knows */
};

struct series {
        struct series_key *keys;
        uint32_t n, size;
        uint32_t last; /* index of the key that was found last; may be beyond n */
        uint32_t *buckets; /* index + 1 of the newest */
        uint32_t n_buckets;
        struct host_series *hosts; /* by the host's number */
        size_t n_hosts;
        bool overflowed; /* all keys were forgotten for want of room since series_mark() */
        uint8_t *used;        /* a bit for each number up to the last, while it is looked who has which */
        int64_t used_through; /* 0: it is not */
};

/* 0: not known. */
int64_t series_find(struct series *s, const void *key, size_t len);
/* -ENOMEM. */
int series_remember(struct series *s, const void *key, size_t len, int64_t id);
/* Before a part of a transaction, and when it was undone: forgets the keys that came since. */
uint32_t series_mark(struct series *s);
void series_undo(struct series *s, uint32_t mark);
void series_forget_keys(struct series *s);
/* From now on the numbers up to this are noted that a host has, or gets. -ENOMEM: they are not. */
int series_watch(struct series *s, int64_t through);
void series_note(struct series *s, int64_t id);
void series_note_all(struct series *s, const struct host_series *h);
bool series_is_used(const struct series *s, int64_t id);
void series_unwatch(struct series *s);
/* The set of one host, empty and not loaded when it is new. NULL: no memory. */
struct host_series *series_of_host(struct series *s, int64_t host);
bool host_series_has(const struct host_series *h, int64_t id);
int host_series_add(struct host_series *h, int64_t id);
/* Empties the set; it is to be loaded again. */
void host_series_clear(struct host_series *h);
void series_clear(struct series *s);
