/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether an instance token counts here: the keys that the site trusts for it, and what else it must say.
 * The keys are a file, a JWKS (RFC 7517, as Google's https://www.googleapis.com/oauth2/v3/certs) or public
 * keys and certificates in PEM. It is read again when it changes: keys are rotated with both in it. Small
 * local files are read in the caller.
 */
#include "instance_token.h"
#include "name_list.h"

#define TOKEN_KEYS_MAX 16
#define TOKEN_KEYS_FILE_MAX ((size_t) 256 * 1024)
/* Clocks of a fleet that is synchronized differ by less; a token counts so much longer. */
#define TOKEN_CLOCKS (120 * USEC_PER_SEC)
#define TOKEN_LIFE (3600 * USEC_PER_SEC) /* Google's; one that lives longer is none */

struct token_keys;
/* Nothing is read yet; texts are copied. -ENOMEM. */
int token_keys_new(const char *path, const char *audience, struct token_keys **ret);
struct token_keys *token_keys_free(struct token_keys *k);
DEFINE_CLEANUP(struct token_keys *, token_keys_free)
/* As name_list_look(): while the file cannot be used, its previous keys stay in force. */
bool token_keys_look(struct token_keys *k, char why[static NAME_LIST_WHY_MAX]);

/* Reads keys in place of those that are there. Pure. -EBADMSG with why, and the keys are as before. */
int token_keys_parse(struct token_keys *k, const char *text, size_t len, char why[static NAME_LIST_WHY_MAX]);
/*
 * Signed by one of the keys, issued by Google, for our audience, now (real clock). -EACCES with why, naming
 * the field; -ENOMEM.
 */
int token_keys_check(const struct token_keys *k, const char *text, size_t len, usec_t now,
                     struct instance_token *ret, char why[static INSTANCE_TOKEN_WHY_MAX]);
