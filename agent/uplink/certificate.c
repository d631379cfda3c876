/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <time.h>

#include "certificate.h"

static inline void bio_freep(BIO **b) {
        BIO_free(*b);
}
static inline void x509_freep(X509 **x) {
        X509_free(*x);
}
static inline void req_freep(X509_REQ **x) {
        X509_REQ_free(*x);
}
static inline void pkey_freep(EVP_PKEY **k) {
        EVP_PKEY_free(*k);
}
static inline void pkey_ctx_freep(EVP_PKEY_CTX **c) {
        EVP_PKEY_CTX_free(*c);
}
static inline void json_freep(json_t **v) {
        json_decref(*v);
}

/* --- The request --------------------------------------------------------------------------------------- */

static EVP_PKEY *make_key(void) {
        _cleanup_(pkey_ctx_freep) EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
        EVP_PKEY *k = NULL;

        if (!c || EVP_PKEY_keygen_init(c) != 1 ||
            EVP_PKEY_CTX_set_ec_paramgen_curve_nid(c, NID_X9_62_prime256v1) != 1 ||
            EVP_PKEY_CTX_set_ec_param_enc(c, OPENSSL_EC_NAMED_CURVE) != 1 || EVP_PKEY_keygen(c, &k) != 1)
                return NULL;
        return k;
}

static X509_REQ *make_request(const char *name, EVP_PKEY *k) {
        _cleanup_(req_freep) X509_REQ *q = X509_REQ_new();
        const unsigned char *cn = (const unsigned char *) name;

        if (!q || X509_REQ_set_version(q, 0) != 1 ||
            X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(q), "CN", MBSTRING_UTF8, cn, -1, -1, 0) !=
                    1 ||
            X509_REQ_set_pubkey(q, k) != 1 || X509_REQ_sign(q, k, EVP_sha256()) <= 0)
                return NULL;
        return TAKE_PTR(q);
}

static char *bio_text(BIO *b) {
        char *data;
        long n = BIO_get_mem_data(b, &data);

        return n > 0 ? strndup(data, (size_t) n) : NULL;
}

int certificate_request(const char *name, char **ret_key, char **ret_csr) {
        _cleanup_(bio_freep) BIO *key_out = BIO_new(BIO_s_secmem());
        _cleanup_(bio_freep) BIO *csr_out = BIO_new(BIO_s_mem());
        _cleanup_(pkey_freep) EVP_PKEY *k = make_key();
        _cleanup_(req_freep) X509_REQ *q = k ? make_request(name, k) : NULL;
        _cleanup_free_ char *key = NULL;
        char *csr;

        ERR_clear_error(); /* else libcurl takes ours for its own */
        if (!key_out || !csr_out || !q ||
            PEM_write_bio_PKCS8PrivateKey(key_out, k, NULL, NULL, 0, NULL, NULL) != 1 ||
            PEM_write_bio_X509_REQ(csr_out, q) != 1)
                return -EIO;
        key = bio_text(key_out);
        csr = bio_text(csr_out);
        if (!key || !csr) {
                free(csr);
                return -ENOMEM;
        }
        *ret_key = TAKE_PTR(key);
        *ret_csr = csr;
        return 0;
}

bool certificate_token_ok(const char *text, size_t len) {
        size_t dots = 0;

        if (len == 0 || len > CERTIFICATE_TOKEN_MAX || text[0] == '.' || text[len - 1] == '.')
                return false;
        for (size_t i = 0; i < len; i++) {
                char c = text[i];

                if (c == '.' && text[i - 1] == '.')
                        return false;
                dots += c == '.';
                if (c != '.' && c != '-' && c != '_' && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
                    !(c >= 'A' && c <= 'Z'))
                        return false;
        }
        return dots == 2;
}

char *certificate_question(const char *csr, const char *token) {
        _cleanup_(json_freep) json_t *v = json_pack("{s:s, s:s}", "csr", csr, "ott", token);

        return v ? json_dumps(v, JSON_COMPACT) : NULL;
}

/* --- The answer ---------------------------------------------------------------------------------------- */

static int complain(char why[static CERTIFICATE_WHY_MAX], const char *fmt, ...) _printf_(2, 3);
static int complain(char why[static CERTIFICATE_WHY_MAX], const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(why, CERTIFICATE_WHY_MAX, fmt, ap);
        va_end(ap);
        for (char *c = why; *c; c++) /* a stranger's text, for a person to read */
                if (*c < ' ' || *c > '~')
                        *c = '?';
        ERR_clear_error();
        return -EBADMSG;
}

static X509 *read_certificate(const char *pem) {
        _cleanup_(bio_freep) BIO *b = BIO_new_mem_buf(pem, -1);

        return b ? PEM_read_bio_X509(b, NULL, NULL, NULL) : NULL;
}

static EVP_PKEY *read_key(const char *pem) {
        _cleanup_(bio_freep) BIO *b = BIO_new_mem_buf(pem, -1);

        return b ? PEM_read_bio_PrivateKey(b, NULL, NULL, (void *) (uintptr_t) "")
                 : NULL; /* "": no passphrase */
}

static int check_own(const char *pem, const char *key, usec_t now_real,
                     char why[static CERTIFICATE_WHY_MAX]) {
        _cleanup_(x509_freep) X509 *x = read_certificate(pem);
        _cleanup_(pkey_freep) EVP_PKEY *k = read_key(key);
        time_t now = (time_t) (now_real / USEC_PER_SEC);

        if (!x)
                return complain(why, "the authority's answer holds no certificate in PEM form");
        if (!k || X509_check_private_key(x, k) != 1)
                return complain(why, "the certificate in the authority's answer is not for our key");
        if (X509_cmp_time(X509_get0_notAfter(x), &now) <= 0)
                return complain(why, "the certificate in the authority's answer has expired; is this host's "
                                     "clock right?");
        return 0;
}

/* Writes one certificate anew, so that nothing else of the answer gets into the file. */
static int put(FILE *f, const char *pem, char why[static CERTIFICATE_WHY_MAX]) {
        _cleanup_(x509_freep) X509 *x = pem ? read_certificate(pem) : NULL;

        if (!x)
                return complain(
                        why, "the authority's answer holds something in its chain that is no certificate");
        return PEM_write_X509(f, x) == 1 ? 0 : -ENOMEM;
}

static int put_chain(FILE *f, const json_t *answer, char why[static CERTIFICATE_WHY_MAX]) {
        const json_t *chain = json_object_get(answer, "certChain");
        const char *ca = json_string_value(json_object_get(answer, "ca"));
        size_t n = json_array_size(chain);
        int r;

        if (n > CERTIFICATE_CHAIN_MAX)
                return complain(why, "the authority's answer has a chain of %zu certificates", n);
        r = put(f, json_string_value(json_object_get(answer, "crt")), why);
        for (size_t i = 1; i < n && r == 0; i++) /* the first is crt again */
                r = put(f, json_string_value(json_array_get(chain, i)), why);
        return r == 0 && n == 0 && ca && *ca ? put(f, ca, why) : r;
}

static int build(const json_t *answer, const char *key, char **ret, char why[static CERTIFICATE_WHY_MAX]) {
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        int r;

        if (!f)
                return -ENOMEM;
        r = put_chain(f, answer, why);
        if (r == 0 && fputs(key, f) == EOF)
                r = -ENOMEM;
        if (fclose(f) == EOF && r == 0)
                r = -ENOMEM;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(text);
        return 0;
}

int certificate_take(long status, const char *body, size_t len, const char *key, usec_t now_real, char **ret,
                     char why[static CERTIFICATE_WHY_MAX]) {
        _cleanup_(json_freep) json_t *v = NULL;
        const char *text;
        int r;

        if (len <= CERTIFICATE_ANSWER_MAX)
                v = json_loadb(body, len, 0, NULL);
        if (status != 200 && status != 201) {
                text = json_string_value(json_object_get(v, "message"));
                return complain(why, "HTTP %ld%s%s", status, text ? ": " : "", text ? text : "");
        }
        text = json_string_value(json_object_get(v, "crt"));
        if (!text)
                return complain(why,
                                "the authority's answer is no JSON object with a certificate in \"crt\"");
        r = check_own(text, key, now_real, why);
        if (r == 0)
                r = build(v, key, ret, why);
        if (r == -ENOMEM)
                (void) complain(why, "out of memory");
        return r;
}
