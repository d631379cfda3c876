/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Machines on which a run cannot be started as promised, so that it is said at the start and not found out
 * later:
 *   no systemd               its first process is another: runs are services of systemd
 *   Container-Optimized OS   os-release(5) says ID=cos (as google/osv-scalibr's extractor for it has it);
 *                            root is read-only, there is no package of ours, libtpu or Python: everything
 *                            runs in containers
 *   a Kubernetes pod         /proc/self/cgroup names "kubepods", the kubelet's cgroup of all pods
 *                            (kubernetes/kubernetes, pkg/kubelet/cm/node_container_manager_linux.go), or
 *                            KUBERNETES_SERVICE_HOST is set, as the kubelet does in every container
 *                            (pkg/kubelet/envvars/envvars.go): processes belong to the pod and end with it
 */
#include "host.h"
#include "problem.h"

/* Whether systemd is the machine's first process: sd_booted(3), through the seam. */
bool platform_has_systemd(const struct host *h);

/* service_host: KUBERNETES_SERVICE_HOST of our own environment, or NULL. 0, or -EOPNOTSUPP with p. What
 * cannot be read refuses nothing. */
int platform_check(const struct host *h, const char *service_host, struct problem *p);
