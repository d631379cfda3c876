/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What another host sends at most within PAIR_TIME and PAIR_BYTES, taken from its port 9470 and thrown away
 * as it comes. The first quarter of a second is not counted: TCP is finding the rate then.
 */
#include <systemd/sd-event.h>

#include "tls_files.h"

struct pair_pull_options { /* texts are copied */
        const char *host, *to, *from; /* its name, as its certificate has it; its address; our own */
        uint16_t port;
        uint64_t number; /* of the request that both hosts have */
        unsigned round, nic;
        const struct tls_files *tls;
};

enum pull_state {
        PULL_ASKS,
        PULL_COMES,
        PULL_LATER, /* the other host is not there yet: pair_pull_again() */
        PULL_DONE,
        PULL_FAILED,
};

struct pulled {
        enum pull_state state;
        uint64_t rate; /* bytes/s */
        unsigned core; /* percent of one core that this process used meanwhile */
        char why[200]; /* it failed */
};

struct pair_pull;
/* news: the state is another; not to free it from inside. */
int pair_pull_new(sd_event *e, const struct pair_pull_options *o, void (*news)(void *userdata),
                  void *userdata, struct pair_pull **ret);
struct pair_pull *pair_pull_free(struct pair_pull *p);
DEFINE_CLEANUP(struct pair_pull *, pair_pull_free)
const struct pulled *pair_pull_state(const struct pair_pull *p);
int pair_pull_again(struct pair_pull *p);

/* How much of one core this process uses between two instants, in percent. */
struct core_share {
        uint64_t wall, used; /* ns, at the first one */
};
struct core_share core_share_begin(void);
unsigned core_share_end(const struct core_share *s);
