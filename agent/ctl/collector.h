/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The collector that tpuctl asks: its URL (--collector, else Collector= in section [Ctl] of tpuctl.conf),
 * and the certificates for it (CollectorCa=, CollectorCertificate=, CollectorKey=).
 */
#include <jansson.h>

#include "options.h"
#include "paths.h"
#include "problem.h"
#include "ctl_settings.h"

#define COLLECTOR_TEXT_OF(x) #x
#define COLLECTOR_TEXT(x)    COLLECTOR_TEXT_OF(x)
#define COLLECTOR_DEFAULT    "http://127.0.0.1:" COLLECTOR_TEXT(PORT_COLLECTOR_API)
#define COLLECTOR_TIMEOUT    (15 * USEC_PER_SEC)

struct collector {
        char url[256]; /* without a slash at its end */
        struct ctl_certificates tls;
        bool configured; /* by a person; else it is the default */
};

/* -errno after saying what is wrong. */
int collector_open(const struct options *o, const char *given, struct collector *ret);

/* One GET; wait: how long the collector itself may take besides. 0 and a new reference, or -errno with
 * problem set. */
int collector_ask(const struct collector *c, const char *path, usec_t wait, json_t **ret,
                  struct problem *problem);

/* The same with another method, of a call that acts; an answer without text is an empty object. */
int collector_act(const struct collector *c, const char *method, const char *path, json_t **ret,
                  struct problem *problem);

/* Adds "&KEY=VALUE" (the first one with "?"), escaped, to a path; nothing when value is NULL. -ENAMETOOLONG,
 * -ENOMEM. */
int collector_parameter(char *path, size_t size, const char *key, const char *value);
