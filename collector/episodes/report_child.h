/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One program at work whose standard output is the answer: bounded in time and size, read in the loop. */
#include <systemd/sd-event.h>

#include "base.h"

struct report_child;
/*
 * argv[0] is the path. done is called once, never from here, and frees it: result 0 with the text (NUL behind it), -ETIMEDOUT,
 * -E2BIG, -EIO (it failed; what it said is on our standard error).
 */
int report_child_new(sd_event *e, char *const argv[], usec_t timeout, size_t max,
                     void (*done)(int result, const char *text, void *userdata), void *userdata,
                     struct report_child **ret);
/* Kills it; done is not called any more. */
struct report_child *report_child_free(struct report_child *c);
DEFINE_CLEANUP(struct report_child *, report_child_free)
