/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_serve.h"

#include "ask_daemons.h"
#include "options.h"
#include "worker.h"

int probe_serve(const char *program, const struct host *h, const char *name) {
        const struct probe *p = probe_find(name);
        struct probe_context context = { 0 };
        struct device_owners *owners = NULL;
        struct daemon_states *daemons = NULL;
        int r;

        if (!p)
                return options_fail(program, EXIT_USAGE, "there is no probe '%s'", name);
        if (p->asks_owners) {
                owners = malloc(sizeof(*owners));
                if (owners)
                        ask_owners(h, owners);
                context.owners = owners;
        }
        if (p->asks_daemons) {
                daemons = malloc(sizeof(*daemons));
                if (daemons)
                        ask_daemons(h, daemons);
                context.daemons = daemons;
        }
        r = wire_serve(p, h, &context, stdout);
        free(owners);
        free(daemons);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
