/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu_nodes.h"

#define NODES_MAX 64u

bool cpu_list_mark(const char *text, uint8_t mark, uint8_t *node, size_t n) {
        const char *p = text;

        while (*p) {
                char *end;
                unsigned long first = strtoul(p, &end, 10), last = first;

                if (end == p || *p < '0' || *p > '9')
                        return false;
                if (*end == '-') {
                        p = end + 1;
                        last = strtoul(p, &end, 10);
                        if (end == p || last < first)
                                return false;
                }
                for (unsigned long c = first; c <= last && c < n; c++)
                        node[c] = mark;
                if (*end != ',' && *end != '\0')
                        return false;
                p = end + (*end == ',');
        }
        return true;
}

void cpu_nodes(const struct host *h, uint8_t *node, size_t n) {
        char path[64], text[4096];

        memset(node, 0, n);
        for (unsigned i = 0; i < NODES_MAX; i++) {
                (void) snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", i);
                if (host_read(h, path, text, sizeof(text), NULL) >= 0)
                        (void) cpu_list_mark(text, (uint8_t) i, node, n); /* up to a fault */
        }
}
