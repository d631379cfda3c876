/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Captures that hosts send, and what was found out from them: an episode is what hosts were asked for their
 * stacks about (capture/ of docs/registry.md), with the captures of its hosts and the verdict. Errors and
 * texts as in store.h.
 */
#include "store.h"

#define STORE_CAPTURE_MAX      (1024 * 1024) /* bytes of one, packed */
#define STORE_CAPTURES_OF_HOST 16            /* within STORE_CAPTURES_SPAN; more are no captures of ours */
#define STORE_CAPTURES_SPAN    (300 * USEC_PER_SEC)
#define STORE_OWN_OF_HOST      64 /* episodes that a host has part in by itself, within STORE_OWN_SPAN */
#define STORE_OWN_SPAN         (24 * 3600 * USEC_PER_SEC)
/* Of all, and at most a quarter of RetainBytes=: the oldest episodes lose theirs. */
#define STORE_CAPTURE_BYTES ((uint64_t) 256 * 1024 * 1024)
#define STORE_EPISODES_MAX 1000 /* verdicts that are kept */

struct store_capture {
        const char *episode, *slice, *host, *run, *suspicion;
        int64_t worker_id, generation; /* -1: not known */
        unsigned round, rounds;        /* round: from 0, of so many */
        uint64_t hosts, slice_hosts;   /* how many were asked, as this host knows; 0: not known */
        usec_t taken;
        int64_t id;       /* only read: in the order of arrival */
        const void *data; /* gzip of proto/capture.proto; not read by store_news_captures() */
        size_t len;
};
/* 1: stored; 0: a repeat; -EDQUOT: the host sends too many. */
int store_add_capture(struct store *s, const struct store_capture *c, usec_t now);
/* Of one host for itself, whose episode has no name: the one that others of the run began at about that
 * time, else a new one. -EDQUOT: the host began too many. */
int store_name_episode(struct store *s, const struct store_capture *c, usec_t now, char ret[static 64]);
/* Those stored behind `since`, without their data; *ret_last is the last. */
int store_news_captures(struct store *s, int64_t since, int64_t *ret_last,
                        int (*visit)(const struct store_capture *c, void *userdata), void *userdata);
/* The last that is stored; 0: none. */
int store_last_capture(struct store *s, int64_t *ret);
/* All of an episode, those behind `since`. */
int store_list_captures(struct store *s, const char *episode, int64_t since,
                        int (*visit)(const struct store_capture *c, void *userdata), void *userdata);

struct store_episode {
        const char *episode, *run, *by, *why;
        const char *expected; /* JSON: [{"slice","worker","host","address"}]; NULL: not known */
        const char *outcome, *summary, *report;     /* NULL: no verdict yet; report: JSON */
        int64_t generation;                         /* -1: not known */
        uint64_t hosts;                             /* that were asked; 0: not known */
        bool suspected;                             /* not only wanted by people */
        usec_t at, diagnosed, confirmed, recovered; /* 0: not */
        uint64_t answered;                          /* hosts that did; only read */
        const char *named; /* the host, of one that goes on when it is brief; only read; NULL: not known */
        const char *slices;                         /* with blanks between; only read; NULL: none */
};
/* Begins one: nothing is changed when it is there. slices: its slices, n of them. */
int store_begin_episode(struct store *s, const struct store_episode *e, const char *const *slices, size_t n);
/* Sets outcome, summary, report, diagnosed, confirmed. */
int store_set_verdict(struct store *s, const struct store_episode *e);
int store_set_recovered(struct store *s, const char *episode, usec_t recovered);

struct store_episode_filter {
        const char *slice, *episode; /* NULL: any */
        bool open;                   /* only those without a verdict */
        int64_t limit;
        bool brief; /* without report and expected */
};
/* The latest first. */
int store_list_episodes(struct store *s, const struct store_episode_filter *f,
                        int (*visit)(const struct store_episode *e, void *userdata), void *userdata);

/* For reading only, beside the program that writes: what is not there yet is -ENOENT. */
int store_open_reading(const char *path, struct store **ret, char why[static 256]);
