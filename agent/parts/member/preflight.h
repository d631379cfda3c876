/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is looked at before a run starts on this host: what tpu-launchd would say (grant, user, command,
 * devices), the ports of the run between its hosts, the names of its slice's workers, full-size packets to
 * peers. In the loop, over within PREFLIGHT_TIME.
 * What is wrong is a refusal that names the host and the remedy; what cannot be known is a warning and
 * refuses nothing.
 */
#include <systemd/sd-event.h>

#include "host.h"
#include "intent.h"
#include "local_call.h"
#include "run_ports.h"
#include "run_record.h"

#define PREFLIGHT_TIME (10 * USEC_PER_SEC)
#define PREFLIGHT_PEERS 16 /* that packets are sent to: the next ones in the run's order */
#define PREFLIGHT_TEXT_MAX 480
#define PREFLIGHT_IMAGE_SIZE 65 /* 64 hexadecimal digits and NUL */

struct preflight_options {
        const struct host *host;
        const struct intent *intent;
        const char *launchd_socket; /* NULL: none */
        const json_t *run;          /* borrowed until done */
        const char *name, *slice;   /* of this host */
        const char *workers;        /* the list of its slice; NULL: not known */
        unsigned worker;
        bool chips; /* this host has some: libtpu will speak with its peers */
        const Local__RunRequest *request;
};

struct preflight_result {
        bool refused;
        bool final; /* asked again it is refused again: its user or its program is not there */
        char image[PREFLIGHT_IMAGE_SIZE]; /* which one its image's name means here; empty: not known */
        /* Why, and the remedy after a line feed; or the warnings, "; " between; or empty. */
        char text[PREFLIGHT_TEXT_MAX];
};

/* A machine that has just booted may lack what comes a moment later: mounts, the directory of its users. */
#define START_SETTLED (300 * USEC_PER_SEC)

/* tpu-launchd says that the user, the directory or the program of a run is not there. up: since the boot. */
static inline bool start_is_final(const struct local_answer *a, usec_t up) {
        return !a->no_answer && (a->error == -ENOENT || a->error == -ESRCH) && up > START_SETTLED;
}

struct preflight;
/* done is called once, from the loop, and may free it. */
int preflight_new(sd_event *e, const struct preflight_options *o,
                  void (*done)(const struct preflight_result *r, void *userdata), void *userdata,
                  struct preflight **ret);
struct preflight *preflight_free(struct preflight *p);
DEFINE_CLEANUP(struct preflight *, preflight_free)
