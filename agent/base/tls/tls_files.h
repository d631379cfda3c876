/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The files that TLS is done with: whose certificates are believed and which are revoked, and the own
 * certificate and key. Clients
 * and servers of ours read and judge them here, before GnuTLS or libcurl gets them, so that what is wrong is
 * said with the file's name, and so that nobody is ever asked for a passphrase. Small local files are read
 * in the caller.
 */
#include <gnutls/gnutls.h>

#include "base.h"

/*
 * Whether a file that is named by its path has changed since the last look: written again, renamed into
 * place, gone. Any difference counts, so that a file that came from a backup is noticed, too.
 */

struct file_stamp {
        int64_t mtime_sec, mtime_nsec, ctime_sec, ctime_nsec;
        uint64_t inode, size;
        int error; /* why it could not be looked at; 0 */
};

/* Takes the stamps of n files; true: one of them is not as stamps[] said, which are then the new ones. */
bool file_stamps_changed(const char *const paths[], struct file_stamp stamps[], size_t n);

#define TLS_FILE_MAX (1024 * 1024) /* a bundle of all public authorities has 220 KiB */
#define TLS_CRL_MAX (16 * 1024 * 1024)
#define TLS_PATH_MAX 256
#define TLS_FILES_WHY_MAX 600

enum tls_file { TLS_CA, TLS_CERT, TLS_KEY, TLS_CRL, _TLS_FILE_MAX };

/* How a program's configuration calls the files, and whether it needs all of them. */
struct tls_names {
        const char *key[_TLS_FILE_MAX];
        bool all; /* but for the revocation lists */
};
/* CaFile=, CertFile=, KeyFile=, Crl=: each may be missing, certificate and key together */
extern const struct tls_names tls_client_names;
extern const struct tls_names tls_server_names; /* ClientCa=, Certificate=, Key=, Crl= */

struct tls_files {
        const struct tls_names *names; /* NULL: tls_client_names */
        /* empty: not configured; TLS_KEY may be the file of TLS_CERT */
        char path[_TLS_FILE_MAX][TLS_PATH_MAX];
        struct file_stamp stamps[_TLS_FILE_MAX];
        bool looked;
        bool shortage; /* error is one of the moment, and no word about the files */
        /* why TLS cannot be done with them: file and reason; empty: it can */
        char error[TLS_FILES_WHY_MAX];
        char warning[TLS_FILES_WHY_MAX]; /* the key can be read by everybody; else empty */
        usec_t not_before, not_after;    /* of the own certificate, real clock; 0: none, or not readable */
};

/* What the files hold; size 0 for one that is not configured. */
struct tls_texts {
        gnutls_datum_t of[_TLS_FILE_MAX];
};
/* Overwrites keys before it frees them. */
void tls_texts_clear(struct tls_texts *t);
#define _cleanup_tls_texts_ __attribute__((cleanup(tls_texts_clear)))

/* Whether there is anything to look at. */
bool tls_files_configured(const struct tls_files *f);
/*
 * Reads the files again if one of them changed since the last look. Returns whether it did: then connections
 * made before were made with the previous ones.
 */
bool tls_files_look(struct tls_files *f);
/* The same, and gives out what was read when nothing is wrong with it; untouched otherwise. */
bool tls_files_look_texts(struct tls_files *f, struct tls_texts *ret);
