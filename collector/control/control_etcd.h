/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The registry's records in etcd, shared by any number of collectors, of which one leads (etcd/election.h,
 * etcd/keep.h).
 */
#include <systemd/sd-event.h>

#include "clock.h"
#include "control_store.h"

struct control_etcd_options {
        sd_event *event;
        const struct clock *clock;
        usec_t lease;
        const char *tenant;
        const char *agents_url, *people_url; /* own, as others tell it */
        const char *members, *user, *password_file, *ca, *certificate, *key; /* as in etcd/client.h */
};

/* o's texts are borrowed. -EINVAL: why. */
int control_etcd_new(const struct control_etcd_options *o, struct control_store **ret, char why[static 256]);
