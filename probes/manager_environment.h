/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The environment that systemd's manager gives to every service: files, kernel command line and systemctl
 * set-environment together, as the manager itself says over D-Bus (org.freedesktop.systemd1.Manager,
 * Environment). With a root other than "/": the lines of /systemd/environment there, else -ENODATA.
 */
#include "base.h"
#include "host.h"

/*
 * Calls visit with each KEY=VALUE. -ENOENT: there is no systemd; -errno when it does not answer, at most 1 s
 * later.
 */
int manager_environment_visit(const struct host *h, void (*visit)(const char *assignment, void *userdata),
                              void *userdata);
