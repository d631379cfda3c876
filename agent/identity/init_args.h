/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* LIBTPU_INIT_ARGS: flags of libtpu, separated by blanks, of the form --name=value or --name. Pure. */
#include "base.h"

#define INIT_ARG_INTERFACES "megascale_grpc_interface_prefixes"
#define INIT_ARG_DEBUG_PORT "megascale_debug_port"
/* JAX adds it as true where it is not there; torch_tpu's start-up turns true into false: "this can cause
 * distributed hangs". */
#define INIT_ARG_BARRIER "xla_tpu_use_enhanced_launch_barrier"

/* The value of the last flag of that name; NULL: not there. ret_len: without what follows. */
const char *init_args_get(const char *args, const char *name, size_t *ret_len);

/*
 * Which port belongs to whom on a TPU host, and the ports of a run that collide with none of them.
 *
 * Sources: 8431… runtime metrics (tpu-env of Cloud TPU); 8471 libtpu's mesh; 8476 torch_xla's tpu.py
 * (base_port) and JAX up to 0.8.0; 8482 JAX's coordinator since, which the firewall rule that comes with a
 * TPU does not open, as it does 8476 (jax#35905); 8080, 8081, 9915 Multislice (documentation, KubeRay's TPU
 * webhook, Ray's tutorial; the webhook: "8080 is used by Ray for metrics"); 6379, 8265, 10001, 8080 Ray;
 * 29000, 29001, 29005 Pathways; 9431 Orbax and Grain; 29500 torchrun.
 */
#define PORT_TPU_METRICS 8431 /* one for each chip, upwards */
#define PORT_TPU_PROCESS 8476 /* torch_xla, one process per chip: one for each, upwards */
#define PORT_JAX         8476
#define PORT_JAX_NEW     8482 /* where Ray has the other */
#define PORT_TORCH       29500
#define PORT_RAY         6379

/* Whose the port is by the sources above, or of this agent; NULL: nobody's. */
const char *port_owner(uint16_t port);

/*
 * The port for Multislice: 8081, unless libtpu's debug port (init_args, the user's LIBTPU_INIT_ARGS, may be
 * NULL), the coordinator or the processes are there; then 9915 and then 8080, this last not with Ray. 0 when
 * all are taken.
 */
uint16_t port_of_megascale(const char *init_args, uint16_t coordinator, bool ray);
