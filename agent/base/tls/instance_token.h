/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Instance identity tokens of Compute Engine: which VM the metadata server, and so Google, says that one is.
 * A token is a JWT (RFC 7519) in its compact form, signed with RS256. Source: Compute Engine documentation,
 * "Verify the identity of a VM"; only the full format has the VM's name. Who holds a token is believed to be
 * the VM: it is a secret, and nothing here writes it anywhere.
 */
#include "base.h"

#define INSTANCE_TOKEN_MAX 4096 /* bytes of the text; Google's have some 1,000 */
#define INSTANCE_TOKEN_WHY_MAX 200
#define INSTANCE_TOKEN_ISSUER "https://accounts.google.com"

struct instance_token {
        char key[64]; /* the id of the key that it says it is signed with; empty: none */
        char issuer[64], audience[256];
        char project[64], zone[64], name[64], id[24]; /* of the VM */
        usec_t issued, expires;                       /* real clock */
        size_t signed_len; /* the first bytes of the text are what is signed */
        uint8_t signature[512]; /* of RSA keys with 2,048 to 4,096 bits */
        size_t signature_len;
};

/*
 * Reads one; nothing of it is verified. Pure. -EBADMSG with why: the field that is missing or wrong, and
 * nothing of the token; -ENOMEM.
 */
int instance_token_parse(const char *text, size_t len, struct instance_token *ret,
                         char why[static INSTANCE_TOKEN_WHY_MAX]);

/* Base64 for URLs without padding (RFC 4648, 5) into ret. The bytes; -EBADMSG: it is none, or more than
 * size; -ENOMEM. */
ssize_t base64url_decode(const char *text, size_t len, uint8_t *ret, size_t size);
