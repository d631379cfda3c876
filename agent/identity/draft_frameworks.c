/* SPDX-License-Identifier: Apache-2.0 */
#include "draft.h"
#include "ports.h"

int draft_add_jax(struct draft *d) {
        struct draft_bounds b;
        int r;

        r = draft_add_identity(d, true);
        if (r == 0)
                r = draft_bounds(d, &b);
        if (r == 0)
                r = draft_add_libtpu(d, &b, true);
        if (r == 0)
                r = draft_add_megascale(d);
        if (r == 0)
                r = draft_add_number(
                        d, "JAX_COORDINATOR_PORT", d->world.port,
                        "one port whatever the version of JAX: its default changed after 0.8.0");
        if (r < 0)
                return r;
        return draft_add(d,
                         &(struct draft_variable){
                                 "JAX_PLATFORMS", "tpu,cpu",
                                 "a TPU that does not start is an error, never a run on the CPU", true },
                         1);
}

/* --- PyTorch/XLA --------------------------------------------------------------------------------------- */

/* "host:8476,host:8477,…" of all workers, each with a port for each of its processes */
static int process_addresses(const char *hosts, uint32_t processes, char **ret) {
        size_t size = 1, n = 0;
        char *text;

        for (const char *p = hosts; *p; p++)
                size += *p == ',';
        size = (strlen(hosts) + size * sizeof("[]:65535,")) * processes + 1;
        text = malloc(size);
        if (!text)
                return -ENOMEM;
        for (const char *p = hosts;; p++) {
                size_t len = strcspn(p, ",");
                char host[254], endpoint[WORLD_ENDPOINT_MAX];

                (void) snprintf(host, sizeof(host), "%.*s", (int) MIN(len, sizeof(host) - 1), p);
                for (uint32_t c = 0; c < processes && n < size; c++)
                        n += (size_t) snprintf(
                                text + n, size - n, "%s%s", n > 0 ? "," : "",
                                world_endpoint(host, (uint16_t) (PORT_TPU_PROCESS + c), endpoint));
                p += len;
                if (*p == '\0')
                        break;
        }
        *ret = text;
        return 0;
}

/* What configure_topology() of torch_xla sets for one process of one chip. */
static int add_chip_process(struct draft *d, const struct draft_bounds *b) {
        uint32_t chip = d->options->chip;
        _cleanup_free_ char *addresses = NULL;
        char bounds[SHAPE_TEXT_MAX], index[16], task[24], port[8], count[16];
        struct shape whole = b->hosts;
        int r;

        if (chip >= b->chips) {
                (void) snprintf(d->why, ENVIRONMENT_WHY_MAX,
                                "there is no chip %" PRIu32 ": this host has %" PRIu32 " (%.80s)", chip,
                                b->chips, d->identity->fields[IDENTITY_CHIPS].origin);
                return -EINVAL;
        }
        r = process_addresses(d->world.n_hosts > 1 ? d->world.hosts : "localhost", b->chips, &addresses);
        if (r < 0)
                return r;
        for (size_t k = 0; k < ELEMENTSOF(whole.size); k++)
                whole.size[k] *= b->box.size[k];
        (void) shape_text(&whole, bounds);
        (void) snprintf(index, sizeof(index), "%" PRIu32, chip);
        (void) snprintf(count, sizeof(count), "%" PRIu32, b->chips);
        (void) snprintf(task, sizeof(task), "%zu", d->world.worker * b->chips + chip);
        (void) snprintf(port, sizeof(port), "%" PRIu32, PORT_TPU_PROCESS + chip);
        const struct draft_variable ours[] = {
                { "TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1", "one process per chip", true },
                { "TPU_PROCESS_BOUNDS", bounds, "one process per chip", true },
                { "TPU_VISIBLE_CHIPS", index, "the chip of this process", true },
                { "TPU_VISIBLE_DEVICES", index, "the same, for older libtpu", true },
                { "CLOUD_TPU_TASK_ID", task, "this process among all of the slice", true },
                { "TPU_PROCESS_ADDRESSES", addresses, "all processes of the slice", true },
                { "TPU_PROCESS_PORT", port, "torch_xla's ports: 8476 and up, one for each chip", true },
                { "PJRT_LOCAL_PROCESS_RANK", index, "this process among those of this host", true },
                { "PJRT_LOCAL_PROCESS_COUNT", count, "one process per chip", true },
        };
        return draft_add(d, ours, ELEMENTSOF(ours));
}

int draft_add_torch_xla(struct draft *d) {
        bool per_chip = d->options->process_per_chip;
        struct draft_bounds b;
        int r;

        r = draft_add_identity(d, true);
        if (r == 0)
                r = draft_bounds(d, &b);
        if (r == 0 && per_chip)
                r = add_chip_process(d, &b);
        if (r == 0)
                r = draft_add_libtpu(d, &b, !per_chip);
        if (r == 0)
                r = draft_add_megascale(d);
        if (r < 0)
                return r;
        const struct draft_variable ours[] = {
                { "PJRT_DEVICE", "TPU", "a TPU that does not start is an error, never a run on the CPU",
                  true },
                { "XLA_USE_SPMD", "1", "one process per host drives all its chips", !per_chip },
        };
        return draft_add(d, ours, ELEMENTSOF(ours));
}

/* --- Plain PyTorch ------------------------------------------------------------------------------------- */

int draft_add_torch(struct draft *d) {
        const struct world *w = &d->world;
        char rank[24], size[24], port[8];
        int r;

        if (!w->known)
                return draft_missing(d, identity_get(d->identity, IDENTITY_WORKER_ID) ?
                                                IDENTITY_WORKER_HOSTNAMES :
                                                IDENTITY_WORKER_ID);
        r = draft_add_identity(d, false);
        if (r < 0)
                return r;
        (void) snprintf(rank, sizeof(rank), "%zu", w->rank);
        (void) snprintf(size, sizeof(size), "%zu", w->size);
        (void) snprintf(port, sizeof(port), "%u", (unsigned) w->port);
        const struct draft_variable ours[] = {
                { "MASTER_ADDR", w->coordinator, w->coordinator_reason, true },
                { "MASTER_PORT", port, "the rendezvous of torch.distributed", true },
                { "RANK", rank, "one process per host: this host among all of the run", true },
                { "WORLD_SIZE", size, "one process per host: all hosts of the run", true },
                { "LOCAL_RANK", "0", "one process per host", true },
                { "LOCAL_WORLD_SIZE", "1", "one process per host", true },
                { "NODE_RANK", rank, "this host among all of the run", true },
                { "GROUP_RANK", rank, "as torchrun names it", true },
                { "GLOO_SOCKET_IFNAME", d->options->interfaces, "the data-centre NICs of this host",
                  d->options->interfaces && d->options->interfaces[0] },
        };
        return draft_add(d, ours, ELEMENTSOF(ours));
}
