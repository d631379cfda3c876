/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the metadata server of Compute Engine says about this host, and the reading of its answers. Pure.
 *
 * Sources: Google Compute Engine documentation, "View and query VM metadata" (base URL, header); the forms
 * of machine-type and of mac, mtu and ip: the answers in salrashid123/gce_metadata_server config.json
 * (02c89dd); waiting with an ETag: google-guest-agent. Not read in any source: that JSON answers say
 * application/json.
 */
#include <jansson.h>

#include "base.h"
#include "identity.h"

/* worker-network-endpoints of the largest slice: 2,304 hosts of at most some 100 bytes */
#define METADATA_BODY_MAX (256 * 1024)
#define METADATA_NICS_MAX 32 /* a virtual machine has fewer; more is no answer of this server */
#define METADATA_WHY_MAX  128

struct metadata_nic {
        uint8_t mac[6];
        uint32_t mtu; /* of the network that the NIC is in; 0: not said */
        char ip[16]; /* IPv4; empty: not said */
};

enum metadata_key {
        METADATA_NICS, /* the first that is asked for: an MTU waits for it */
        METADATA_MACHINE_TYPE,
        METADATA_NAME,
        METADATA_TPU_ENV, /* of these, one before has the first say about a field */
        METADATA_ENDPOINTS,
        METADATA_WORKER,
        METADATA_ACCELERATOR,
        METADATA_SLICE,
        METADATA_ZONE,
        METADATA_ID,
        METADATA_PREEMPTIBLE,
        _METADATA_KEY_MAX,
};

struct metadata_facts {
        char machine_type[64], name[64]; /* empty: not known */
        struct metadata_nic nics[METADATA_NICS_MAX];
        size_t n_nics;
        /* What each key from METADATA_TPU_ENV on says of each field, NULL: nothing; its own until
         * metadata_facts_clear(). Texts alone: a struct identity has room for where each is from. */
        char *said[_METADATA_KEY_MAX][_IDENTITY_FIELD_MAX];
};
void metadata_facts_clear(struct metadata_facts *f);
#define _cleanup_metadata_facts_ _cleanup_(metadata_facts_clear)
/* What a key says now, in place of what it said before: the texts of i are taken over. */
void metadata_facts_say(struct metadata_facts *f, enum metadata_key k, struct identity *i);
/* A copy with texts of its own. -ENOMEM: *ret is untouched. */
int metadata_facts_copy(const struct metadata_facts *f, struct metadata_facts *ret);
/* Adds what is known to an identity that knows nothing better. -ENOMEM. */
int metadata_facts_fill(const struct metadata_facts *f, const char *origin, struct identity *i);

/* Path and query after "…/computeMetadata/v1/". */
const char *metadata_key_path(enum metadata_key k);
/* Whether it is an attribute, which a server may well not have. */
bool metadata_key_is_attribute(enum metadata_key k);

struct metadata_answer {
        long status;
        const char *content_type; /* NULL: none */
        bool flavored; /* had the header "Metadata-Flavor: Google" */
        const void *body;
        size_t len;
};

/*
 * Takes an answer into *f, which is untouched on failure; why then says what is wrong, and after success
 * what was passed over (empty: nothing). -EAGAIN: the server is busy or broken (429, 5xx); -ENOENT: it does
 * not have the key (404); -EBADMSG: this is not the metadata server (another status, no flavor, a page of
 * HTML) or not an answer that we understand; -ENOMEM.
 */
int metadata_take(struct metadata_facts *f, enum metadata_key k, const struct metadata_answer *a,
                  char why[static METADATA_WHY_MAX]);
/* The part of it that is the same for every key: whether it is the metadata server's answer at all. */
int metadata_answer_check(const struct metadata_answer *a, char why[static METADATA_WHY_MAX]);
bool metadata_facts_equal(const struct metadata_facts *a, const struct metadata_facts *b);

/* An array of {"mac", "mtu", "ip", …} into nics. -EBADMSG with why. */
int metadata_nics_parse(const json_t *array, struct metadata_facts *f, char why[static METADATA_WHY_MAX]);

/*
 * instance/upcoming-maintenance?alt=json: a maintenance of the host's machine that is planned, days ahead as
 * a rule. Its keys are written windowStartTime (Cloud TPU, "View maintenance notifications") or
 * window_start_time (Compute Engine, "Monitor and plan for a host maintenance event"); nothing planned is
 * {}, {"error": "no notifications have been received yet, try again later"} or NONE.
 */

#define METADATA_UPCOMING_MAX 256

/* Whether one is planned; then text is one printable line of it: "SCHEDULED, PENDING, 2026-12-01T19:00:01Z
 * to …". */
bool metadata_upcoming_parse(const char *value, char text[static METADATA_UPCOMING_MAX]);
