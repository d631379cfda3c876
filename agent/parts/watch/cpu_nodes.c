/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu_nodes.h"
#include "texts.h"

#define NODES_MAX 64u

bool cpu_list_mark(const char *text, uint8_t mark, uint8_t *node, size_t n) {
        uint64_t first, last;
        int r;

        while ((r = range_next(&text, &first, &last)) > 0)
                for (uint64_t c = first; c <= last && c < n; c++)
                        node[c] = mark;
        return r == 0;
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
