/* SPDX-License-Identifier: Apache-2.0 */
/* What comes back from the network and the kernel, by the first byte: an echo's answer (ICMP, ICMPv6), what
 * an ICMP error quotes, control messages of the error queue, rtnetlink's answer to a question for a
 * route. */
#include <limits.h>

#include "lane.h"
#include "path_address.h"

#define SECRET UINT64_C(0x4141414141414141)

static void check_packet(const struct proof_packet *p, size_t len, int family) {
        if (p->target > UINT32_MAX || (p->kind != PROOF_ECHO && p->kind != PROOF_UDP))
                abort();
        if (len > 0 && (p->kind != PROOF_ECHO || p->size != len + (family == AF_INET ? 20 : 40)))
                abort();
}

static void echo(int family, const uint8_t *data, size_t size) {
        struct proof_packet p;
        size_t got = MIN(size, (size_t) 256);

        if (lane_parse_echo(family, SECRET, data, got, size, &p) == 0)
                check_packet(&p, size, family);
}

static void control(const uint8_t *data, size_t size) {
        uint64_t *aligned = malloc(size + 1);
        struct msghdr m = { .msg_control = aligned, .msg_controllen = size };
        struct lane_control said;

        if (!aligned)
                return;
        memcpy(aligned, data, size);
        lane_parse_control(&m, &said);
        if (said.fragment > INT_MAX)
                abort();
        free(aligned);
}

static void route(const uint8_t *data, size_t size) {
        struct path_route r = { .nic = -1 };
        int k = path_route_parse(data, size, &r);

        if (k > 0 || (k < 0 && r.nic != -1))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct proof_packet p;

        if (size == 0)
                return 0;
        switch (data[0] % 5) {
        case 0:
                echo(AF_INET, data + 1, size - 1);
                break;
        case 1:
                echo(AF_INET6, data + 1, size - 1);
                break;
        case 2:
                if (lane_parse_quote(SECRET, data + 1, size - 1, &p) == 0)
                        check_packet(&p, 0, 0);
                break;
        case 3:
                control(data + 1, size - 1);
                break;
        case 4:
                route(data + 1, size - 1);
                break;
        }
        return 0;
}
