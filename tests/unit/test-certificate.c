/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "certificate.h"
#include "otlp.h"
#include "otlp_look.h"
#include "test.h"

static void test_tokens(void) {
        static const char *const bad[] = { "",     "a",       "a.b",     "a.b.c.d", ".a.b", "a.b.",
                                           "a..b", "a.b.c\n", "a.b.c\"", "a.b.c d", "..",   "." };

        ASSERT_TRUE(certificate_token_ok("eyJ-_.eyJ.x9", 12));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_FALSE(certificate_token_ok(bad[i], strlen(bad[i])));
        ASSERT_FALSE(certificate_token_ok("a.b.c\0d", 7));
}

/* A certificate for the public key of a request, signed by that key itself: what an authority would send. */
static char *self_sign(const char *key, const char *csr, long seconds) {
        BIO *b = BIO_new_mem_buf(key, -1), *q = BIO_new_mem_buf(csr, -1), *out = BIO_new(BIO_s_mem());
        EVP_PKEY *k = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);
        X509_REQ *r = PEM_read_bio_X509_REQ(q, NULL, NULL, NULL);
        X509 *x = X509_new();
        char *data, *text;
        long n;

        ASSERT_TRUE(k && r && x && out);
        ASSERT_EQ(X509_REQ_verify(r, k), 1);
        ASSERT_EQ(X509_set_pubkey(x, k), 1);
        ASSERT_EQ(X509_set_subject_name(x, X509_REQ_get_subject_name(r)), 1);
        ASSERT_TRUE(X509_gmtime_adj(X509_getm_notBefore(x), -1000) &&
                    X509_gmtime_adj(X509_getm_notAfter(x), seconds));
        ASSERT_TRUE(X509_sign(x, k, EVP_sha256()) > 0 && PEM_write_bio_X509(out, x) == 1);
        n = BIO_get_mem_data(out, &data);
        text = strndup(data, (size_t) n);
        X509_free(x), X509_REQ_free(r), EVP_PKEY_free(k);
        BIO_free(b), BIO_free(q), BIO_free(out);
        return text;
}

static int take(long status, json_t *v, const char *key, char **ret, char *why) {
        char *body = json_dumps(v, 0);
        int r = certificate_take(status, body, strlen(body), key, (usec_t) time(NULL) * USEC_PER_SEC, ret,
                                 why);

        free(body);
        json_decref(v);
        return r;
}

static void test_request_and_answer(void) {
        char *key, *csr, *other_key, *other_csr, *crt, *old, *file = NULL, why[CERTIFICATE_WHY_MAX];

        ASSERT_OK(certificate_request("host-1", &key, &csr));
        ASSERT_OK(certificate_request("host-1", &other_key, &other_csr));
        ASSERT_TRUE(strcmp(key, other_key) != 0);
        crt = self_sign(key, csr, 1000);
        old = self_sign(key, csr, -10);
        ASSERT_OK(
                take(201, json_pack("{s:s, s:[s, s]}", "crt", crt, "certChain", crt, crt), key, &file, why));
        ASSERT_TRUE(startswith(file, crt) && startswith(file + strlen(crt), crt)); /* the chain … */
        ASSERT_STREQ(file + 2 * strlen(crt), key);                                 /* … and then the key */
        free(TAKE_PTR(file));
        ASSERT_OK(take(200, json_pack("{s:s}", "crt", crt), key, &file, why));
        free(TAKE_PTR(file));
        ASSERT_EQ(take(201, json_pack("{s:s}", "crt", crt), other_key, &file, why), -EBADMSG);
        ASSERT_TRUE(strstr(why, "not for our key"));
        ASSERT_EQ(take(201, json_pack("{s:s}", "crt", old), key, &file, why), -EBADMSG);
        ASSERT_TRUE(strstr(why, "expired"));
        ASSERT_EQ(take(201, json_pack("{s:s, s:[s, i]}", "crt", crt, "certChain", crt, 5), key, &file, why),
                  -EBADMSG);
        ASSERT_EQ(take(403, json_pack("{s:s}", "message", "no \n way"), key, &file, why), -EBADMSG);
        ASSERT_STREQ(why, "HTTP 403: no ? way");
        ASSERT_EQ(take(403, json_pack("[i]", 1), key, &file, why), -EBADMSG);
        ASSERT_FALSE(file);
        free(key), free(csr), free(other_key), free(other_csr), free(crt), free(old);
}

static void test_age_of_a_record(void) {
        _cleanup_(otlp_freep) struct otlp *o = NULL;
        const struct otlp_event event = { .name = "e",
                                          .severity = OTLP_INFO,
                                          .time_real = 1234567890123456 };
        const void *data;
        size_t len;

        ASSERT_OK(otlp_new(NULL, 0, "0", &o));
        ASSERT_OK(otlp_encode_event(o, &event, &data, &len));
        ASSERT_EQ(otlp_first_log_time(data, len), event.time_real);
        ASSERT_EQ(otlp_first_log_time(data, 0), 0);
        for (size_t cut = 0; cut < len; cut++)
                (void) otlp_first_log_time(data, cut); /* the sanitizers look */
        for (int counter = 0; counter < 2; counter++) {
                ASSERT_OK(otlp_add_point(
                        o, &(struct otlp_point){
                                   .name = "m", .counter = counter, .d = 1, .time_real = 77000077 }));
                ASSERT_OK(otlp_encode_metrics(o, &data, &len));
                ASSERT_EQ(otlp_first_point_time(data, len), 77000077);
                ASSERT_EQ(otlp_first_log_time(data, len), 0);
        }
}

TEST_MAIN(test_tokens, test_request_and_answer, test_age_of_a_record)
