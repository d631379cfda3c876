/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * hostd.conf: the sections [Hostd], [Api], [Uplink], [Health], [Metadata] and [Registry]. Each value's
 * bounds and default stand in one table in settings.c.
 */
#include "base.h"
#include "config.h"
#include "health.h"
#include "machine_state.h"
#include "policies.h"

struct settings_api { /* over TCP; on listen not at all without the files */
        char listen[64];
        char metrics_listen[64]; /* loopback, /metrics alone, without the files; empty: off */
        char certificate[256], key[256], client_ca[256]; /* as the files of the uplink */
        char readers[256], actors[256], denied[256]; /* as in name_list.h */
        char crl[256];
        bool tls12;
};

/* Who keeps slices and runs: docs/registry.md. */
struct settings_registry {
        char kind[64];      /* "auto", or a kind of registry.h */
        char endpoint[256]; /* of one to four collectors; empty: Endpoint= of [Hostd] */
        char tenant[64];
        char ca_file[256], cert_file[256], key_file[256], crl[256]; /* empty: those of the uplink */
        /* of this host, as its peers reach it; a comma list; empty: of its data-centre NICs */
        char address[256];
        usec_t splay;
};

struct settings {
        /* OTLP/HTTP base URLs, the preferred one first; empty: records stay in the spool */
        char endpoint[256];
        struct {
                char proxy[256];     /* empty: none */
                bool compression;
                usec_t timeout; /* of one exchange */
                /* each a path, or "credential:NAME" (systemd.exec(5)) */
                char ca_file[256], cert_file[256], key_file[256], crl[256];
        } uplink;
        usec_t metrics_interval;
        usec_t probe_interval;  /* of every probe; 0: each one's own */
        usec_t capture_timeout;
        uint64_t spool_bytes;   /* further bounded to 2 % of the disk */
        bool run_logs;          /* lines of runs go out */
        uint64_t run_log_bytes; /* of the spool, for them */
        char step_expression[256]; /* steps.h; empty: none */
        struct settings_api api;
        char api_socket[256], spool_directory[256];
        char launchd_socket[256], journal[256]; /* empty: the system's own on the real root, else none */
        struct health_policy health; /* of every check, but for policies */
        char state_file[256]; /* empty: as for launchd_socket */
        struct check_policies policies; /* what differs from these for some checks */
        char metadata_host[256]; /* an IP address; "none": no server is asked; empty: on the real root the
                                    well-known address, else none */
        char token_audience[256]; /* of the instance token; empty: none is wanted */
        usec_t metadata_copy_after; /* the server may be silent so long before its copy stands in */
        char metadata_copy[256], netcfg_socket[256]; /* empty: as for launchd_socket */
        struct settings_registry registry;
        char libtpu_ports[256]; /* "auto", or a list; empty: none */
        char stack_paths[256];  /* a list; empty: none */
};

#define SETTINGS_ITEMS 53
/* The configuration with its origins, for --show-config; config points into items. */
struct settings_source {
        struct config config;
        struct config_item items[SETTINGS_ITEMS];
};

/* Loads s; problems in content were logged and are counted in source->config.warnings. Clear with
 * config_clear(&source->config). */
int settings_load(struct settings *s, struct settings_source *source, const struct host *h,
                  const char *config_file);
/* What needs a restart to change is taken back from old, with a warning for each. source: of s. Returns how
 * many. */
unsigned settings_keep_fixed(struct settings *s, const struct settings_source *source,
                             const struct settings *old);
#define SETTINGS_PORTS_MAX 16
/* The ports of a list that was taken, at most SETTINGS_PORTS_MAX. */
size_t settings_libtpu_ports(const char *list, uint16_t ret[static SETTINGS_PORTS_MAX]);
#define SETTINGS_STACK_PATHS_MAX 4
#define SETTINGS_STACK_PATH_MAX 256
/* The paths of a list that was taken. */
size_t settings_stack_paths(const char *list,
                            char ret[static SETTINGS_STACK_PATHS_MAX][SETTINGS_STACK_PATH_MAX]);
/* The constants of one check's health. */
struct health_policy settings_policy(const struct settings *s, const char *check);
/*
 * What tpu-hostd keeps on the disk and what belongs to one machine, by path; the spool first. own: what is
 * not configured lies where it does on this machine, else nowhere. Beside the spool lies the file that names
 * the machine (machine_state.h), the last of the list. Whoever makes an image removes all of it, what was
 * set aside, and all that is in PATH_LAUNCHD_STATE and PATH_NETCFG_STATE.
 */
#define SETTINGS_STATE_MAX 6
size_t settings_state(const struct settings *s, bool own,
                      char ret[static SETTINGS_STATE_MAX][MACHINE_PATH_MAX]);
