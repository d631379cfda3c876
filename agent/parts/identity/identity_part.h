/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that knows who this host is and what is wanted of it: static file, metadata server, topology,
 * profile. It writes bus->identity, intent, machine, context and the names beside them, keeps the last good
 * answers of the metadata server for a boot without it, and hands the network's own MTU to tpu-netcfg.
 * Checks: "identity…", "metadata". GET /v1/identity. Publishes BUS_IDENTITY whenever any of it was read
 * again, and BUS_NOTICE.
 */
#include "part.h"

extern const struct part identity_part;
