/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A key of this host's own, the request for a certificate of it, and the authority's answer. Pure, but for
 * the chance that a key is made of.
 *
 * The answer's form is that of step-ca's POST /1.0/sign (smallstep/certificates, api/sign.go): the request
 * {"csr": PEM, "ott": TOKEN}; 200 or 201 and {"crt": PEM, "ca": PEM, "certChain": [PEM, …]}, the host's
 * certificate first; an error is {"status": N, "message": TEXT}.
 */
#include "base.h"

#define CERTIFICATE_ANSWER_MAX (64 * 1024)
#define CERTIFICATE_TOKEN_MAX (8 * 1024) /* an identity token with format=full has about 1.5 KiB */
#define CERTIFICATE_CHAIN_MAX 8
#define CERTIFICATE_WHY_MAX 160

/* A new P-256 key and a request for it with the subject CN=name, both in PEM. -ENOMEM, -EIO. */
int certificate_request(const char *name, char **ret_key, char **ret_csr);
/* The body of the question. token must have passed certificate_token_ok(). NULL: out of memory. */
char *certificate_question(const char *csr, const char *token);
/* Whether text has the form of a signed JSON Web Token (RFC 7515, compact). */
bool certificate_token_ok(const char *text, size_t len);

/*
 * Takes an answer to the request of key: *ret is the file to keep, the chain and then the key. -EBADMSG with
 * why (which never holds anything secret): not such an answer, not for this key, not valid at now_real.
 */
int certificate_take(long status, const char *body, size_t len, const char *key, usec_t now_real, char **ret,
                     char why[static CERTIFICATE_WHY_MAX]);
