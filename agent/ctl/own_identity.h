/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who this host is, as tpuctl identity and env show it and as tpuctl run gives it to a run: the static
 * file, the environment of this command (GKE style), the metadata server, and what follows from these. Of
 * the metadata server tpu-hostd's last good copy counts, or what tpu-hostd answers where only root may read
 * that. With another --root the environment is not that host's and is not read.
 */
#include "ask.h"
#include "host.h"
#include "identity.h"

/* What is passed over is said on standard error. -errno as of identity_load(). */
int own_identity(const struct host *h, const struct options *o, struct identity *ret);

/* The same for a RunRequest: tpu-launchd, which reads the static file alone, adds these. Borrows from i. */
struct identity_facts {
        Local__World world;
        Local__Fact items[_IDENTITY_FIELD_MAX], *list[_IDENTITY_FIELD_MAX];
};
void identity_facts_fill(const struct identity *i, struct identity_facts *ret);
