/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A way to etcd, so that who leads and what is written can be decided without a network (a test has its own
 * etcd). One call a lane at a time: renewing the lease never waits for a large write.
 */
#include "gateway.h"

enum etcd_lane { ETCD_LANE_LEASE, ETCD_LANE_RECORDS, _ETCD_LANE_MAX };

struct etcd_port {
        /*
         * body is taken over. done has the answer within patience, not from inside; it may make the lane's
         * next call. -EBUSY: the lane's last call has not ended; -ENOMEM; -EIO: then done is not called.
         */
        int (*call)(void *link, enum etcd_lane lane, const char *path, json_t *body, usec_t patience,
                    void (*done)(const struct gateway_answer *a, void *userdata), void *userdata);
        /* The lane's call ends without done; what it asked for may happen all the same. */
        void (*cancel)(void *link, enum etcd_lane lane);
        void *link;
};
