/* SPDX-License-Identifier: Apache-2.0 */
#include "own_drops.h"

#define NETSTAT "/proc/net/netstat"
#define XFRM_STAT "/proc/net/xfrm_stat"
#define TEXT_MAX 16384

/* The number below a name in the two lines of a protocol: names in the first, numbers in the second. */
static uint64_t column_of(char *text, const char *protocol, const char *name) {
        char *line = NULL, *names = NULL, *numbers = NULL, *save = NULL, *save_names = NULL;

        for (line = strtok_r(text, "\n", &save); line && !numbers; line = strtok_r(NULL, "\n", &save))
                if (startswith(line, protocol)) {
                        numbers = names ? line : NULL;
                        names = names ? names : line;
                }
        save = NULL;
        names = numbers ? strtok_r(names, " ", &save_names) : NULL;
        numbers = numbers ? strtok_r(numbers, " ", &save) : NULL;
        while (names && numbers && !streq(names, name)) {
                names = strtok_r(NULL, " ", &save_names);
                numbers = strtok_r(NULL, " ", &save);
        }
        return names && numbers ? strtoull(numbers, NULL, 10) : 0;
}

static uint64_t sum_of_ipsec(char *text) {
        uint64_t sum = 0;
        char *save = NULL;

        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                if (startswith(line, "XfrmOut"))
                        sum += strtoull(line + strcspn(line, " \t"), NULL, 10);
        return sum;
}

void own_drops_read(const struct host *h, struct own_drops *ret) {
        char text[TEXT_MAX];

        *ret = (struct own_drops){ 0 };
        if (host_read(h, NETSTAT, text, sizeof(text), NULL) == 0)
                ret->refused = column_of(text, "TcpExt:", "TCPRetransFail");
        if (host_read(h, XFRM_STAT, text, sizeof(text), NULL) == 0)
                ret->ipsec = sum_of_ipsec(text);
}

const char *own_drops_words(const struct own_drops *before, const struct own_drops *after) {
        if (after->ipsec > before->ipsec)
                return "an IPsec policy (ip xfrm policy)";
        if (after->refused > before->refused)
                return "its packet filter, a mark or a BPF program";
        return NULL;
}
