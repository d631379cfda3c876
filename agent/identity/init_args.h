/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * LIBTPU_INIT_ARGS: flags of libtpu, separated by blanks, of the form --name=value or --name. Pure.
 */
#include "base.h"

#define INIT_ARG_INTERFACES "megascale_grpc_interface_prefixes"
#define INIT_ARG_DEBUG_PORT "megascale_debug_port"
/* JAX adds it as true where it is not there; torch_tpu's start-up turns true into false: "this can cause distributed hangs". */
#define INIT_ARG_BARRIER    "xla_tpu_use_enhanced_launch_barrier"
#define INIT_ARGS_LINT_MAX  512

/* The value of the last flag of that name; NULL: not there. ret_len: without what follows. */
const char *init_args_get(const char *args, const char *name, size_t *ret_len);

/*
 * What is wrong with it: a word that is no flag, a flag given twice (with two values: absl takes the last),
 * a debug port that is another's, prefixes of NICs that this host does not have (interfaces "eth0,eth1";
 * NULL: not known), JAX's launch barrier in a run of PyTorch (torch). Sentences separated by "; ". False: nothing, buf is
 * empty then.
 */
bool init_args_lint(const char *args, const char *interfaces, uint16_t megascale_port, bool torch,
                    char buf[static INIT_ARGS_LINT_MAX]);
