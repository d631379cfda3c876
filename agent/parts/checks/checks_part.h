/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * "checks": the part that runs the probes (probes/probes.def): those that can block in processes of
 * tpu-hostd-probe. Their findings and samples carry the probe's number as source. A probe that could not
 * look leaves what is known of its checks as it was. All run at start, so that the host's state is known
 * when tpu-hostd says that it is ready, and whenever BUS_IDENTITY says that the wanted values were read
 * again.
 *
 * "contests": the part that reports contests over settings: an event when one begins, and one when it has
 * ended. At each tick it reads the file in which tpu-netcfg says which there are
 * (netcfg/intent/contested.h), and says in one of its own who sets them.
 */
#include "part.h"

extern const struct part checks_part, contests_part;
