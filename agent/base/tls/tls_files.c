/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_files.h"

#include <fcntl.h>
#include <gnutls/x509.h>
#include <sys/stat.h>

#include "io.h"

#define KEY_ID_MAX 64 /* SHA-512 of a public key is the longest that GnuTLS makes */

const struct tls_names tls_client_names = { .key = { "CaFile", "CertFile", "KeyFile" } };
const struct tls_names tls_server_names = { .key = { "ClientCa", "Certificate", "Key" }, .all = true };

static inline void certificate_freep(gnutls_x509_crt_t *x) {
        if (*x)
                gnutls_x509_crt_deinit(*x);
}
static inline void key_freep(gnutls_x509_privkey_t *k) {
        if (*k)
                gnutls_x509_privkey_deinit(*k);
}

void tls_texts_clear(struct tls_texts *t) {
        for (size_t i = 0; i < _TLS_FILE_MAX; i++) {
                if (t->of[i].data)
                        explicit_bzero(t->of[i].data, t->of[i].size);
                free(t->of[i].data);
                t->of[i] = (gnutls_datum_t){ 0 };
        }
}

/* Every byte of *ret is set: stamps are compared whole. path is "" for "no file". */
static void file_stamp_take(const char *path, struct file_stamp *ret) {
        struct stat st;

        memset(ret, 0, sizeof(*ret));
        if (!*path)
                return;
        if (stat(path, &st) < 0) {
                ret->error = errno;
                return;
        }
        ret->mtime_sec = st.st_mtim.tv_sec;
        ret->mtime_nsec = st.st_mtim.tv_nsec;
        ret->ctime_sec = st.st_ctim.tv_sec;
        ret->ctime_nsec = st.st_ctim.tv_nsec;
        ret->inode = st.st_ino;
        ret->size = (uint64_t) st.st_size;
}

bool file_stamps_changed(const char *const paths[], struct file_stamp stamps[], size_t n) {
        bool changed = false;

        for (size_t i = 0; i < n; i++) {
                struct file_stamp now;

                file_stamp_take(paths[i], &now);
                if (memcmp(&now, &stamps[i], sizeof(now)) == 0)
                        continue;
                stamps[i] = now;
                changed = true;
        }
        return changed;
}

static const struct tls_names *names_of(const struct tls_files *f) {
        return f->names ? f->names : &tls_client_names;
}

bool tls_files_configured(const struct tls_files *f) {
        return f->path[TLS_CA][0] || f->path[TLS_CERT][0] || f->path[TLS_KEY][0];
}

static int refuse_file(struct tls_files *f, enum tls_file which, const char *what) {
        (void) snprintf(f->error, sizeof(f->error), "%s=%s: %s", names_of(f)->key[which], f->path[which],
                        what);
        return -EBADMSG;
}

static int read_file(struct tls_files *f, enum tls_file which, gnutls_datum_t *ret) {
        _cleanup_close_ int fd = open(f->path[which], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        _cleanup_free_ char *text = NULL;
        struct stat st;
        ssize_t n;

        if (fd < 0)
                return refuse_file(f, which, strerror(errno));
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return refuse_file(f, which, "not a regular file");
        if (st.st_size > TLS_FILE_MAX)
                return refuse_file(f, which, "larger than 1 MiB: no certificate, no key");
        if (which == TLS_KEY && (st.st_mode & S_IROTH))
                (void) snprintf(f->warning, sizeof(f->warning), "%s=%s can be read by everybody",
                                names_of(f)->key[which], f->path[which]);
        text = malloc((size_t) st.st_size + 1);
        if (!text)
                return refuse_file(f, which, strerror(ENOMEM));
        n = io_read_up_to(fd, text, (size_t) st.st_size);
        if (n < 0)
                return refuse_file(f, which, strerror((int) -n));
        text[n] = '\0';
        *ret = (gnutls_datum_t){ (unsigned char *) TAKE_PTR(text), (unsigned) n };
        return 0;
}

/* --- What they hold ------------------------------------------------------------------------------------ */

static int import_certificate(struct tls_files *f, enum tls_file which, const gnutls_datum_t *text,
                              gnutls_x509_crt_t *ret) {
        _cleanup_(certificate_freep) gnutls_x509_crt_t x = NULL;

        if (gnutls_x509_crt_init(&x) < 0)
                return refuse_file(f, which, strerror(ENOMEM));
        if (gnutls_x509_crt_import(x, text, GNUTLS_X509_FMT_PEM) < 0)
                return refuse_file(f, which, "holds no certificate in PEM form");
        *ret = TAKE_PTR(x);
        return 0;
}

static int import_key(struct tls_files *f, const gnutls_datum_t *text, gnutls_x509_privkey_t *ret) {
        _cleanup_(key_freep) gnutls_x509_privkey_t k = NULL;
        int r;

        if (gnutls_x509_privkey_init(&k) < 0)
                return refuse_file(f, TLS_KEY, strerror(ENOMEM));
        r = gnutls_x509_privkey_import2(k, text, GNUTLS_X509_FMT_PEM, NULL, 0);
        if (r == GNUTLS_E_DECRYPTION_FAILED)
                return refuse_file(f, TLS_KEY, "has a passphrase, which nobody is there to type");
        if (r < 0)
                return refuse_file(f, TLS_KEY, "holds no private key in PEM form");
        *ret = TAKE_PTR(k);
        return 0;
}

/* A key's id is a hash of the public key, computed alike for both. */
static bool belong_together(gnutls_x509_crt_t x, gnutls_x509_privkey_t k) {
        unsigned char of_certificate[KEY_ID_MAX], of_key[KEY_ID_MAX];
        size_t n = sizeof(of_certificate), m = sizeof(of_key);

        return gnutls_x509_crt_get_key_id(x, GNUTLS_KEYID_USE_SHA256, of_certificate, &n) == 0 &&
               gnutls_x509_privkey_get_key_id(k, GNUTLS_KEYID_USE_SHA256, of_key, &m) == 0 && n == m &&
               memcmp(of_certificate, of_key, n) == 0;
}

static usec_t since_1970(time_t t) {
        return t > 0 ? (usec_t) t * USEC_PER_SEC : 0;
}

static int judge_own(struct tls_files *f, const struct tls_texts *t) {
        _cleanup_(certificate_freep) gnutls_x509_crt_t x = NULL;
        _cleanup_(key_freep) gnutls_x509_privkey_t k = NULL;
        char what[TLS_PATH_MAX + 64];
        int r;

        r = import_certificate(f, TLS_CERT, &t->of[TLS_CERT], &x);
        if (r < 0)
                return r;
        f->not_before = since_1970(gnutls_x509_crt_get_activation_time(x));
        f->not_after = since_1970(gnutls_x509_crt_get_expiration_time(x));
        r = import_key(f, &t->of[TLS_KEY], &k);
        if (r < 0 || belong_together(x, k))
                return r;
        (void) snprintf(what, sizeof(what), "is not the key of %s=%s", names_of(f)->key[TLS_CERT],
                        f->path[TLS_CERT]);
        return refuse_file(f, TLS_KEY, what);
}

static int read_all(struct tls_files *f, struct tls_texts *t) {
        int r = 0;

        f->error[0] = f->warning[0] = '\0';
        f->not_before = f->not_after = 0;
        if (!f->path[TLS_CERT][0] != !f->path[TLS_KEY][0])
                return refuse_file(f, f->path[TLS_CERT][0] ? TLS_KEY : TLS_CERT,
                                   "is missing: a certificate and its key come together");
        for (enum tls_file i = 0; i < _TLS_FILE_MAX && r == 0; i++)
                if (f->path[i][0] || names_of(f)->all)
                        r = read_file(f, i, &t->of[i]);
        if (r == 0 && t->of[TLS_CA].data) {
                _cleanup_(certificate_freep) gnutls_x509_crt_t x = NULL;

                r = import_certificate(f, TLS_CA, &t->of[TLS_CA], &x);
        }
        return r == 0 && t->of[TLS_CERT].data ? judge_own(f, t) : r;
}

bool tls_files_look_texts(struct tls_files *f, struct tls_texts *ret) {
        const char *const paths[_TLS_FILE_MAX] = { f->path[TLS_CA], f->path[TLS_CERT], f->path[TLS_KEY] };
        _cleanup_tls_texts_ struct tls_texts t = { 0 };

        if (!file_stamps_changed(paths, f->stamps, _TLS_FILE_MAX) && f->looked)
                return false;
        f->looked = true;
        if (read_all(f, &t) == 0) {
                *ret = t;
                t = (struct tls_texts){ 0 };
        }
        return true;
}

bool tls_files_look(struct tls_files *f) {
        _cleanup_tls_texts_ struct tls_texts unused = { 0 };

        return tls_files_look_texts(f, &unused);
}

/* --- Who may call ------------------------------------------------------------------------------------- */

bool tls_allows(const char *allow, const char *uri) {
        while (*allow) {
                size_t n = strcspn(allow, " ");

                if (n > 0 && allow[n - 1] == '*' && strncmp(allow, uri, n - 1) == 0)
                        return true;
                if (n > 0 && strlen(uri) == n && memcmp(allow, uri, n) == 0)
                        return true;
                allow += n + (allow[n] == ' ');
        }
        return false;
}

bool tls_name_is_plain(const char *name, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (name[i] <= ' ' || name[i] > '~')
                        return false;
        return size > 0;
}

/* The i-th URI of a certificate: 1 and the name, 0 when the i-th name is no URI that can be listed, or
 * GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE after the last. */
static int read_name(gnutls_x509_crt_t crt, unsigned i, char name[static TLS_NAME_MAX]) {
        size_t size = TLS_NAME_MAX - 1;
        int type = gnutls_x509_crt_get_subject_alt_name(crt, i, name, &size, NULL);

        if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
                return type;
        if (type != GNUTLS_SAN_URI || size >= TLS_NAME_MAX) /* another kind, or too long for any list */
                return 0;
        name[size] = '\0';
        return tls_name_is_plain(name, size);
}

static int find_name(gnutls_x509_crt_t crt, const char *const lists[], size_t n, size_t *ret_which,
                     char ret_name[static TLS_NAME_MAX], char why[static TLS_WHY_MAX]) {
        char first[TLS_NAME_MAX] = "", name[TLS_NAME_MAX];
        size_t which = n;
        int r;

        for (unsigned i = 0; (r = read_name(crt, i, name)) >= 0; i++) {
                if (r == 0)
                        continue;
                for (size_t k = 0; k < which; k++)
                        if (tls_allows(lists[k], name)) {
                                which = k;
                                memcpy(ret_name, name, sizeof(name));
                        }
                if (!first[0])
                        memcpy(first, name, sizeof(first));
        }
        if (which < n) {
                *ret_which = which;
                return 0;
        }
        if (first[0])
                (void) snprintf(why, TLS_WHY_MAX, "'%.120s' is not among those who may call", first);
        else
                (void) snprintf(why, TLS_WHY_MAX, "the certificate has no URI");
        return -EACCES;
}

static const char *what_is_wrong(int r, unsigned status) {
        if (r < 0)
                return "not one that can be read";
        if (status & GNUTLS_CERT_EXPIRED)
                return "expired";
        if (status & GNUTLS_CERT_NOT_ACTIVATED)
                return "not valid yet";
        if (status & GNUTLS_CERT_PURPOSE_MISMATCH)
                return "not for clients (its extended key usage lacks clientAuth)";
        return "not of a CA that is trusted here";
}

int tls_check_peer(gnutls_session_t session, const char *const lists[], size_t n, size_t *ret_which,
                   char ret_name[static TLS_NAME_MAX], char why[static TLS_WHY_MAX]) {
        gnutls_typed_vdata_st purpose = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
                                          .data = (unsigned char *) (uintptr_t) GNUTLS_KP_TLS_WWW_CLIENT };
        const gnutls_datum_t *chain;
        gnutls_x509_crt_t crt;
        unsigned status = 0, len = 0;
        int r;

        chain = gnutls_certificate_get_peers(session, &len);
        if (!chain || len == 0) {
                (void) snprintf(why, TLS_WHY_MAX, "no client certificate was given");
                return -EACCES;
        }
        r = gnutls_certificate_verify_peers(session, &purpose, 1, &status);
        if (r < 0 || status != 0) {
                (void) snprintf(why, TLS_WHY_MAX, "the client certificate is %s", what_is_wrong(r, status));
                return -EACCES;
        }
        if (gnutls_x509_crt_init(&crt) < 0) {
                (void) snprintf(why, TLS_WHY_MAX, "out of memory");
                return -EACCES;
        }
        r = gnutls_x509_crt_import(crt, &chain[0], GNUTLS_X509_FMT_DER);
        if (r < 0)
                (void) snprintf(why, TLS_WHY_MAX, "the client certificate is %s", what_is_wrong(r, 0));
        r = r < 0 ? -EACCES : find_name(crt, lists, n, ret_which, ret_name, why);
        gnutls_x509_crt_deinit(crt);
        return r;
}
