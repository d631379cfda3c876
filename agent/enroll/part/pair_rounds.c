/* SPDX-License-Identifier: Apache-2.0 */
#include "pair_rounds.h"

#include <assert.h>

#define START_TIME (15 * USEC_PER_SEC) /* the request reaches hosts at different times */
#define BOTH_WAYS (2 * PAIR_TIME + 4 * USEC_PER_SEC) /* one NIC, with both handshakes */

unsigned pair_rounds(unsigned hosts) {
        unsigned n = 0, odd = hosts % 2;

        if (hosts < 2)
                return 0;
        while ((1u << n) < hosts + odd)
                n++;
        return MIN(n + odd, hosts + odd - 1);
}

int pair_partner(unsigned hosts, unsigned worker, unsigned round) {
        unsigned even = hosts + hosts % 2, circle = even - 1, partner;

        assert(hosts >= 2 && worker < hosts);
        round %= circle;
        if (worker == circle) /* it stands in the middle */
                partner = round;
        else {
                partner = (2 * round + circle - worker) % circle;
                if (partner == worker)
                        partner = circle;
        }
        return partner < hosts ? (int) partner : -1;
}

usec_t pair_deadline(unsigned round, unsigned nics) {
        return START_TIME + (usec_t) (round + 1) * nics * BOTH_WAYS;
}
