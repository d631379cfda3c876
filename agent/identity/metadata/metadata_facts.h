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

#define METADATA_BODY_MAX (64 * 1024)
#define METADATA_NICS_MAX 32 /* a virtual machine has fewer; more is no answer of this server */
#define METADATA_WHY_MAX 128

struct metadata_nic {
        uint8_t mac[6];
        uint32_t mtu; /* of the network that the NIC is in; 0: not said */
        char ip[16];  /* IPv4; empty: not said */
};

struct metadata_facts {
        char machine_type[64], name[64]; /* empty: not known */
        struct metadata_nic nics[METADATA_NICS_MAX];
        size_t n_nics;
};

enum metadata_key {
        METADATA_NICS, /* the first that is asked for: an MTU waits for it */
        METADATA_MACHINE_TYPE,
        METADATA_NAME,
        _METADATA_KEY_MAX,
};

/* Path and query after "…/computeMetadata/v1/". */
const char *metadata_key_path(enum metadata_key k);

struct metadata_answer {
        long status;
        const char *content_type; /* NULL: none */
        bool flavored;            /* had the header "Metadata-Flavor: Google" */
        const void *body;
        size_t len;
};

/*
 * Takes an answer into *f, which is untouched on failure; why then says what is wrong. -EAGAIN: the server
 * is busy or broken (429, 5xx); -ENOENT: it does not have the key (404); -EBADMSG: this is not the metadata
 * server (another status, no flavor, a page of HTML) or not an answer that we understand.
 */
int metadata_take(struct metadata_facts *f, enum metadata_key k, const struct metadata_answer *a,
                  char why[static METADATA_WHY_MAX]);
bool metadata_facts_equal(const struct metadata_facts *a, const struct metadata_facts *b);

/* An array of {"mac", "mtu", "ip", …} into nics. -EBADMSG with why. */
int metadata_nics_parse(const json_t *array, struct metadata_facts *f, char why[static METADATA_WHY_MAX]);
/* "42:01:0a:80:00:02" */
#define METADATA_MAC_TEXT 18
const char *metadata_mac_text(const uint8_t mac[static 6], char buf[static METADATA_MAC_TEXT]);
