/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A room of its own because tpuctl serves probes, too, and worker.h's other users do not ask for owners. The
 * child's side: runs one probe, with nothing but the host and, where it asks for them, the devices' owners,
 * and writes worker.h's lines to standard output. Returns the exit code; program is named when there is no
 * such probe (EXIT_USAGE).
 */
#include "host.h"

int probe_serve(const char *program, const struct host *h, const char *name);
