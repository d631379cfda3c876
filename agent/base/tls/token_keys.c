/* SPDX-License-Identifier: Apache-2.0 */
#include "token_keys.h"

#include <fcntl.h>
#include <gnutls/abstract.h>
#include <jansson.h>

#include "io.h"
#include "texts.h"
#include "tls_files.h"

#define KEY_BITS_LEAST 2048
#define PEM_BEGIN "-----BEGIN "
#define PEM_CERTIFICATE PEM_BEGIN "CERTIFICATE-----"

struct key {
        char id[64]; /* empty: it has none, and is tried for every token */
        gnutls_pubkey_t key;
};

struct token_keys {
        char *path, *audience;
        struct file_stamp stamp;
        struct key keys[TOKEN_KEYS_MAX];
        size_t n;
};

/* --- The keys ------------------------------------------------------------------------------------------ */

static void key_freep(gnutls_pubkey_t *key) {
        if (*key)
                gnutls_pubkey_deinit(*key);
}

static void clear_keys(struct token_keys *k) {
        while (k->n > 0)
                key_freep(&k->keys[--k->n].key);
}

static int refuse_keys(char why[static NAME_LIST_WHY_MAX], const char *what) {
        return text_fail(why, NAME_LIST_WHY_MAX, -EBADMSG, "%s", what);
}

/* Takes the key over. Others than RSA's are passed over: they sign no RS256. */
static int add_key(struct token_keys *k, const char *id, gnutls_pubkey_t *key,
                   char why[static NAME_LIST_WHY_MAX]) {
        unsigned bits = 0;

        if (gnutls_pubkey_get_pk_algorithm(*key, &bits) != GNUTLS_PK_RSA)
                return 0;
        if (bits < KEY_BITS_LEAST)
                return refuse_keys(why, "an RSA key in it has less than 2048 bits");
        if (strlen(id) >= sizeof(k->keys[0].id))
                return refuse_keys(why, "a key's kid in it is too long");
        if (k->n == TOKEN_KEYS_MAX)
                return refuse_keys(why, "there are more than 16 keys in it");
        (void) snprintf(k->keys[k->n].id, sizeof(k->keys[0].id), "%s", id);
        k->keys[k->n++].key = TAKE_PTR(*key);
        return 0;
}

static int add_jwk(struct token_keys *k, const json_t *o, char why[static NAME_LIST_WHY_MAX]) {
        _cleanup_(key_freep) gnutls_pubkey_t key = NULL;
        const char *type = json_string_value(json_object_get(o, "kty")),
                   *id = json_string_value(json_object_get(o, "kid"));
        const json_t *n = json_object_get(o, "n"), *e = json_object_get(o, "e");
        uint8_t modulus[1024], exponent[16];
        gnutls_datum_t m = { modulus, 0 }, x = { exponent, 0 };
        ssize_t a, b;

        if (!type || !streq(type, "RSA"))
                return 0;
        a = base64url_decode(json_string_value(n) ?: "", json_string_length(n), modulus, sizeof(modulus));
        b = base64url_decode(json_string_value(e) ?: "", json_string_length(e), exponent, sizeof(exponent));
        if (a < 0 || b < 0)
                return refuse_keys(why, "an RSA key in it has no n or no e");
        m.size = (unsigned) a;
        x.size = (unsigned) b;
        if (gnutls_pubkey_init(&key) < 0 || gnutls_pubkey_import_rsa_raw(key, &m, &x) < 0)
                return refuse_keys(why, "an RSA key in it cannot be read");
        return add_key(k, id ?: "", &key, why);
}

static int add_jwks(struct token_keys *k, const char *text, size_t len, char why[static NAME_LIST_WHY_MAX]) {
        json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        const json_t *list = json_object_get(o, "keys");
        int r = json_is_array(list) ? 0 : refuse_keys(why, "it is no JWKS ({\"keys\": …}) and no PEM file");

        for (size_t i = 0; i < json_array_size(list) && r == 0; i++)
                r = add_jwk(k, json_array_get(list, i), why);
        json_decref(o);
        return r;
}

static int add_pem(struct token_keys *k, const char *text, char why[static NAME_LIST_WHY_MAX]) {
        for (const char *at = text; (at = strstr(at, PEM_BEGIN)); at += strlen(PEM_BEGIN)) {
                _cleanup_(key_freep) gnutls_pubkey_t key = NULL;
                const gnutls_datum_t d = { (unsigned char *) (uintptr_t) at, (unsigned) strlen(at) };
                int r = gnutls_pubkey_init(&key);

                if (r >= 0)
                        r = startswith(at, PEM_CERTIFICATE)
                                    ? gnutls_pubkey_import_x509_raw(key, &d, GNUTLS_X509_FMT_PEM, 0)
                                    : gnutls_pubkey_import(key, &d, GNUTLS_X509_FMT_PEM);
                if (r < 0)
                        return refuse_keys(why, "a key or certificate in it cannot be read");
                r = add_key(k, "", &key, why);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* text is ended. */
int token_keys_parse(struct token_keys *k, const char *text, size_t len,
                     char why[static NAME_LIST_WHY_MAX]) {
        struct token_keys fresh = { 0 };
        int r = memmem(text, len, PEM_BEGIN, strlen(PEM_BEGIN)) ? add_pem(&fresh, text, why)
                                                                : add_jwks(&fresh, text, len, why);

        if (r == 0 && fresh.n == 0)
                r = refuse_keys(why, "there is no RSA key in it");
        if (r < 0) {
                clear_keys(&fresh);
                return r;
        }
        clear_keys(k);
        memcpy(k->keys, fresh.keys, sizeof(k->keys));
        k->n = fresh.n;
        return 0;
}

static int read_keys(struct token_keys *k, char why[static NAME_LIST_WHY_MAX]) {
        _cleanup_close_ int fd = open(k->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        _cleanup_free_ char *text = NULL;
        size_t len;
        int r = fd < 0 ? -errno : io_read_whole(fd, TOKEN_KEYS_FILE_MAX, &text, &len);

        if (r == -E2BIG)
                return refuse_keys(why, "larger than 256 KiB");
        if (r < 0) {
                (void) refuse_keys(why, strerror(-r));
                return r;
        }
        return token_keys_parse(k, text, len, why);
}

bool token_keys_look(struct token_keys *k, char why[static NAME_LIST_WHY_MAX]) {
        const char *const paths[] = { k->path };
        char what[NAME_LIST_WHY_MAX];
        int r;

        why[0] = '\0';
        if (!file_stamps_changed(paths, &k->stamp, 1))
                return false;
        r = read_keys(k, what);
        if (errno_is_shortage(r)) /* tried again with the next look */
                k->stamp = (struct file_stamp){ .error = -1 };
        if (r < 0)
                (void) snprintf(why, NAME_LIST_WHY_MAX, "TokenKeys=%.200s: %.150s", k->path, what);
        return true;
}

int token_keys_new(const char *path, const char *audience, struct token_keys **ret) {
        _cleanup_(token_keys_freep) struct token_keys *k = calloc(1, sizeof(*k));

        if (!k || !(k->path = strdup(path)) || !(k->audience = strdup(audience)))
                return -ENOMEM;
        *ret = TAKE_PTR(k);
        return 0;
}

struct token_keys *token_keys_free(struct token_keys *k) {
        if (!k)
                return NULL;
        clear_keys(k);
        free(k->path);
        free(k->audience);
        free(k);
        return NULL;
}

/* --- A token ------------------------------------------------------------------------------------------- */

#define refuse_token(why, ...) text_fail(why, INSTANCE_TOKEN_WHY_MAX, -EACCES, __VA_ARGS__)

static int check_signature(const struct token_keys *k, const char *text, const struct instance_token *t,
                           char why[static INSTANCE_TOKEN_WHY_MAX]) {
        const gnutls_datum_t data = { (unsigned char *) (uintptr_t) text, (unsigned) t->signed_len },
                             signature = { (unsigned char *) (uintptr_t) t->signature,
                                           (unsigned) t->signature_len };
        size_t tried = 0;

        for (size_t i = 0; i < k->n; i++) {
                if (k->keys[i].id[0] && !streq(k->keys[i].id, t->key))
                        continue;
                tried++;
                if (gnutls_pubkey_verify_data2(k->keys[i].key, GNUTLS_SIGN_RSA_SHA256, 0, &data,
                                               &signature) >= 0)
                        return 0;
        }
        return refuse_token(why, tried > 0 ? "the instance token's signature is of no key of TokenKeys="
                                           : "the instance token's kid is of no key of TokenKeys=");
}

static int check_time(const struct instance_token *t, usec_t now, char why[static INSTANCE_TOKEN_WHY_MAX]) {
        if (t->issued > now + TOKEN_CLOCKS)
                return refuse_token(why, "the instance token's iat is ahead, by %" PRIu64 " s",
                                    (t->issued - now) / USEC_PER_SEC);
        if (now > t->expires + TOKEN_CLOCKS)
                return refuse_token(why, "the instance token's exp is over, since %" PRIu64 " s",
                                    (now - t->expires) / USEC_PER_SEC);
        if (t->expires > t->issued + TOKEN_LIFE + TOKEN_CLOCKS)
                return refuse_token(why, "the instance token's exp is more than an hour behind its iat");
        return 0;
}

int token_keys_check(const struct token_keys *k, const char *text, size_t len, usec_t now,
                     struct instance_token *ret, char why[static INSTANCE_TOKEN_WHY_MAX]) {
        struct instance_token t;
        int r = instance_token_parse(text, len, &t, why);

        if (r < 0)
                return r == -ENOMEM ? r : -EACCES;
        r = check_signature(k, text, &t, why);
        if (r == 0 && !streq(t.issuer, INSTANCE_TOKEN_ISSUER))
                r = refuse_token(why, "the instance token's iss is '%.60s', not " INSTANCE_TOKEN_ISSUER,
                                 t.issuer);
        if (r == 0 && !streq(t.audience, k->audience))
                r = refuse_token(why, "the instance token's aud is '%.60s', not '%.60s' (TokenAudience=)",
                                 t.audience, k->audience);
        if (r == 0)
                r = check_time(&t, now, why);
        if (r == 0)
                *ret = t;
        return r;
}
