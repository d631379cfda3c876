/* SPDX-License-Identifier: Apache-2.0 */
#include "draft.h"
#include "ports.h"

#define REMEDY "write it into [Identity] in /etc/tpu-hostd/identity.conf.d/ (see: tpuctl identity)"

/* --- Frameworks ---------------------------------------------------------------------------------------- */

static int add_plain(struct draft *d) {
        return draft_add_identity(d, false);
}

static const struct {
        const char *name;
        uint16_t port;
        int (*add)(struct draft *d);
} frameworks[] = {
        [FRAMEWORK_PLAIN] = { "plain", 0, add_plain },
        [FRAMEWORK_JAX] = { "jax", PORT_JAX, draft_add_jax },
        [FRAMEWORK_TORCH_XLA] = { "torch_xla", 0, draft_add_torch_xla },
        [FRAMEWORK_RAY] = { "ray", PORT_RAY, draft_add_ray },
        [FRAMEWORK_TORCH] = { "torch", PORT_TORCH, draft_add_torch },
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

/* --- Drafting ------------------------------------------------------------------------------------------ */

int draft_add(struct draft *d, const struct draft_variable *v, size_t n) {
        for (size_t i = 0; i < n; i++) {
                int r = v[i].wanted ? environment_add(&d->e, v[i].name, v[i].value, v[i].reason) : 0;

                if (r == -E2BIG) {
                        (void) snprintf(d->why, ENVIRONMENT_WHY_MAX, "%s is longer than a variable can be",
                                        v[i].name);
                        return -ENODATA;
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

int draft_add_number(struct draft *d, const char *name, uint64_t value, const char *reason) {
        char text[24];

        (void) snprintf(text, sizeof(text), "%" PRIu64, value);
        return draft_add(d, &(struct draft_variable){ name, text, reason, true }, 1);
}

int draft_missing(const struct draft *d, enum identity_field f) {
        (void) snprintf(d->why, ENVIRONMENT_WHY_MAX, "a %s run needs %s, which this host does not know; %s",
                        framework_name(d->options->framework), identity_field_name(f), REMEDY);
        return -ENODATA;
}

/* --- Building ------------------------------------------------------------------------------------------ */

static int add_user(struct draft *d) {
        const struct environment_options *o = d->options;

        if (o->n_user > ENVIRONMENT_USER_MAX) {
                (void) snprintf(d->why, ENVIRONMENT_WHY_MAX, "%zu variables are more than %d", o->n_user,
                                ENVIRONMENT_USER_MAX);
                return -EINVAL;
        }
        for (size_t u = 0; u < o->n_user; u++) {
                int r = environment_add_user(&d->e, o->user[u], d->why);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* What a training may want to know of its run, whatever the framework. */
static int add_run(struct draft *d) {
        const struct environment_gang *g = d->options->gang;
        const struct world *w = &d->world;
        char endpoint[WORLD_ENDPOINT_MAX], generation[24], slices[24], slice[24], hosts[24], rank[24];

        if (!g)
                return 0;
        (void) snprintf(generation, sizeof(generation), "%" PRIu64, g->generation);
        (void) snprintf(slices, sizeof(slices), "%zu", w->n_slices);
        (void) snprintf(slice, sizeof(slice), "%zu", w->slice);
        (void) snprintf(hosts, sizeof(hosts), "%zu", w->size);
        (void) snprintf(rank, sizeof(rank), "%zu", w->rank);
        const struct draft_variable ours[] = {
                { "TPU_RUN_NAME", g->run, "the run", g->run },
                { "TPU_RUN_GENERATION", generation, "1 at the first start, one more at each start after",
                  true },
                { "TPU_RUN_SLICES", slices, "slices in this generation of the run", true },
                { "TPU_RUN_SLICE", slice, w->name_reason, true },
                { "TPU_RUN_HOSTS", hosts, "hosts in this generation of the run", true },
                { "TPU_RUN_RANK", rank, "this host among all of the run", true },
                { "TPU_RUN_COORDINATOR",
                  w->port > 0 ? world_endpoint(w->coordinator, w->port, endpoint) : w->coordinator,
                  w->coordinator_reason, true },
        };
        return draft_add(d, ours, ELEMENTSOF(ours));
}

static int check_options(const struct environment_options *o, char why[static ENVIRONMENT_WHY_MAX]) {
        if (o->process_per_chip && o->framework != FRAMEWORK_TORCH_XLA) {
                (void) snprintf(why, ENVIRONMENT_WHY_MAX,
                                "one process per chip is for torch_xla, not for %s",
                                framework_name(o->framework));
                return -EINVAL;
        }
        if (o->ray_head && o->framework != FRAMEWORK_RAY) {
                (void) snprintf(why, ENVIRONMENT_WHY_MAX, "a head of Ray is for ray, not for %s",
                                framework_name(o->framework));
                return -EINVAL;
        }
        return o->framework < _FRAMEWORK_MAX ? 0 : -EINVAL;
}

int environment_build(const struct identity *i, const struct environment_options *o, struct environment *ret,
                      char why[static ENVIRONMENT_WHY_MAX]) {
        struct draft d = { .identity = i, .options = o, .world = WORLD_NULL, .why = why };
        int r;

        why[0] = '\0';
        r = check_options(o, why);
        if (r == 0)
                r = add_user(&d);
        if (r == 0)
                r = world_of(i, o, &d.world, why);
        if (r == 0)
                r = frameworks[o->framework].add(&d);
        if (r == 0)
                r = add_run(&d);
        if (r == 0)
                *ret = d.e;
        else
                environment_clear(&d.e);
        world_clear(&d.world);
        return r;
}
