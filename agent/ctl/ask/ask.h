/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whom tpuctl asks: tpu-hostd (docs/api.md) and tpu-launchd over their local sockets, and a collector over
 * the network. Each call is blocking and bounded in time: 0 and the answer, or -errno with a problem, which
 * names the service when nobody answers.
 */
#include <jansson.h>

#include "config.h"
#include "frame.h"
#include "http.h"
#include "local.pb-c.h"
#include "options.h"
#include "paths.h"
#include "problem.h"

/* "tpuctl: TEXT" and "to do: REMEDY" on standard error, harmless for a terminal; returns the exit code that
 * fits. */
int problem_complain(const struct problem *p);

/* --- tpuctl.conf, section [Ctl] ------------------------------------------------------------------------ */

struct ctl_certificates { /* PEM files; empty: the system's authorities, no certificate of one's own */
        char ca[256], certificate[256], key[256], crl[256];
};

struct ctl_settings {
        char collector_url[256];
        bool collector_configured; /* it is no default */
        struct ctl_certificates collector, agents;
};

/* -errno after saying what is wrong. */
int ctl_settings_load(const struct options *o, struct ctl_settings *ret);

/* --- This host ----------------------------------------------------------------------------------------- */

#define HOSTD_TIMEOUT (5 * USEC_PER_SEC)

/* method: NULL is GET. */
int hostd_call(const char *root, const char *method, const char *path, usec_t timeout, json_t **ret,
               struct problem *problem);

/*
 * Sends m as kind and waits for a frame of kind want: a message of this type. -errno with problem set:
 * nobody there, launchd's own refusal with its remedy, or what is no such message.
 */
int launchd_ask(const char *root, uint16_t kind, const ProtobufCMessage *m, uint16_t want,
                const ProtobufCMessageDescriptor *type, usec_t timeout, ProtobufCMessage **ret,
                struct problem *problem);
static inline void launchd_reply_freep(ProtobufCMessage **m) {
        protobuf_c_message_free_unpacked(*m, NULL);
}
#define _cleanup_launchd_reply_ _cleanup_(launchd_reply_freep)

/* The runs that tpu-launchd has: this one, or all (NULL). The same shape as GET /v1/runs, without steps:
 * launchd reads no logs. -errno with problem set. */
int runs_of_launchd(const char *root, const char *name, json_t **ret, struct problem *problem);

/* The answer is not what its kind promises. */
int launchd_garbled(struct problem *problem);

/* --- The agent of another host, over TCP --------------------------------------------------------------- */

/* Fills in how it is asked; to: its name or address, url: room for the request's. */
#define AGENT_URL_MAX 320
void agent_request(const struct ctl_certificates *tls, const char *to, const char *path,
                   char url[static AGENT_URL_MAX], struct http_question *q);

/* --- A collector --------------------------------------------------------------------------------------- */

#define COLLECTOR_DEFAULT    "http://127.0.0.1:" AS_TEXT(PORT_COLLECTOR_API)
#define COLLECTOR_TIMEOUT    (15 * USEC_PER_SEC)

/* A row of a verb's options. */
#define COLLECTOR_HELP \
        "where the collector's API is (of several: with blanks between); default: tpuctl.conf, else " \
        COLLECTOR_DEFAULT
#define OPTION_COLLECTOR(url) { "collector", "URL", COLLECTOR_HELP, url, NULL }

struct collector {
        char urls[CONFIG_URLS_MAX][256]; /* without a slash at their ends */
        size_t n;
        struct ctl_certificates tls;
        bool configured; /* by a person; else it is the default */
};

/* given: --collector, else Collector= counts; URLs with blanks between. -errno after saying what is
 * wrong. */
int collector_open(const struct options *o, const char *given, struct collector *ret);

/* body: JSON or NULL; wait: how long the collector itself may take besides. An answer without text is an
 * empty object. One that does not lead names the one that does, which is then asked. Where one does not
 * answer the next is asked; what changes something and may have arrived is not said again. Who answered is
 * the first of urls from then on: it is asked first the next time. */
int collector_call(struct collector *c, const char *method, const char *path, const char *body,
                   usec_t wait, json_t **ret, struct problem *problem);

/* Adds "&KEY=VALUE" (the first one with "?"), escaped, to a path; nothing when value is NULL. -ENAMETOOLONG,
 * -ENOMEM. */
int path_parameter(char *path, size_t size, const char *key, const char *value);

/* --- Asking again -------------------------------------------------------------------------------------- */

/*
 * What was refused for a moment is asked again: who asks for stacks while somebody else's are being taken
 * waits, and need not type it again. As long as the other side says (Retry-After), AGAIN_MAX
 * together; a wait longer than AGAIN_QUIET is reported on standard error.
 */
#define AGAIN_MAX   (10 * USEC_PER_SEC)
#define AGAIN_QUIET USEC_PER_SEC

struct again {
        usec_t waited;
        bool said;
};
#define AGAIN_NULL ((struct again){ 0 })

/* Sleeps if the problem is one that goes away by itself: true: ask again. False: it is not, or waiting for
 * it would be longer than AGAIN_MAX. program: "tpuctl stack". */
bool again_wait(struct again *a, const struct problem *p, const char *program);
