/* SPDX-License-Identifier: Apache-2.0 */
#include "draft.h"
#include "init_args.h"
#include "ports.h"

/* --- Who this host is ---------------------------------------------------------------------------------- */

static int add_field(struct draft *d, const char *name, enum identity_field f, bool required) {
        const struct identity_value *known = &d->identity->fields[f];
        char reason[192];

        if (!known->text)
                return required ? draft_missing(d, f) : 0;
        (void) snprintf(reason, sizeof(reason), "%s from %s", identity_field_name(f), known->origin);
        return draft_add(d, &(struct draft_variable){ name, known->text, reason, true }, 1);
}

/* A slice that is all on this host. */
static bool is_alone(const struct draft *d) {
        const char *bounds = identity_get(d->identity, IDENTITY_HOST_BOUNDS);

        return !d->options->gang && bounds && streq(bounds, "1,1,1");
}

/* The hosts of the slice; one that is alone needs no name. */
static int add_workers(struct draft *d, bool required) {
        const struct world *w = &d->world;
        bool named = d->options->gang || identity_get(d->identity, IDENTITY_WORKER_ID);
        bool alone = required && is_alone(d);
        char number[16];

        (void) snprintf(number, sizeof(number), "%zu", w->worker);
        if (required && !named && !alone)
                return draft_missing(d, IDENTITY_WORKER_ID);
        if (required && !w->hosts && !alone)
                return draft_missing(d, IDENTITY_WORKER_HOSTNAMES);
        const struct draft_variable ours[] = {
                { "TPU_WORKER_ID", number, named ? w->worker_reason : "the slice has one host",
                  named || alone },
                { "TPU_WORKER_HOSTNAMES", w->hosts ? w->hosts : "localhost",
                  w->hosts ? w->hosts_reason : "the slice has one host", w->hosts || alone },
        };
        return draft_add(d, ours, ELEMENTSOF(ours));
}

int draft_add_identity(struct draft *d, bool required) {
        const struct world *w = &d->world;
        int r;

        r = draft_add(
                d, &(struct draft_variable){ "TPU_NAME", w->slice_name, w->name_reason, w->slice_name }, 1);
        if (r == 0)
                r = add_field(d, "TPU_ACCELERATOR_TYPE", IDENTITY_ACCELERATOR_TYPE, required);
        if (r == 0)
                r = add_field(d, "TPU_TOPOLOGY", IDENTITY_TOPOLOGY, required);
        return r < 0 ? r : add_workers(d, required);
}

/* --- Chips --------------------------------------------------------------------------------------------- */

static int refuse_shape(const struct draft *d, enum identity_field f, const char *wanted) {
        (void) snprintf(d->why, ENVIRONMENT_WHY_MAX, "a %s run needs %s, this host says %.24s (%.80s)",
                        framework_name(d->options->framework), wanted, identity_get(d->identity, f),
                        d->identity->fields[f].origin);
        return -ENODATA;
}

int draft_bounds(const struct draft *d, struct draft_bounds *ret) {
        const char *topology = identity_get(d->identity, IDENTITY_TOPOLOGY);
        const char *type = identity_get(d->identity, IDENTITY_ACCELERATOR_TYPE);
        struct draft_bounds b = { .chips = 0 };
        struct shape whole;

        if (!type)
                return draft_missing(d, IDENTITY_ACCELERATOR_TYPE);
        if (!topology)
                return draft_missing(d, IDENTITY_TOPOLOGY);
        if (identity_get_u32(d->identity, IDENTITY_CHIPS, &b.chips) < 0)
                return draft_missing(d, IDENTITY_CHIPS);
        if (shape_of_host(b.chips, &b.box) < 0)
                return refuse_shape(d, IDENTITY_CHIPS, "chips 1, 2, 4 or 8");
        if (shape_parse_topology(topology, &whole) < 0 || shape_hosts(&whole, &b.box, &b.hosts) < 0)
                return refuse_shape(d, IDENTITY_TOPOLOGY, "a topology that its hosts' chips fill");
        (void) shape_text(&b.box, b.box_text);
        (void) shape_text(&b.hosts, b.hosts_text);
        (void) snprintf(b.reason, sizeof(b.reason), "topology %.24s in hosts of %" PRIu32 " chips", topology,
                        b.chips);
        b.seventh = startswith(type, "tpu7") || startswith(type, "v7");
        *ret = b;
        return 0;
}

/* "8431,8432,…": one for each chip, as tpu-env of Cloud TPU has it */
static void metrics_ports(uint32_t chips, char *buf, size_t size) {
        size_t n = 0;

        for (uint32_t c = 0; c < chips && n < size; c++)
                n += (size_t) snprintf(buf + n, size - n, "%s%u", c > 0 ? "," : "", PORT_TPU_METRICS + c);
}

int draft_add_libtpu(struct draft *d, const struct draft_bounds *b, bool per_host) {
        bool wrap = identity_get(d->identity, IDENTITY_TOPOLOGY_WRAP);
        char ports[8 * 8] = "";
        int r;

        metrics_ports(b->chips, ports, sizeof(ports));
        /*
         * The process bounds of the seventh generation have a fourth number that no public source explains.
         */
        const struct draft_variable ours[] = {
                { "TPU_CHIPS_PER_HOST_BOUNDS", b->box_text, b->reason, true },
                { "TPU_HOST_BOUNDS", b->hosts_text, b->reason, true },
                { "TPU_CHIPS_PER_PROCESS_BOUNDS", b->box_text, "one process per host",
                  per_host && !b->seventh },
                { "TPU_PROCESS_BOUNDS", b->hosts_text, "one process per host", per_host && !b->seventh },
                { "TPU_RUNTIME_METRICS_PORTS", ports, "libtpu's metrics, a port for each chip of this host",
                  true },
                { "TPU_TOPOLOGY_ALT", "false", "no twisted torus", wrap },
                { "TPU_SKIP_MDS_QUERY", "1", "the variables here are complete: no metadata server is asked",
                  true },
        };
        r = draft_add(d, ours, ELEMENTSOF(ours));
        if (r == 0)
                r = add_field(d, "TPU_TOPOLOGY_WRAP", IDENTITY_TOPOLOGY_WRAP, false);
        return r < 0 ? r : add_field(d, "ENABLE_ICI_RESILIENCY", IDENTITY_ICI_RESILIENCY, false);
}

/* --- Multislice ---------------------------------------------------------------------------------------- */

/* The user's flags and ours for the NICs; the user's alone when they chose NICs. */
static int add_interfaces(struct draft *d) {
        const char *theirs = environment_get(&d->e, "LIBTPU_INIT_ARGS"),
                   *interfaces = d->options->interfaces;
        _cleanup_free_ char *value = NULL;
        size_t len;

        if (!interfaces || !interfaces[0] || (theirs && init_args_get(theirs, INIT_ARG_INTERFACES, &len)))
                return 0;
        if (asprintf(&value, "%s%s--" INIT_ARG_INTERFACES "=%s,lo", theirs ? theirs : "",
                     theirs && theirs[0] ? " " : "", interfaces) < 0) {
                value = NULL;
                return -ENOMEM;
        }
        return environment_extend(&d->e, "LIBTPU_INIT_ARGS", value,
                                  theirs ? "your flags, and the data-centre NICs of this host" :
                                           "the data-centre NICs of this host");
}

static int lint(struct draft *d, uint16_t port) {
        const char *args = environment_get(&d->e, "LIBTPU_INIT_ARGS");
        char text[INIT_ARGS_LINT_MAX];

        if (!args || !init_args_lint(args, d->options->interfaces, port,
                                     d->options->framework == FRAMEWORK_TORCH_XLA, text))
                return 0;
        return environment_complain(&d->e, "LIBTPU_INIT_ARGS", text);
}

int draft_add_megascale(struct draft *d) {
        const char *args = environment_get(&d->e, "LIBTPU_INIT_ARGS");
        const struct world *w = &d->world;
        char slices[16], slice[16], text[8], endpoint[WORLD_ENDPOINT_MAX];
        uint16_t port;
        int r;

        if (w->n_slices < 2)
                return lint(d, 0);
        port = port_of_megascale(args, w->port, d->options->framework == FRAMEWORK_RAY);
        (void) snprintf(slices, sizeof(slices), "%zu", w->n_slices);
        (void) snprintf(slice, sizeof(slice), "%zu", w->slice);
        (void) snprintf(text, sizeof(text), "%u", (unsigned) port);
        const struct draft_variable ours[] = {
                { "MEGASCALE_COORDINATOR_ADDRESS", world_endpoint(w->coordinator, port, endpoint),
                  w->coordinator_reason, true },
                { "MEGASCALE_NUM_SLICES", slices, w->slice_reason, true },
                { "MEGASCALE_SLICE_ID", slice, w->slice_reason, true },
                { "MEGASCALE_PORT", text, "the first of 8081, 9915, 8080 that nothing of this run has",
                  true },
        };
        r = draft_add(d, ours, ELEMENTSOF(ours));
        if (r == 0)
                r = add_interfaces(d);
        return r < 0 ? r : lint(d, port);
}
