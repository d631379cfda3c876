/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a thread waits for, in words for people. */
#include "host_capture.h"

#define WAIT_WORDS_MAX 1024u

/* "socket"; "unknown" for a number that is none. */
const char *wait_kind_name(uint8_t kind);

/*
 * A clause whose subject is the thread: "waits for data on 10.0.0.1:4711 → 10.0.0.2:29500, nothing unread",
 * "waits 41 s for a glibc mutex of libcache.so that thread 214 'writer' holds", "is stopped by a signal".
 * p: the thread's process. Cut at WAIT_WORDS_MAX. Names in it are as the capture has them.
 */
void wait_words(const struct host_capture *c, const struct stack_table *t, const struct captured_process *p,
                const struct captured_wait *w, char buf[static WAIT_WORDS_MAX]);

/* "10.0.0.1:4711 → 10.0.0.2:29500", "listens on [::1]:80", "/run/x.sock (Unix)". */
void wait_socket_words(const struct stack_table *t, const struct captured_socket *s,
                       char buf[static WAIT_WORDS_MAX]);
/* "48000 bytes unread, 3 segments not acknowledged (retransmitted 2 times in a row)"; "" for none. */
void wait_queue_words(const struct captured_socket *s, char buf[static WAIT_WORDS_MAX]);

/* "pipe:[4711]", "eventfd 7": as an end has the same. */
void wait_object_words(uint8_t kind, uint64_t number, char buf[static WAIT_WORDS_MAX]);
