/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What threads wait for, the sockets of a process, and who has the other ends: as text and as JSON, for
 * render.c. No more is put than up to limit bytes of the sink. Each returns false when something was left
 * out for that.
 */
#include "host_capture.h"
#include "text_sink.h"

bool render_thread_waits(struct text_sink *s, const struct host_capture *c, const struct stack_table *t,
                         const struct captured_process *p, const struct captured_thread *th, bool json,
                         uint64_t limit);
/* In text only sockets with something in a queue. */
bool render_process_waits(struct text_sink *s, const struct host_capture *c, const struct stack_table *t,
                          const struct captured_process *p, bool json, uint64_t limit);
/* In JSON the items of an array. */
bool render_ends(struct text_sink *s, const struct host_capture *c, const struct stack_table *t, bool json,
                 uint64_t limit);
