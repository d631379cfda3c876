/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The arithmetic of TPU slices: which words of an identity are well formed, how the chips of a slice lie on
 * its hosts, and from an accelerator type, and what else is known, to chips, hosts and bounds. Pure.
 *
 *   generation  suffix counts  chips on a host          topology   torus
 *   v2, v3      cores, 2/chip  4                        AxB        v2: no source; v3: none
 *   v4, v5p     cores, 2/chip  4                        AxBxC      all, when each is 4 or more
 *   v5litepod   chips          1, 4 or 8; 4 in a pod    AxB        each one of 16
 *   v6e         chips          1, 4 or 8; 4 in a pod    AxB        each one of 16
 *   tpu7x       cores, 2/chip  4; 1 in a slice of one   AxBxC      all, when each is 4 or more
 *
 * Sources: cores per chip and chips per host: python/ray/_private/accelerators/tpu.py of Ray, axlearn's and
 * xpk's system_characteristics.py; bounds of a host: util.go of the GKE DRA driver for TPUs; torus: the GKE
 * device plugin; host bounds of v2 and v3: torch_xla's tpu.py. v5e is another name of v5litepod, v7x of
 * tpu7x (Ray). Of the words: the public GKE device plugin and Ray. Accelerator types match
 * ^(v|tpu)[0-9]+[a-zA-Z]*-[0-9]+$; chips on a host form a box of 1 → 1,1,1; 2 → 1,2,1; 4 → 2,2,1; 8 → 2,4,1.
 */
#include "base.h"

#define SHAPE_CHIPS_MAX (1024 * 1024) /* in one slice; the largest known has 12,288 */
#define SHAPE_TEXT_MAX  40

struct shape {
        uint32_t size[3]; /* a topology of two dimensions has 1 in the third */
};

/* "4x4" or "4x4x8". -EINVAL for anything else, a zero, or more than SHAPE_CHIPS_MAX chips. */
int shape_parse_topology(const char *text, struct shape *ret);
/* "2,2,1", with the same bounds. */
int shape_parse_bounds(const char *text, struct shape *ret);
/* The box of chips of one host. -ENODATA when no such host exists. */
int shape_of_host(uint32_t chips, struct shape *ret);
/* How many hosts each dimension of the slice has. -EDOM when the hosts' boxes do not fill it. */
int shape_hosts(const struct shape *slice, const struct shape *host, struct shape *ret);
uint32_t shape_count(const struct shape *s);
/* "2,2,1" */
const char *shape_text(const struct shape *s, char buf[static SHAPE_TEXT_MAX]);

bool accelerator_type_is_valid(const char *text);
/* A host name or address: letters, digits and ".-_:", 1…253 characters. */
bool worker_name_is_valid(const char *text, size_t len);
/* A name of a zone or machine type: letters, digits and ".-_", 1…63 characters. */
bool label_is_valid(const char *text);
/*
 * A name of a slice: a label that Ray takes as the value of a label of its own, which begins and ends with a
 * letter or digit, and as the name of a resource, which none of its own resources has ("TPU").
 */
bool slice_name_is_valid(const char *text);

enum generation {
        GENERATION_V2,
        GENERATION_V3,
        GENERATION_V4,
        GENERATION_V5E,
        GENERATION_V5P,
        GENERATION_V6E,
        GENERATION_V7X,
        _GENERATION_MAX,
};
/* As accelerator types begin: "v5litepod", "tpu7x", … */
const char *generation_name(enum generation g);

struct accelerator {
        enum generation generation;
        uint32_t suffix; /* "v4-256": 256 */
        uint32_t chips; /* of the slice */
};
/* -EINVAL: not of the form; -ENODATA: a generation that is not known here; -EDOM: no slice has that size. */
int accelerator_parse(const char *type, struct accelerator *ret);
/* As frameworks write it: "v5litepod-16", not "v5e-16". */
const char *accelerator_text(const struct accelerator *a, char buf[static SHAPE_TEXT_MAX]);

/* "ct6e-standard-4t": v6e, 4 chips a host. -ENODATA: not a TPU machine type that is known here. */
int topology_machine(const char *machine_type, enum generation *ret_generation, uint32_t *ret_chips);

struct topology {
        struct shape size; /* chips in each dimension */
        struct shape box; /* of them on one host: TPU_CHIPS_PER_HOST_BOUNDS */
        struct shape hosts; /* hosts in each dimension: TPU_HOST_BOUNDS */
        uint32_t chips, n_hosts, chips_per_host;
        bool wrap[3]; /* the dimension is a ring */
        bool wrap_known; /* no public source says it for v2 */
};
/*
 * size: "4x4", NULL: the usual one of a two-dimensional generation. chips_per_host: 0: the usual one.
 * -ENODATA: a three-dimensional generation without size; -EDOM: it does not fit together, why says what
 * (found and wanted); -EINVAL: size is none.
 */
#define TOPOLOGY_WHY_MAX 128
int topology_of(const struct accelerator *a, const char *size, uint32_t chips_per_host, struct topology *ret,
                char why[static TOPOLOGY_WHY_MAX]);

/* "true,true,false" */
#define TOPOLOGY_WRAP_MAX 24
const char *topology_wrap_text(const struct topology *t, char buf[static TOPOLOGY_WRAP_MAX]);
/* "4x4" or "4x4x8", as the generation writes it. */
const char *topology_size_text(enum generation g, const struct shape *size, char buf[static SHAPE_TEXT_MAX]);
