/* SPDX-License-Identifier: Apache-2.0 */
#include "init_args.h"

#define BLANKS " \t\n"

struct flag {
        const char *name, *value; /* value: NULL when there is no '=' */
        size_t name_len, value_len;
};

/* The next word; false at the end. A word that is no flag has no name. */
static bool next_flag(const char **at, struct flag *ret) {
        const char *start = *at + strspn(*at, BLANKS);
        size_t len = strcspn(start, BLANKS), dashes;

        if (len == 0)
                return false;
        *at = start + len;
        *ret = (struct flag){ .value = NULL };
        dashes = MIN(strspn(start, "-"), (size_t) 2);
        ret->name = start + dashes;
        ret->name_len = MIN(strcspn(ret->name, "="), len - dashes);
        if (dashes + ret->name_len < len) {
                ret->value = ret->name + ret->name_len + 1;
                ret->value_len = len - dashes - ret->name_len - 1;
        }
        if (dashes == 0 || ret->name_len == 0) {
                ret->value = start;
                ret->value_len = len;
                ret->name_len = 0;
        }
        return true;
}

static bool is_named(const struct flag *f, const char *name) {
        return f->name_len == strlen(name) && strncmp(f->name, name, f->name_len) == 0;
}

const char *init_args_get(const char *args, const char *name, size_t *ret_len) {
        const char *value = NULL;
        struct flag f;

        while (next_flag(&args, &f))
                if (is_named(&f, name)) {
                        value = f.value ? f.value : "";
                        *ret_len = f.value_len;
                }
        return value;
}

/* --- Ports --------------------------------------------------------------------------------------------- */

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
                { 8476, 8476, "torch_xla, or JAX's coordinator" },
                { 8482, 8482, "JAX's coordinator since 0.8.1" },
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
