/* SPDX-License-Identifier: Apache-2.0 */
#include "instance_token.h"

#include <gnutls/gnutls.h>
#include <jansson.h>

#include "name_list.h"
#include "texts.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
#define YEAR_10000 INT64_C(253402300800) /* s; later ones are no times */

ssize_t base64url_decode(const char *text, size_t len, uint8_t *ret, size_t size) {
        char plain[INSTANCE_TOKEN_MAX + 4];
        gnutls_datum_t in = { (unsigned char *) plain, 0 }, out = { 0 };
        size_t n = 0;
        int r;

        if (len == 0 || len > INSTANCE_TOKEN_MAX || len % 4 == 1)
                return -EBADMSG;
        for (; n < len; n++) {
                if (!text[n] || !strchr(LETTERS, text[n]))
                        return -EBADMSG;
                plain[n] = text[n] == '-' ? '+' : text[n] == '_' ? '/' : text[n];
        }
        while (n % 4 != 0)
                plain[n++] = '=';
        in.size = (unsigned) n;
        r = gnutls_base64_decode2(&in, &out);
        if (r < 0)
                return r == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EBADMSG; /* bits are left over */
        if (out.size <= size)
                memcpy(ret, out.data, out.size);
        n = out.size;
        gnutls_free(out.data);
        return n <= size ? (ssize_t) n : -EBADMSG;
}

/* --- Fields -------------------------------------------------------------------------------------------- */

static int refuse(char why[static INSTANCE_TOKEN_WHY_MAX], const char *field, const char *what) {
        return text_fail(why, INSTANCE_TOKEN_WHY_MAX, -EBADMSG, "the instance token's %s %s", field, what);
}

static int take_text(const json_t *o, const char *key, char *ret, size_t size,
                     char why[static INSTANCE_TOKEN_WHY_MAX]) {
        const json_t *v = json_object_get(o, key);
        size_t len = json_string_length(v);

        if (!json_is_string(v))
                return refuse(why, key, "is missing, or no text");
        if (len >= size || !tls_name_is_plain(json_string_value(v), len))
                return refuse(why, key, "is too long, or has letters that it cannot have");
        memcpy(ret, json_string_value(v), len + 1);
        return 0;
}

/* Seconds since 1970. */
static int take_time(const json_t *o, const char *key, usec_t *ret,
                     char why[static INSTANCE_TOKEN_WHY_MAX]) {
        const json_t *v = json_object_get(o, key);
        json_int_t n = json_integer_value(v);

        if (!json_is_integer(v) || n < 0 || n > YEAR_10000)
                return refuse(why, key, "is missing, or no time");
        *ret = (usec_t) n * USEC_PER_SEC;
        return 0;
}

/* They become one name, PROJECT/ZONE/NAME, of which none may be two parts. */
static int take_part(const json_t *o, const char *key, char *ret, size_t size,
                     char why[static INSTANCE_TOKEN_WHY_MAX]) {
        int r = take_text(o, key, ret, size, why);

        return r == 0 && strchr(ret, '/') ? refuse(why, key, "has letters that it cannot have") : r;
}

static int take_header(const json_t *o, struct instance_token *t,
                       char why[static INSTANCE_TOKEN_WHY_MAX]) {
        const char *algorithm = json_string_value(json_object_get(o, "alg"));

        /* One alone: a token does not choose how it is checked ("none", or HS256 with a public key). */
        if (!algorithm || !streq(algorithm, "RS256"))
                return refuse(why, "alg", "is not RS256");
        if (json_object_get(o, "crit"))
                return refuse(why, "crit", "asks for what is not known here");
        return json_object_get(o, "kid") ? take_text(o, "kid", t->key, sizeof(t->key), why) : 0;
}

static int take_claims(const json_t *o, struct instance_token *t,
                       char why[static INSTANCE_TOKEN_WHY_MAX]) {
        const json_t *vm = json_object_get(json_object_get(o, "google"), "compute_engine");
        int r;

        r = take_text(o, "iss", t->issuer, sizeof(t->issuer), why);
        if (r == 0)
                r = take_text(o, "aud", t->audience, sizeof(t->audience), why);
        if (r == 0)
                r = take_time(o, "iat", &t->issued, why);
        if (r == 0)
                r = take_time(o, "exp", &t->expires, why);
        if (r == 0 && !json_is_object(vm))
                r = refuse(why, "google.compute_engine",
                           "is missing: it was not asked for with format=full");
        if (r == 0)
                r = take_part(vm, "project_id", t->project, sizeof(t->project), why);
        if (r == 0)
                r = take_part(vm, "zone", t->zone, sizeof(t->zone), why);
        if (r == 0)
                r = take_part(vm, "instance_name", t->name, sizeof(t->name), why);
        return r < 0 ? r : take_part(vm, "instance_id", t->id, sizeof(t->id), why);
}

/* --- The three parts ----------------------------------------------------------------------------------- */

static int take_json(const char *text, size_t len, const char *part,
                     int (*take)(const json_t *o, struct instance_token *t, char *why),
                     struct instance_token *t, char why[static INSTANCE_TOKEN_WHY_MAX]) {
        uint8_t bytes[INSTANCE_TOKEN_MAX];
        ssize_t n = base64url_decode(text, len, bytes, sizeof(bytes));
        json_t *o;
        int r;

        if (n < 0)
                return n == -ENOMEM ? -ENOMEM : refuse(why, part, "is no base64 of a URL");
        o = json_loadb((const char *) bytes, (size_t) n, JSON_REJECT_DUPLICATES, NULL);
        r = json_is_object(o) ? take(o, t, why) : refuse(why, part, "is no JSON object");
        json_decref(o);
        return r;
}

int instance_token_parse(const char *text, size_t len, struct instance_token *ret,
                         char why[static INSTANCE_TOKEN_WHY_MAX]) {
        const char *claims, *signature, *end = text + len;
        struct instance_token t = { 0 };
        ssize_t n;
        int r;

        (void) snprintf(why, INSTANCE_TOKEN_WHY_MAX, "out of memory");
        if (len > INSTANCE_TOKEN_MAX)
                return refuse(why, "text", "is longer than 4096 bytes");
        claims = len > 0 ? memchr(text, '.', len) : NULL;
        signature = claims ? memchr(claims + 1, '.', (size_t) (end - claims - 1)) : NULL;
        if (!signature)
                return refuse(why, "text", "has not three parts");
        t.signed_len = (size_t) (signature - text);
        r = take_json(text, (size_t) (claims - text), "header", take_header, &t, why);
        if (r == 0)
                r = take_json(claims + 1, (size_t) (signature - claims - 1), "payload", take_claims, &t,
                              why);
        if (r < 0)
                return r;
        signature++;
        n = base64url_decode(signature, (size_t) (end - signature), t.signature, sizeof(t.signature));
        if (n < 0)
                return n == -ENOMEM ? -ENOMEM : refuse(why, "signature", "is none of RS256");
        t.signature_len = (size_t) n;
        *ret = t;
        return 0;
}
