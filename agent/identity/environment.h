/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The environment of a run: complete and frozen, derived from the identity, for one framework, and from the
 * run's hosts when the run spans more than this host's own slice. What the user set is never overridden; a
 * difference is kept as a conflict. Pure.
 *
 * Every framework: TPU_NAME, TPU_ACCELERATOR_TYPE, TPU_TOPOLOGY, TPU_WORKER_ID, TPU_WORKER_HOSTNAMES as far
 * as known. Of a run over slices also the run's own: TPU_RUN_NAME, TPU_RUN_GENERATION (a training finds the
 * checkpoint of the generation before by it), TPU_RUN_SLICES, TPU_RUN_SLICE (index), TPU_RUN_HOSTS,
 * TPU_RUN_RANK (of this host, over all slices), TPU_RUN_COORDINATOR (host:port).
 *
 * plain: no more than that, no framework's rendezvous.
 * jax (one process per host): all of the first five, required; bounds, wrap, metrics ports,
 *   TPU_SKIP_MDS_QUERY=1, JAX_PLATFORMS=tpu,cpu, JAX_COORDINATOR_ADDRESS and _PORT. TPU_SKIP_MDS_QUERY turns
 *   JAX from the metadata server to these variables, which is why none of them may be missing, those of
 *   Multislice included. Its readers take any value of it for set, "0" and "" included. Source:
 *   cloud_tpu_cluster.py of JAX, torch_xla's tpu.py, and the public GKE device plugin.
 * torch_xla: the same without JAX's own and without the bounds of processes, which launch() makes itself and
 *   takes for the user's where they are there; PJRT_DEVICE=TPU and, one process per host, XLA_USE_SPMD=1;
 *   one per chip (`process_per_chip`), what configure_topology() of torch_xla's tpu.py sets for process
 *   `chip`. That is refused on tpu7x, whose four bounds torch_xla writes and cannot read.
 * ray: TPU_* and RAY_ADDRESS, and what JAX in its workers needs; TPU_RAY_START, the arguments of `ray start`
 *   for this host (ray_start.h): the head is worker 0 of slice 0 unless ray_head names one outside. In a
 *   slice of several hosts Ray leaves the bounds alone, which torch_xla in its workers needs.
 * torch: plain PyTorch, one process per host, what torchrun would set: MASTER_ADDR, MASTER_PORT, RANK,
 *   WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, GROUP_RANK; GLOO_SOCKET_IFNAME. No TPU is needed.
 *
 * Several slices (jax, torch_xla, ray): MEGASCALE_COORDINATOR_ADDRESS, MEGASCALE_NUM_SLICES,
 * MEGASCALE_SLICE_ID (these three also of one slice for jax and ray), MEGASCALE_PORT, and
 * --megascale_grpc_interface_prefixes in LIBTPU_INIT_ARGS, appended to the user's flags where they have
 * none. Ports: init_args.h. environment.def has the table.
 */
#include "environment_list.h"
#include "identity.h"

enum framework {
        FRAMEWORK_PLAIN,
        FRAMEWORK_JAX,
        FRAMEWORK_TORCH_XLA,
        FRAMEWORK_RAY,
        FRAMEWORK_TORCH,
        _FRAMEWORK_MAX,
};
const char *framework_name(enum framework f);
/* -EINVAL. */
int framework_parse(const char *name, enum framework *ret);
/* Where the framework's coordinator listens unless configured otherwise; 0: it has none. */
uint16_t framework_port(enum framework f);

/*
 * Who runs together: a run record of the registry. All is borrowed; all hosts give the same but slice,
 * worker and hosts.
 */
struct environment_gang {
        const char *run;
        uint64_t generation;
        const char *const *slices; /* their names */
        const uint32_t *sizes; /* how many hosts each of them has */
        size_t n_slices, slice, worker; /* slice, worker: this host */
        const char *const *hosts; /* of this slice: how each is reached, in the order of worker ids */
        const char *coordinator; /* NULL: worker 0 of slice 0, which is this slice then */
        uint16_t port; /* 0: the framework's */
};

struct environment_options {
        enum framework framework;
        const char *const *user; /* "KEY=VALUE"; of two for one name the later counts */
        size_t n_user;
        const struct environment_gang *gang; /* NULL: the slice of the identity alone */
        const char *interfaces; /* NICs of the data-centre network, "eth0,eth1"; NULL: not known */
        bool process_per_chip; /* torch_xla only */
        uint32_t chip; /* which process, then */
        const char *ray_head; /* "HOST:PORT" outside of the run; NULL: none */
};

#define ENVIRONMENT_USER_MAX 4096
#define ENVIRONMENT_WHY_MAX  256

/*
 * Returns 0; -EINVAL for an assignment that is none (named in why, without its value) or options that do not
 * fit together; -ENODATA when the framework needs a field that identity does not have (named in why, with
 * the remedy); -ENOMEM.
 */
int environment_build(const struct identity *i, const struct environment_options *o, struct environment *ret,
                      char why[static ENVIRONMENT_WHY_MAX]);
