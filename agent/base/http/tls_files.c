/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <time.h>

#include "io.h"
#include "tls_files.h"

static inline void bio_freep(BIO **b) {
        BIO_free(*b);
}
static inline void x509_freep(X509 **x) {
        X509_free(*x);
}
static inline void pkey_freep(EVP_PKEY **k) {
        EVP_PKEY_free(*k);
}

static const char *const keys[_TLS_FILE_MAX] = { "CaFile", "CertFile", "KeyFile" };

bool tls_files_configured(const struct tls_files *f) {
        return f->path[TLS_CA][0] || f->path[TLS_CERT][0] || f->path[TLS_KEY][0];
}

static int complain(struct tls_files *f, enum tls_file which, const char *what) {
        (void) snprintf(f->error, sizeof(f->error), "%s=%s: %s", keys[which], f->path[which], what);
        ERR_clear_error(); /* else libcurl takes ours for its own */
        return -EBADMSG;
}

/* The whole file in memory; the caller frees it. */
static int open_file(struct tls_files *f, enum tls_file which, char **ret_text, BIO **ret) {
        _cleanup_close_ int fd = open(f->path[which], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        _cleanup_free_ char *text = NULL;
        struct stat st;
        ssize_t n;

        if (fd < 0)
                return complain(f, which, strerror(errno));
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return complain(f, which, "not a regular file");
        if (st.st_size > TLS_FILE_MAX)
                return complain(f, which, "larger than 1 MiB: no certificate, no key");
        if (which == TLS_KEY && (st.st_mode & S_IROTH))
                (void) snprintf(f->warning, sizeof(f->warning), "%s=%s can be read by everybody",
                                keys[which], f->path[which]);
        text = malloc((size_t) st.st_size + 1);
        if (!text)
                return complain(f, which, strerror(ENOMEM));
        n = io_read_up_to(fd, text, (size_t) st.st_size);
        if (n < 0)
                return complain(f, which, strerror((int) -n));
        text[n] = '\0';
        *ret = BIO_new_mem_buf(text, (int) n);
        if (!*ret)
                return complain(f, which, strerror(ENOMEM));
        *ret_text = TAKE_PTR(text);
        return 0;
}

static X509 *read_certificate(struct tls_files *f, enum tls_file which) {
        _cleanup_free_ char *text = NULL;
        _cleanup_(bio_freep) BIO *b = NULL;
        X509 *x;

        if (open_file(f, which, &text, &b) < 0)
                return NULL;
        x = PEM_read_bio_X509(b, NULL, NULL, NULL);
        if (!x)
                (void) complain(f, which, "holds no certificate in PEM form");
        return x;
}

/* Instead of OpenSSL's own, which asks the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *userdata) {
        (void) buf, (void) size, (void) writing;
        *(bool *) userdata = true;
        return -1;
}

static EVP_PKEY *read_key(struct tls_files *f) {
        _cleanup_free_ char *text = NULL;
        _cleanup_(bio_freep) BIO *b = NULL;
        bool locked = false;
        EVP_PKEY *k;

        if (open_file(f, TLS_KEY, &text, &b) < 0)
                return NULL;
        k = PEM_read_bio_PrivateKey(b, NULL, no_passphrase, &locked);
        if (!k)
                (void) complain(f, TLS_KEY,
                                locked ? "has a passphrase, which nobody is there to type" :
                                         "holds no private key in PEM form");
        explicit_bzero(text, strlen(text));
        return k;
}

static usec_t asn1_usec(const ASN1_TIME *t) {
        struct tm tm;
        time_t at;

        if (!t || ASN1_TIME_to_tm(t, &tm) != 1)
                return 0;
        at = timegm(&tm);
        return at > 0 ? (usec_t) at * USEC_PER_SEC : 0;
}

static int read_own(struct tls_files *f, EVP_PKEY **ret_key) {
        _cleanup_(x509_freep) X509 *x = NULL;
        _cleanup_(pkey_freep) EVP_PKEY *k = NULL;

        x = read_certificate(f, TLS_CERT);
        if (!x)
                return -EBADMSG;
        f->not_before = asn1_usec(X509_get0_notBefore(x));
        f->not_after = asn1_usec(X509_get0_notAfter(x));
        k = read_key(f);
        if (!k)
                return -EBADMSG;
        if (X509_check_private_key(x, k) != 1)
                return complain(f, TLS_KEY, "is not the key of the certificate in CertFile=");
        *ret_key = TAKE_PTR(k);
        return 0;
}

static void read_all(struct tls_files *f, EVP_PKEY **ret_key) {
        f->error[0] = f->warning[0] = '\0';
        f->not_before = f->not_after = 0;
        if (f->path[TLS_CA][0]) {
                _cleanup_(x509_freep) X509 *x = read_certificate(f, TLS_CA);

                if (!x)
                        return;
        }
        if (!f->path[TLS_CERT][0] != !f->path[TLS_KEY][0])
                (void) complain(f, f->path[TLS_CERT][0] ? TLS_KEY : TLS_CERT,
                                "is missing: a certificate and its key come together");
        else if (f->path[TLS_CERT][0])
                (void) read_own(f, ret_key);
}

bool tls_files_look(struct tls_files *f) {
        _cleanup_(pkey_freep) EVP_PKEY *unused = NULL;

        return tls_files_look_key(f, &unused);
}

bool tls_files_look_key(struct tls_files *f, EVP_PKEY **ret_key) {
        const char *const paths[_TLS_FILE_MAX] = { f->path[TLS_CA], f->path[TLS_CERT], f->path[TLS_KEY] };
        EVP_PKEY *key = NULL;

        if (!file_stamps_changed(paths, f->stamps, _TLS_FILE_MAX) && f->looked)
                return false;
        f->looked = true;
        read_all(f, &key);
        *ret_key = key;
        return true;
}
