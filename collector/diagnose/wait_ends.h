/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whose end of a pipe, an eventfd or a Unix socket is the other one of what is waited for, as far as one
 * host's capture shows it. Pure.
 */
#include "host_capture.h"

/* An end of the object of this number that lets the wait end: one that writes for who reads. */
bool wait_end_is_other(const struct captured_end *e, const struct captured_wait *w, uint64_t number);

/* p watches an end to write to for something to read, as event loops do with the input of a child, or
 * to read from for writing: that only tells it that the other end is gone, and nobody has to do anything. */
bool wait_is_for_the_end(const struct host_capture *c, const struct captured_process *p,
                         const struct captured_wait *w);

/* Whether x is the other end of s, as far as the two show it. The kernel's word counts. Else the end that
 * has the path that the other one connected to is its server's; and two without a path that were made one
 * behind the other are a pair. */
bool wait_end_of_unix(const struct captured_socket *s, const struct captured_socket *x);
