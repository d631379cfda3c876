/* SPDX-License-Identifier: Apache-2.0 */
#include "identity_environment.h"

/* TPU_PROCESS_ADDRESSES has "HOST:PORT" where TPU_WORKER_HOSTNAMES has "HOST". */
static int add_process_addresses(struct identity *i, enum identity_field f, const char *text,
                                 const char *origin) {
        _cleanup_free_ char *hosts = malloc(strlen(text) + 1);
        size_t n = 0, len;

        if (!hosts)
                return -ENOMEM;
        for (size_t each;; text += each + 1) {
                const char *host;

                each = strcspn(text, ",");
                host = identity_host_of(text, each, &len);
                memcpy(hosts + n, host, len);
                n += len;
                hosts[n++] = text[each];
                if (!text[each])
                        return identity_add(i, f, hosts, origin);
        }
}

int identity_add_environment(struct identity *i, char *const *environment, char bad[static 128]) {
        static const struct {
                const char *name;
                enum identity_field field;
                int (*add)(struct identity *i, enum identity_field f, const char *text, const char *origin);
        } variables[] = {
                { "TPU_NAME", IDENTITY_SLICE_NAME, identity_add },
                { "TPU_ACCELERATOR_TYPE", IDENTITY_ACCELERATOR_TYPE, identity_add },
                { "TPU_TOPOLOGY", IDENTITY_TOPOLOGY, identity_add },
                { "TPU_TOPOLOGY_WRAP", IDENTITY_TOPOLOGY_WRAP, identity_add },
                { "TPU_WORKER_ID", IDENTITY_WORKER_ID, identity_add },
                { "TPU_WORKER_HOSTNAMES", IDENTITY_WORKER_HOSTNAMES, identity_add },
                { "TPU_PROCESS_ADDRESSES", IDENTITY_WORKER_HOSTNAMES, add_process_addresses },
                { "TPU_CHIPS_PER_HOST_BOUNDS", IDENTITY_CHIPS_PER_HOST_BOUNDS, identity_add },
                { "TPU_HOST_BOUNDS", IDENTITY_HOST_BOUNDS, identity_add },
                { "ENABLE_ICI_RESILIENCY", IDENTITY_ICI_RESILIENCY, identity_add },
                { "MEGASCALE_NUM_SLICES", IDENTITY_SLICES, identity_add },
                { "MEGASCALE_SLICE_ID", IDENTITY_SLICE_ID, identity_add },
                { "MEGASCALE_COORDINATOR_ADDRESS", IDENTITY_COORDINATOR, identity_add },
        };

        bad[0] = '\0';
        for (size_t v = 0; v < ELEMENTSOF(variables); v++)
                for (char *const *p = environment; *p; p++) {
                        size_t n = strlen(variables[v].name);
                        char origin[64];
                        int r;

                        if (strncmp(*p, variables[v].name, n) != 0 || (*p)[n] != '=' || !(*p)[n + 1])
                                continue;
                        (void) snprintf(origin, sizeof(origin), "environment %s", variables[v].name);
                        r = variables[v].add(i, variables[v].field, *p + n + 1, origin);
                        if (r == -ENOMEM)
                                return r;
                        if (r < 0)
                                (void) snprintf(bad, 128, "%s cannot be %s: it is passed over",
                                                variables[v].name, identity_field_name(variables[v].field));
                        break;
                }
        return identity_derive(i);
}
