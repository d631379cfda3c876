/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_files.h"

#include <fcntl.h>
#include <gnutls/x509.h>
#include <sys/stat.h>

#include "io.h"
#include "texts.h"

#define KEY_ID_MAX 64 /* SHA-512 of a public key is the longest that GnuTLS makes */

const struct tls_names tls_client_names = { .key = { "CaFile", "CertFile", "KeyFile", "Crl" } };
const struct tls_names tls_server_names = { .key = { "ClientCa", "Certificate", "Key", "Crl" },
                                            .all = true };

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
        return f->path[TLS_CA][0] || f->path[TLS_CERT][0] || f->path[TLS_KEY][0] || f->path[TLS_CRL][0];
}

static int refuse_file(struct tls_files *f, enum tls_file which, const char *what) {
        return text_fail(f->error, sizeof(f->error), -EBADMSG, "%s=%s: %s", names_of(f)->key[which],
                         f->path[which], what);
}

static int read_file(struct tls_files *f, enum tls_file which, gnutls_datum_t *ret) {
        _cleanup_close_ int fd = open(f->path[which], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        const size_t max = which == TLS_CRL ? TLS_CRL_MAX : TLS_FILE_MAX;
        struct stat st;
        char *text;
        size_t len;
        int r;

        if (fd < 0) {
                f->shortage = errno_is_shortage(errno);
                return refuse_file(f, which, strerror(errno));
        }
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return refuse_file(f, which, "not a regular file");
        if (which == TLS_KEY && (st.st_mode & S_IROTH))
                (void) snprintf(f->warning, sizeof(f->warning), "%s=%s can be read by everybody",
                                names_of(f)->key[which], f->path[which]);
        r = io_read_whole(fd, max, &text, &len);
        f->shortage = r == -ENOMEM;
        if (r == -E2BIG)
                return refuse_file(f, which, which == TLS_CRL ? "larger than 16 MiB" :
                                                                "larger than 1 MiB: no certificate, no key");
        if (r < 0)
                return refuse_file(f, which, strerror(-r));
        *ret = (gnutls_datum_t){ (unsigned char *) text, (unsigned) len };
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

static int check_lists(struct tls_files *f, const gnutls_datum_t *text) {
        gnutls_x509_crl_t *lists = NULL;
        unsigned n = 0;

        if (gnutls_x509_crl_list_import2(&lists, &n, text, GNUTLS_X509_FMT_PEM, 0) < 0)
                return refuse_file(f, TLS_CRL, "holds no revocation list in PEM form");
        for (unsigned i = 0; i < n; i++)
                gnutls_x509_crl_deinit(lists[i]);
        gnutls_free(lists);
        return 0;
}

static int read_all(struct tls_files *f, struct tls_texts *t) {
        int r = 0;

        f->error[0] = f->warning[0] = '\0';
        f->shortage = false;
        f->not_before = f->not_after = 0;
        if (!f->path[TLS_CERT][0] != !f->path[TLS_KEY][0])
                return refuse_file(f, f->path[TLS_CERT][0] ? TLS_KEY : TLS_CERT,
                                   "is missing: a certificate and its key come together");
        for (enum tls_file i = 0; i < _TLS_FILE_MAX && r == 0; i++)
                if (f->path[i][0] || (names_of(f)->all && i != TLS_CRL))
                        r = read_file(f, i, &t->of[i]);
        if (r == 0 && t->of[TLS_CA].data) {
                _cleanup_(certificate_freep) gnutls_x509_crt_t x = NULL;

                r = import_certificate(f, TLS_CA, &t->of[TLS_CA], &x);
        }
        if (r == 0 && t->of[TLS_CRL].data)
                r = check_lists(f, &t->of[TLS_CRL]);
        return r == 0 && t->of[TLS_CERT].data ? judge_own(f, t) : r;
}

bool tls_files_look_texts(struct tls_files *f, struct tls_texts *ret) {
        const char *const paths[_TLS_FILE_MAX] = { f->path[TLS_CA], f->path[TLS_CERT], f->path[TLS_KEY],
                                                    f->path[TLS_CRL] };
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
