/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The files that TLS is done with: whose certificates are believed, and this host's own certificate and key.
 * They are read and judged here before libcurl gets their names, so that what is wrong is said with the
 * file's name, and so that a key with a passphrase never makes OpenSSL ask a terminal.
 */
#include <sys/types.h>

#include "base.h"
#include "file_stamp.h"

#define TLS_FILE_MAX (1024 * 1024) /* a bundle of all public authorities has 220 KiB */
#define TLS_PATH_MAX 256

struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

enum tls_file { TLS_CA, TLS_CERT, TLS_KEY, _TLS_FILE_MAX };

struct tls_files {
        char path[_TLS_FILE_MAX]
                 [TLS_PATH_MAX]; /* empty: not configured; TLS_KEY may be the file of TLS_CERT */
        struct file_stamp stamps[_TLS_FILE_MAX];
        bool looked;
        char error[400];              /* why TLS cannot be done with them: file and reason; empty: it can */
        char warning[400];            /* the key can be read by everybody; else empty */
        usec_t not_before, not_after; /* of the own certificate, real clock; 0: none, or not readable */
};

/*
 * Reads the files again if one of them is another one than at the last look. Returns whether it did: then
 * connections made before are made with what was. Small local files are read in the caller.
 */
bool tls_files_look(struct tls_files *f);
/*
 * The same for who does TLS with OpenSSL itself: reading a key is by far the dearest of it, so the one that was read
 * (EVP_PKEY) comes along; the caller's. NULL: none is configured, or it is no good. Untouched when nothing was read.
 */
bool tls_files_look_key(struct tls_files *f, struct evp_pkey_st **ret_key);
/* Whether there is anything to look at. */
bool tls_files_configured(const struct tls_files *f);
