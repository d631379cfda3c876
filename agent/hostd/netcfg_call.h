/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One thing that tpu-netcfg is to know, told over its socket without ever blocking: until it has answered, it is
 * told again after a random wait. An answer of any kind ends it.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "frame.h"

struct netcfg_call_options {
        const char *socket;                                       /* tpu-netcfg's (copied) */
        int (*send)(struct frame_peer *p, void *userdata);        /* puts it into frames; 0 or -errno */
        /* Its answer, KIND_ERROR included. -errno: that was none (it is told again). */
        int (*answered)(const struct frame *f, void *userdata);
        void *userdata;
};

struct netcfg_call;
/* -ENOMEM, or what the loop refuses. Nothing is told yet. */
int netcfg_call_new(sd_event *e, const struct netcfg_call_options *o, struct netcfg_call **ret);
struct netcfg_call *netcfg_call_free(struct netcfg_call *c);
DEFINE_CLEANUP(struct netcfg_call *, netcfg_call_free)

/* Tells it now, in place of what is at work. what: for the log, "tpu-netcfg cannot be told WHAT" (static). */
void netcfg_call_start(struct netcfg_call *c, const char *what);
void netcfg_call_stop(struct netcfg_call *c);
