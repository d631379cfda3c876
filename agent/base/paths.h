/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where things are: directories, sockets, ports, users and unit names that more than one program must
 * agree on. docs/ and systemd/ repeat them; tests hold them together.
 */
#define PATH_VENDOR "/usr/lib/tpu-hostd"   /* vendor defaults: *.conf, *.conf.d/, profiles/ */
#define PATH_RUNTIME "/run/tpu-hostd"      /* runtime overrides *.conf.d/, api.sock */
#define PATH_TOLD "/run/tpu-hostd/told"    /* what tpu-hostd says to all; above it all is root's */
#define PATH_SITE "/etc/tpu-hostd"         /* the site's overrides: *.conf.d/ */
#define PATH_PROFILES PATH_VENDOR "/profiles"

#define PATH_HOSTD_STATE "/var/lib/tpu-hostd"
#define PATH_SPOOL PATH_HOSTD_STATE "/spool"
#define PATH_HEALTH_STATE PATH_HOSTD_STATE "/health.json"
#define PATH_METADATA_COPY PATH_HOSTD_STATE "/metadata.json"
#define PATH_HOSTD_SOCKET "/run/tpu-hostd/api.sock"

#define PATH_NETCFG_RUNTIME "/run/tpu-netcfg"
#define PATH_NETCFG_STATE "/var/lib/tpu-netcfg"
#define PATH_NETCFG_SOCKET "/run/tpu-netcfg/netcfg.sock"

#define PATH_LAUNCHD_RUNTIME "/run/tpu-launchd"
#define PATH_LAUNCHD_SOCKET "/run/tpu-launchd/launchd.sock"
#define PATH_LAUNCHD_STATE "/var/lib/tpu-launchd"

#define PATH_STACK_TOOL "/usr/bin/tpu-stack"
#define PATH_LAUNCHD_TOOL "/usr/sbin/tpu-launchd"

/* Debian's and Ubuntu's libgoogle-perftools4 (libtcmalloc-minimal4 is another file). */
#define PATH_TCMALLOC "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"

#define PATH_COLLECTOR_STATE "/var/lib/tpu-collectord"
#define PATH_COLLECTOR_PAGE  "/usr/share/tpu-collector/page"

#define USER_HOSTD "tpu-hostd"
#define GROUP_RUN "tpu-run" /* members may start and stop runs as themselves */

/* DESIGN: 4318 is OTLP/HTTP's own port; 9470 and 9471 are ours. */
#define PORT_OTLP 4318
#define PORT_COLLECTOR_API 9471
#define PORT_HOSTD_API 9470

/* A header that no web page can set (fetch standard, forbidden request headers): tpuctl's calls have it. */
#define HTTP_NO_PAGE "Sec-Tpu-Caller"

/*
 * A run NAME owns the slice tpu-run-NAME.slice and the service tpu-run-NAME.service in it. In the slice's
 * name each '-' of NAME is a '_' (no NAME holds one): systemd nests slices at '-', and tpu-run-a-b.slice
 * would lie inside the slice of run "a".
 */
#define RUN_UNIT_PREFIX "tpu-run-"

/* Open files of a run: MaxText's multihost_job.py ("ulimit -n 100000"), and Google's OS certification for
 * TPU7x. */
#define RUN_NOFILE 100000
