/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An environment while it is made: what its parts share. draft_*.c files add to it; each returns 0, -ENODATA
 * or -EINVAL with why, or -ENOMEM.
 */
#include "shape.h"
#include "world.h"

struct draft {
        const struct identity *identity;
        const struct environment_options *options;
        struct world world;
        struct environment e;
        char *why; /* ENVIRONMENT_WHY_MAX */
};

struct draft_variable {
        const char *name, *value, *reason;
        bool wanted;
};
/* Those of them that are wanted. */
int draft_add(struct draft *d, const struct draft_variable *v, size_t n);
int draft_add_number(struct draft *d, const char *name, uint64_t value, const char *reason);

/* Says that the framework needs the field. -ENODATA. */
int draft_missing(const struct draft *d, enum identity_field f);

/* draft_tpu.c: how the chips of this slice lie on its hosts. */
struct draft_bounds {
        struct shape box, hosts; /* chips of a host, hosts of the slice */
        char box_text[SHAPE_TEXT_MAX], hosts_text[SHAPE_TEXT_MAX], reason[96];
        uint32_t chips; /* of this host */
        bool seventh; /* its process bounds are left out */
};
int draft_bounds(const struct draft *d, struct draft_bounds *ret);
/* What every program may use; required: by a framework that reads it as a whole. */
int draft_add_identity(struct draft *d, bool required);
/* Bounds, metrics' ports, and no metadata server; per_host: with the bounds of one process per host. */
int draft_add_libtpu(struct draft *d, const struct draft_bounds *b, bool per_host);
/* Multislice: nothing when there is one slice. */
int draft_add_megascale(struct draft *d);

/* draft_frameworks.c */
int draft_add_jax(struct draft *d);
int draft_add_torch_xla(struct draft *d);
int draft_add_torch(struct draft *d);
/* draft_ray.c */
int draft_add_ray(struct draft *d);
