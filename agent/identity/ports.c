/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include "init_args.h"

const char *port_owner(uint16_t port) {
        static const struct {
                uint16_t first, last;
                const char *owner;
        } owners[] = {
                { 22, 22, "ssh" },
                { 2112, 2112, "the TPU device plugin" },
                { 4318, 4318, "tpu-collectord" },
                { 6379, 6379, "Ray" },
                { 8080, 8080, "Ray's metrics, or Multislice" },
                { 8081, 8081, "Multislice" },
                { 8082, 8082, "Ray's metrics" },
                { 8265, 8265, "Ray's dashboard" },
                { 8353, 8353, "the vbar control agent" },
                { 8431, 8438, "libtpu's runtime metrics" },
                { 8470, 8470, "the TPU node" },
                { 8471, 8471, "libtpu's mesh" },
                { 8474, 8474, "the TPU node" },
                { 8476, 8476, "torch_xla, and JAX up to 0.8.0" },
                { 8482, 8482, "JAX's coordinator" },
                { 9230, 9230, "the TPU VM's instance agent" },
                { 9431, 9431, "Orbax and Grain" },
                { 9470, 9470, "tpu-hostd" },
                { 9471, 9471, "tpu-collectord" },
                { 9915, 9915, "Multislice" },
                { 10001, 10001, "Ray's clients" },
                { 11211, 11211, "memcached" },
                { 29000, 29001, "Pathways" },
                { 29005, 29005, "Pathways" },
                { 29500, 29500, "torchrun" },
        };

        for (size_t i = 0; i < ELEMENTSOF(owners); i++)
                if (port >= owners[i].first && port <= owners[i].last)
                        return owners[i].owner;
        return NULL;
}

uint16_t port_of_megascale(const char *init_args, uint16_t coordinator, bool ray) {
        static const uint16_t ports[] = { 8081, 9915, 8080 };
        size_t len = 0;
        const char *text = init_args ? init_args_get(init_args, INIT_ARG_DEBUG_PORT, &len) : NULL;
        long debug = text && len > 0 && len < 8 ? strtol(text, NULL, 10) : 0;

        for (size_t i = 0; i < ELEMENTSOF(ports); i++)
                if (ports[i] != debug && ports[i] != coordinator && !(ray && ports[i] == 8080))
                        return ports[i];
        return 0;
}
