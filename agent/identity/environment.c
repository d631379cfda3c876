/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "environment.h"

#include "config.h"
#include "init_args.h"
#include "ray_start.h"
#include "texts.h"
#include "topology.h"
#include "world.h"

#define REMEDY "write it into [Identity] in /etc/tpu-hostd/identity.conf.d/ (see: tpuctl identity)"

/* --- The table ----------------------------------------------------------------------------------------- */

/* Who gets a variable: the runs of a framework, those of torch_xla by how many processes a host has. */
enum {
        PLAIN = 1 << 0,
        JAX = 1 << 1,
        XLA = 1 << 2,
        CHIP = 1 << 3, /* torch_xla, one process per chip */
        RAY = 1 << 4,
        TORCH = 1 << 5,
};
#define EACH (PLAIN | TPU | TORCH)
#define TPU  (JAX | XLA | CHIP | RAY)

/* What is worked out for this host and its run. One that is not worked out is in no environment. */
enum text {
        FIXED, /* none: the row says it */
        SLICE_NAME, ACCELERATOR_TYPE, TOPOLOGY, WORKER_ID, WORKER_HOSTNAMES,
        CHIP_INDEX, CHIP_TASK, CHIP_COUNT, CHIP_BOUNDS, CHIP_ADDRESSES, CHIP_PORT,
        BOX, HOSTS, PROCESS_BOX, PROCESS_HOSTS, METRICS_PORTS, UNTWISTED, WRAP, RESILIENCY,
        MEGASCALE_COORDINATOR, MEGASCALE_SLICES, MEGASCALE_SLICE, MEGASCALE_PORT, INIT_ARGS,
        COORDINATOR, COORDINATOR_PORT, JAX_COORDINATOR, RANK, SIZE, INTERFACES,
        RAY_HEAD, RAY_START, RAY_WHOLE_HOSTS,
        RUN_NAME, RUN_GENERATION, RUN_SLICES, RUN_SLICE, RUN_HOSTS, RUN_RANK, RUN_COORDINATOR,
        _TEXT_MAX,
};

static const struct {
        unsigned runs;
        const char *name;
        enum text text;
        const char *fixed;
        const char *reason; /* NULL: the text's own */
} variables[] = {
#define VARIABLE(...) { __VA_ARGS__ },
#include "environment.def"
#undef VARIABLE
};

static const struct {
        const char *name;
        unsigned runs;
        uint16_t port;
} frameworks[] = {
        [FRAMEWORK_PLAIN] = { "plain", PLAIN, 0 },
        [FRAMEWORK_JAX] = { "jax", JAX, PORT_JAX },
        [FRAMEWORK_TORCH_XLA] = { "torch_xla", XLA, 0 },
        [FRAMEWORK_RAY] = { "ray", RAY, PORT_RAY },
        [FRAMEWORK_TORCH] = { "torch", TORCH, PORT_TORCH },
};
_Static_assert(ELEMENTSOF(frameworks) == _FRAMEWORK_MAX, "every framework is known");

const char *framework_name(enum framework f) {
        return f < _FRAMEWORK_MAX ? frameworks[f].name : "?";
}

uint16_t framework_port(enum framework f) {
        return f < _FRAMEWORK_MAX ? frameworks[f].port : 0;
}

int framework_parse(const char *name, enum framework *ret) {
        for (size_t i = 0; i < ELEMENTSOF(frameworks); i++)
                if (streq(name, frameworks[i].name)) {
                        *ret = (enum framework) i;
                        return 0;
                }
        return -EINVAL;
}

/* --- What is worked out -------------------------------------------------------------------------------- */

struct draft {
        const struct identity *identity;
        const struct environment_options *options;
        unsigned runs; /* which rows of the table count */
        struct world world;
        struct shape box, hosts; /* of TPU runs: chips of a host, hosts of the slice */
        uint32_t chips;          /* of this host */
        struct {
                char *value; /* NULL: not worked out */
                char reason[WORLD_REASON_MAX];
        } texts[_TEXT_MAX];
        bool no_memory;
        struct environment e;
        char *why; /* ENVIRONMENT_WHY_MAX */
};

/* reason NULL: the row of the table says it. */
static void _printf_(4, 5) set_text(struct draft *d, enum text t, const char *reason, const char *fmt, ...) {
        char *value;
        va_list ap;

        va_start(ap, fmt);
        if (vasprintf(&value, fmt, ap) < 0)
                d->no_memory = true;
        else {
                free(d->texts[t].value);
                d->texts[t].value = value;
        }
        va_end(ap);
        (void) snprintf(d->texts[t].reason, sizeof(d->texts[t].reason), "%s", reason ? reason : "");
}

static void set_field(struct draft *d, enum text t, enum identity_field f) {
        const struct identity_value *known = &d->identity->fields[f];
        char reason[WORLD_REASON_MAX];

        if (!known->text)
                return;
        (void) snprintf(reason, sizeof(reason), "%s from %s", identity_field_name(f), known->origin);
        set_text(d, t, reason, "%s", known->text);
}

static int refuse_missing(const struct draft *d, enum identity_field f) {
        return text_fail(d->why, ENVIRONMENT_WHY_MAX, -ENODATA,
                         "a %s run needs %s, which this host does not know; %s",
                         framework_name(d->options->framework), identity_field_name(f), REMEDY);
}

static int refuse_shape(const struct draft *d, enum identity_field f, const char *wanted) {
        return text_fail(d->why, ENVIRONMENT_WHY_MAX, -ENODATA,
                         "a %s run needs %s, this host says %.24s (%.80s)",
                         framework_name(d->options->framework), wanted, identity_get(d->identity, f),
                         d->identity->fields[f].origin);
}

/* The slice and this host in it; a host that is alone in a slice needs no name for that. */
static int work_out_identity(struct draft *d) {
        static const enum identity_field whole[] = { IDENTITY_ACCELERATOR_TYPE, IDENTITY_TOPOLOGY };
        bool named = d->options->gang || identity_get(d->identity, IDENTITY_WORKER_ID);
        bool required = d->runs & TPU, alone = required && d->world.alone;
        const struct world *w = &d->world;

        for (size_t i = 0; required && i < ELEMENTSOF(whole); i++)
                if (!identity_get(d->identity, whole[i]))
                        return refuse_missing(d, whole[i]);
        if (required && !named && !alone)
                return refuse_missing(d, IDENTITY_WORKER_ID);
        if (required && !w->hosts && !alone)
                return refuse_missing(d, IDENTITY_WORKER_HOSTNAMES);
        if (w->slice_name)
                set_text(d, SLICE_NAME, w->name_reason, "%s", w->slice_name);
        set_field(d, ACCELERATOR_TYPE, IDENTITY_ACCELERATOR_TYPE);
        set_field(d, TOPOLOGY, IDENTITY_TOPOLOGY);
        if (named || alone)
                set_text(d, WORKER_ID, named ? w->worker_reason : WORLD_ALONE, "%zu", w->worker);
        if (w->hosts || alone)
                set_text(d, WORKER_HOSTNAMES, w->hosts ? w->hosts_reason : WORLD_ALONE, "%s",
                         w->hosts ? w->hosts : "localhost");
        return 0;
}

/* The process bounds of the seventh generation have a fourth number that no public source explains. */
static bool has_four_bounds(const struct draft *d) {
        return startswith(identity_get(d->identity, IDENTITY_ACCELERATOR_TYPE),
                          generation_name(GENERATION_V7X));
}

/* How the chips of this slice lie on its hosts. */
static int work_out_bounds(struct draft *d) {
        const char *topology = identity_get(d->identity, IDENTITY_TOPOLOGY);
        char box[SHAPE_TEXT_MAX], hosts[SHAPE_TEXT_MAX], reason[96], ports[8 * 8] = "";
        struct shape whole;

        if (identity_get_u32(d->identity, IDENTITY_CHIPS, &d->chips) < 0)
                return refuse_missing(d, IDENTITY_CHIPS);
        if (shape_of_host(d->chips, &d->box) < 0)
                return refuse_shape(d, IDENTITY_CHIPS, "chips 1, 2, 4 or 8");
        if (shape_parse_topology(topology, &whole) < 0 || shape_hosts(&whole, &d->box, &d->hosts) < 0)
                return refuse_shape(d, IDENTITY_TOPOLOGY, "a topology that its hosts' chips fill");
        (void) snprintf(reason, sizeof(reason), "topology %.24s in hosts of %" PRIu32 " chips", topology,
                        d->chips);
        set_text(d, BOX, reason, "%s", shape_text(&d->box, box));
        set_text(d, HOSTS, reason, "%s", shape_text(&d->hosts, hosts));
        if (!has_four_bounds(d)) {
                set_text(d, PROCESS_BOX, NULL, "%s", box);
                set_text(d, PROCESS_HOSTS, NULL, "%s", hosts);
        }
        for (uint32_t c = 0; c < d->chips; c++) /* as tpu-env of Cloud TPU has it */
                text_append(ports, sizeof(ports), ",", "%u", PORT_TPU_METRICS + c);
        set_text(d, METRICS_PORTS, NULL, "%s", ports);
        set_field(d, WRAP, IDENTITY_TOPOLOGY_WRAP);
        set_field(d, RESILIENCY, IDENTITY_ICI_RESILIENCY);
        if (identity_get(d->identity, IDENTITY_TOPOLOGY_WRAP))
                set_text(d, UNTWISTED, NULL, "false");
        return 0;
}

/* --- PyTorch/XLA, one process per chip ----------------------------------------------------------------- */

/* "host:8476,host:8477,…" of all workers, each with a port for each of its processes */
static void set_addresses(struct draft *d, const char *hosts) {
        size_t len = 0;
        char *text = NULL;
        FILE *f = open_memstream(&text, &len);

        for (const char *p = hosts; f; p++) {
                size_t n = strcspn(p, ",");
                char host[254], endpoint[WORLD_ENDPOINT_MAX];

                (void) snprintf(host, sizeof(host), "%.*s", (int) MIN(n, sizeof(host) - 1), p);
                for (uint32_t c = 0; c < d->chips; c++)
                        (void) fprintf(f, "%s%s", p > hosts || c > 0 ? "," : "",
                                       world_endpoint(host, (uint16_t) (PORT_TPU_PROCESS + c), endpoint));
                p += n;
                if (*p == '\0')
                        break;
        }
        if (!f || !memstream_close(f, &text))
                d->no_memory = true;
        else
                set_text(d, CHIP_ADDRESSES, NULL, "%s", text);
        free(text);
}

static int work_out_chip(struct draft *d) {
        uint32_t chip = d->options->chip;
        struct shape whole = d->hosts;
        char bounds[SHAPE_TEXT_MAX];

        if (has_four_bounds(d))
                return text_fail(d->why, ENVIRONMENT_WHY_MAX, -EINVAL,
                                 "torch_xla cannot have one process per chip on %s: it refuses the bounds "
                                 "that it writes there itself; leave --chip out",
                                 generation_name(GENERATION_V7X));
        if (chip >= d->chips)
                return text_fail(d->why, ENVIRONMENT_WHY_MAX, -EINVAL,
                                 "there is no chip %" PRIu32 ": this host has %" PRIu32 " (%.80s)", chip,
                                 d->chips, d->identity->fields[IDENTITY_CHIPS].origin);
        for (size_t k = 0; k < ELEMENTSOF(whole.size); k++)
                whole.size[k] *= d->box.size[k];
        set_text(d, CHIP_BOUNDS, NULL, "%s", shape_text(&whole, bounds));
        set_text(d, CHIP_INDEX, NULL, "%" PRIu32, chip);
        set_text(d, CHIP_COUNT, NULL, "%" PRIu32, d->chips);
        set_text(d, CHIP_TASK, NULL, "%zu", d->world.worker * d->chips + chip);
        set_text(d, CHIP_PORT, NULL, "%" PRIu32, PORT_TPU_PROCESS + chip);
        set_addresses(d, d->world.n_hosts > 1 ? d->world.hosts : "localhost");
        return 0;
}

/* --- Multislice ---------------------------------------------------------------------------------------- */

/*
 * JAX asks the metadata server for each of the first three that is not there, whatever TPU_SKIP_MDS_QUERY
 * says (jax#40854). So it gets them for one slice, too, as a JobSet of GKE sets them: the server may be
 * silent, or speak of the slices of yesterday.
 */
static void set_one_slice(struct draft *d) {
        uint32_t n;

        if (!(d->runs & (JAX | RAY)))
                return;
        /* Of several slices that are not all known, or that the user counts, it is not the only one. */
        if (environment_get(&d->e, "MEGASCALE_NUM_SLICES") ||
            (identity_get_u32(d->identity, IDENTITY_SLICES, &n) == 0 && n > 1 && !d->options->gang))
                return;
        set_text(d, MEGASCALE_COORDINATOR, d->world.coordinator_reason, "%s", d->world.coordinator);
        set_text(d, MEGASCALE_SLICES, "one slice: JAX asks nobody how many there are", "1");
        set_text(d, MEGASCALE_SLICE, "one slice: JAX asks nobody which it is", "0");
}

/* INIT_ARGS, of several slices: the user's flags and ours for the NICs, unless the user chose NICs. */
static void work_out_megascale(struct draft *d) {
        const char *theirs = environment_get(&d->e, "LIBTPU_INIT_ARGS"),
                   *interfaces = d->options->interfaces;
        const struct world *w = &d->world;
        char endpoint[WORLD_ENDPOINT_MAX];
        uint16_t port;
        size_t len;

        if (w->n_slices < 2) {
                set_one_slice(d);
                return;
        }
        port = port_of_megascale(theirs, w->port, d->options->framework == FRAMEWORK_RAY);
        set_text(d, MEGASCALE_COORDINATOR, w->coordinator_reason, "%s",
                 world_endpoint(w->coordinator, port, endpoint));
        set_text(d, MEGASCALE_SLICES, w->slice_reason, "%zu", w->n_slices);
        set_text(d, MEGASCALE_SLICE, w->slice_reason, "%zu", w->slice);
        set_text(d, MEGASCALE_PORT, NULL, "%u", (unsigned) port);
        if (interfaces && interfaces[0] && !(theirs && init_args_get(theirs, INIT_ARG_INTERFACES, &len)))
                set_text(d, INIT_ARGS,
                         theirs ? "your flags, and the data-centre NICs of this host"
                                : "the data-centre NICs of this host",
                         "%s%s--" INIT_ARG_INTERFACES "=%s,lo", theirs ? theirs : "",
                         theirs && theirs[0] ? " " : "", interfaces);
}

/* Their own flag, which is JAX's, in a run of PyTorch. */
static int check_barrier(struct draft *d) {
        const char *args = environment_get(&d->e, "LIBTPU_INIT_ARGS");
        size_t len = 0;
        const char *value = args ? init_args_get(args, INIT_ARG_BARRIER, &len) : NULL;

        if (!value || len != strlen("true") || strncmp(value, "true", len) != 0 ||
            d->options->framework != FRAMEWORK_TORCH_XLA)
                return 0;
        return environment_complain(&d->e, "LIBTPU_INIT_ARGS",
                                    "--" INIT_ARG_BARRIER
                                    "=true is JAX's: runs of PyTorch over several hosts can hang with it, "
                                    "say false");
}

/* --- Ray ----------------------------------------------------------------------------------------------- */

static int work_out_ray(struct draft *d) {
        const char *outside = d->options->ray_head;
        const struct ray_host host = { .type = identity_get(d->identity, IDENTITY_ACCELERATOR_TYPE),
                                       .topology = identity_get(d->identity, IDENTITY_TOPOLOGY),
                                       .slice = d->world.slice_name,
                                       .worker = d->world.worker,
                                       .chips = d->chips };
        const char *address = outside;
        char head[WORLD_ENDPOINT_MAX];
        _cleanup_free_ char *about = NULL;

        if (outside && !ray_head_is_valid(outside))
                return text_fail(d->why, ENVIRONMENT_WHY_MAX, -EINVAL,
                                 "the head of Ray is HOST:PORT, not '%.80s'",
                                 environment_text_is_valid(outside) ? outside : "(binary)");
        about = ray_start_text(&host);
        if (!about)
                return -ENOMEM;
        if (!outside)
                address = world_endpoint(d->world.coordinator, d->world.port, head);
        set_text(d, RAY_HEAD, outside ? "the head that was named" : d->world.coordinator_reason, "%s",
                 address);
        if (!outside && d->world.rank == 0)
                set_text(d, RAY_START, "this host is the head: ray start $TPU_RAY_START --block",
                         "--head --port=%" PRIu32 " %s", (uint32_t) d->world.port, about);
        else
                set_text(d, RAY_START, "this host joins the head: ray start $TPU_RAY_START --block",
                         "--address=%s %s", address, about);
        if (d->world.n_hosts > 1)
                set_text(d, RAY_WHOLE_HOSTS, NULL, "1");
        return 0;
}

/* --- The run ------------------------------------------------------------------------------------------- */

static int work_out_world(struct draft *d) {
        const char *interfaces = d->options->interfaces;
        const struct world *w = &d->world;

        if ((d->runs & TORCH) && !w->known)
                return refuse_missing(d, identity_get(d->identity, IDENTITY_WORKER_ID) ?
                                                 IDENTITY_WORKER_HOSTNAMES :
                                                 IDENTITY_WORKER_ID);
        set_text(d, COORDINATOR, w->coordinator_reason, "%s", w->coordinator);
        set_text(d, COORDINATOR_PORT, NULL, "%u", (unsigned) w->port);
        set_text(d, RANK, NULL, "%zu", w->rank);
        set_text(d, SIZE, NULL, "%zu", w->size);
        if (interfaces && interfaces[0])
                set_text(d, INTERFACES, NULL, "%s", interfaces);
        return 0;
}

/*
 * Where JAX's process 0 listens: every version reads it, and an IPv6 address stays whole. A port of the
 * user's is in it; who names a coordinator of his own is left to him.
 */
static void work_out_jax(struct draft *d) {
        const char *theirs = environment_get(&d->e, "JAX_COORDINATOR_PORT");
        uint32_t port = d->world.port;
        char endpoint[WORLD_ENDPOINT_MAX], why[96];

        if (d->runs & RAY) /* the port of the world is Ray's own */
                port = port == PORT_JAX ? PORT_JAX_NEW : PORT_JAX;
        if (environment_get(&d->e, "MEGASCALE_COORDINATOR_ADDRESS") ||
            (theirs && (config_parse_u32(theirs, &port, why) < 0 || port == 0 || port > UINT16_MAX)))
                return;
        set_text(d, JAX_COORDINATOR, d->world.coordinator_reason, "%s",
                 world_endpoint(d->world.coordinator, (uint16_t) port, endpoint));
}

static void work_out_run(struct draft *d) {
        const struct environment_gang *g = d->options->gang;
        const struct world *w = &d->world;
        char endpoint[WORLD_ENDPOINT_MAX];

        if (g->run)
                set_text(d, RUN_NAME, NULL, "%s", g->run);
        set_text(d, RUN_GENERATION, NULL, "%" PRIu64, g->generation);
        set_text(d, RUN_SLICES, NULL, "%zu", w->n_slices);
        set_text(d, RUN_SLICE, w->name_reason, "%zu", w->slice);
        set_text(d, RUN_HOSTS, NULL, "%zu", w->size);
        set_text(d, RUN_RANK, NULL, "%zu", w->rank);
        set_text(d, RUN_COORDINATOR, w->coordinator_reason, "%s",
                 w->port > 0 ? world_endpoint(w->coordinator, w->port, endpoint) : w->coordinator);
}

/* --- Building ------------------------------------------------------------------------------------------ */

static int add_user(struct draft *d) {
        const struct environment_options *o = d->options;
        int r = 0;

        if (o->n_user > ENVIRONMENT_USER_MAX)
                return text_fail(d->why, ENVIRONMENT_WHY_MAX, -EINVAL, "%zu variables are more than %d",
                                 o->n_user, ENVIRONMENT_USER_MAX);
        for (size_t u = 0; u < o->n_user && r == 0; u++)
                r = environment_add_user(&d->e, o->user[u], d->why);
        return r;
}

static int add_variables(struct draft *d) {
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(variables) && r == 0; i++) {
                enum text t = variables[i].text;
                const char *value = t == FIXED ? variables[i].fixed : d->texts[t].value;
                const char *reason = variables[i].reason ? variables[i].reason : d->texts[t].reason;

                if (!(variables[i].runs & d->runs) || !value)
                        continue;
                r = (t == INIT_ARGS ? environment_extend : environment_add)(&d->e, variables[i].name, value,
                                                                            reason);
                if (r == -E2BIG) {
                        (void) snprintf(d->why, ENVIRONMENT_WHY_MAX, "%s is longer than a variable can be",
                                        variables[i].name);
                        r = -ENODATA;
                }
        }
        return r;
}

static int check_options(const struct environment_options *o, char why[static ENVIRONMENT_WHY_MAX]) {
        bool chip = o->process_per_chip && o->framework != FRAMEWORK_TORCH_XLA;

        if (!chip && (!o->ray_head || o->framework == FRAMEWORK_RAY))
                return o->framework < _FRAMEWORK_MAX ? 0 : -EINVAL;
        return text_fail(why, ENVIRONMENT_WHY_MAX, -EINVAL, "%s, not for %s",
                         chip ? "one process per chip is for torch_xla" : "a head of Ray is for ray",
                         framework_name(o->framework));
}

static int build(struct draft *d) {
        int r = add_user(d);

        if (r == 0)
                r = world_of(d->identity, d->options, framework_port(d->options->framework), &d->world,
                             d->why);
        if (r == 0)
                r = work_out_world(d);
        if (r == 0)
                r = work_out_identity(d);
        if (r == 0 && (d->runs & TPU))
                r = work_out_bounds(d);
        if (r == 0 && (d->runs & CHIP))
                r = work_out_chip(d);
        if (r == 0 && (d->runs & RAY))
                r = work_out_ray(d);
        if (r < 0)
                return r;
        if (d->runs & TPU) {
                work_out_megascale(d);
                work_out_jax(d);
        }
        if (d->options->gang)
                work_out_run(d);
        r = d->no_memory ? -ENOMEM : add_variables(d);
        return r == 0 && (d->runs & TPU) ? check_barrier(d) : r;
}

int environment_build(const struct identity *i, const struct environment_options *o, struct environment *ret,
                      char why[static ENVIRONMENT_WHY_MAX]) {
        struct draft d = { .identity = i, .options = o, .world = WORLD_NULL, .why = why };
        int r;

        why[0] = '\0';
        r = check_options(o, why);
        if (r < 0)
                return r;
        d.runs = o->process_per_chip ? CHIP : frameworks[o->framework].runs;
        r = build(&d);
        if (r == 0)
                *ret = d.e;
        else
                environment_clear(&d.e);
        for (size_t t = 0; t < ELEMENTSOF(d.texts); t++)
                free(d.texts[t].value);
        world_clear(&d.world);
        return r;
}
