/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who this host is, as the verbs show it: the static file, the environment of this command (GKE style), the
 * metadata server, and what follows from these. Of the metadata server it is tpu-hostd's last good copy that
 * counts; when GCE_METADATA_IP is set, as JAX reads it, that server is asked now, for 5 s at most. With
 * another --root the environment is not that host's and is not read.
 */
#include "host.h"
#include "identity.h"
#include "options.h"

/* What is passed over is said on standard error. -errno as of identity_load(). */
int own_identity(const struct host *h, const struct options *o, struct identity *ret);
