/* SPDX-License-Identifier: Apache-2.0 */
/* Peers as words: of a request, a command line, the configuration, or the worker names that the metadata
 * server gives. */
#include "lane.h"
#include "peers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_path_peers_ struct path_peers p = PATH_PEERS_NULL, again = PATH_PEERS_NULL;
        char *list = strndup((const char *) data, size), why[96] = "";
        union path_address a;

        if (!list)
                return 0;
        if (path_peers_add(&p, list, why) < 0 &&
            (why[0] == '\0' || strnlen(why, sizeof(why)) == sizeof(why)))
                abort();
        if (p.n > PATH_PEERS_MAX)
                abort();
        for (size_t i = 0; i < p.n; i++) {
                const struct path_peer *x = &p.items[i];

                if (x->name[0] == '\0' || x->name[0] == '-' || strchr(x->name, ',') || strchr(x->nic, '='))
                        abort();
                (void) address_parse(x->name, &a);
                /* What was taken is a word again. */
                if (path_peers_add_one(&again, x, why) < 0)
                        abort();
        }
        if (again.n != p.n)
                abort();
        free(list);
        return 0;
}
