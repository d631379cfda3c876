/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <gnutls/gnutls.h>
#include <limits.h>

#include "gateway.h"
#include "gzip.h"
#include "json_text.h"

#define BASE64 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="

/* --- Bytes ----------------------------------------------------------------------------------------- */

json_t *gateway_bytes(const char *data, size_t len) {
        gnutls_datum_t in = { .data = (unsigned char *) (uintptr_t) data, .size = (unsigned) len }, out;
        json_t *v;

        assert(len <= UINT_MAX);
        if (len == 0)
                return json_string("");
        if (gnutls_base64_encode2(&in, &out) < 0)
                return NULL;
        v = json_stringn_nocheck((const char *) out.data, out.size);
        gnutls_free(out.data);
        return v;
}

/* The bytes and an end, malloc'ed. -EBADMSG, -ENOMEM. */
static int decode_answer(const char *text, size_t len, char **ret, size_t *ret_len) {
        gnutls_datum_t in = { .data = (unsigned char *) (uintptr_t) text, .size = (unsigned) len },
                       out = { .size = 0 };
        _cleanup_free_ char *bytes = NULL;

        if (len % 4 != 0 || text[strspn(text, BASE64)] || (len > 0 && gnutls_base64_decode2(&in, &out) < 0))
                return -EBADMSG;
        bytes = malloc(out.size + 1);
        if (bytes && out.size > 0)
                memcpy(bytes, out.data, out.size);
        gnutls_free(out.data);
        if (!bytes)
                return -ENOMEM;
        bytes[out.size] = '\0';
        *ret_len = out.size;
        *ret = TAKE_PTR(bytes);
        return 0;
}

/* --- Requests -------------------------------------------------------------------------------------- */

static json_t *text_bytes(const char *text) {
        return gateway_bytes(text, strlen(text));
}

json_t *gateway_number(int64_t n) {
        return json_sprintf("%" PRId64, n);
}

json_t *gateway_range(const char *key) {
        return json_pack("{s:o}", "key", text_bytes(key));
}

json_t *gateway_range_prefix(const char *prefix, const char *behind, unsigned limit, int64_t revision) {
        /* its end is the next possible key */
        size_t n = strlen(prefix), from_len = *behind ? strlen(behind) + 1 : n;
        const char *from = *behind ? behind : prefix;
        _cleanup_free_ char *end = strdup(prefix);

        if (!end)
                return NULL;
        end[n - 1]++; /* a prefix of ours ends with a slash */
        return json_pack("{s:o, s:o, s:o, s:o}", "key", gateway_bytes(from, from_len), "range_end",
                         text_bytes(end), "limit", gateway_number(limit), "revision",
                         gateway_number(revision));
}

json_t *gateway_put(const char *key, const char *value, int64_t lease, size_t *ret_len) {
        size_t len = strlen(value), packed_len = 0;
        /* one that nobody would unpack stays as it is: too large */
        _cleanup_free_ char *packed = len > GATEWAY_PACKED && len <= GATEWAY_TEXT_MAX ? malloc(len) : NULL;

        if (packed)
                packed_len = gzip_pack(value, len, packed, len);
        if (packed_len > 0)
                len = packed_len;
        if (ret_len)
                *ret_len = len;
        return json_pack("{s:{s:o, s:o, s:o}}", "requestPut", "key", text_bytes(key), "value",
                         gateway_bytes(packed_len > 0 ? packed : value, len), "lease",
                         gateway_number(lease));
}

json_t *gateway_delete(const char *key) {
        return json_pack("{s:{s:o}}", "requestDeleteRange", "key", text_bytes(key));
}

json_t *gateway_compare(const char *key, const char *what, int64_t revision) {
        return json_pack("{s:o, s:s, s:s, s:o}", "key", text_bytes(key), "result", "EQUAL", "target", what,
                         streq(what, "MOD") ? "mod_revision" : "create_revision", gateway_number(revision));
}

/* --- Answers --------------------------------------------------------------------------------------- */

int64_t gateway_int(const json_t *object, const char *key) {
        const json_t *v = json_object_get(object, key);
        const char *text = json_string_value(v);
        char *end;
        long long n;

        if (!text)
                return json_integer_value(v);
        errno = 0;
        n = strtoll(text, &end, 10);
        return errno || end == text || *end ? 0 : n;
}

void gateway_answer_clear(struct gateway_answer *a) {
        json_decref(TAKE_PTR(a->body));
}

void gateway_fail(const char *why, struct gateway_answer *ret) {
        *ret = (struct gateway_answer){ .error = -EAGAIN };
        (void) snprintf(ret->why, sizeof(ret->why), "%s", why);
}

/* The codes of gRPC. */
static int error_of(int64_t code) {
        switch (code) {
        case 5: /* NOT_FOUND */
                return -ENOENT;
        case 8: /* RESOURCE_EXHAUSTED: out of space; also too many requests */
                return -ENOSPC;
        case 7: /* PERMISSION_DENIED */
        case 16: /* UNAUTHENTICATED */
                return -EACCES;
        case 3: /* INVALID_ARGUMENT */
        case 9: /* FAILED_PRECONDITION */
        case 11: /* OUT_OF_RANGE: compacted */
        case 12: /* UNIMPLEMENTED */
                return -EBADMSG;
        default:
                return -EAGAIN;
        }
}

static bool says_token(const char *why) {
        return strstr(why, "auth token") || strstr(why, "auth store") || strstr(why, "user name is empty");
}

/* {"error":TEXT,"code":N} or {"error":{"grpc_code":N,"message":TEXT}} */
static void take_error(const json_t *v, long status, struct gateway_answer *a) {
        const json_t *error = json_object_get(v, "error"), *from = json_is_object(error) ? error : v;
        const char *text = json_is_object(error) ? json_text_of(error, "message") : json_text_of(v, "error");
        int64_t code = gateway_int(from, json_is_object(error) ? "grpc_code" : "code");

        a->error = code ? error_of(code) : -EAGAIN;
        (void) snprintf(a->why, sizeof(a->why), "etcd answers %ld: %.150s", status,
                        *text ? text : "nothing that can be understood");
        a->about_token = code == 16 || says_token(text);
}

void gateway_parse(const char *text, size_t len, long status, struct gateway_answer *ret) {
        struct gateway_answer a = { 0 };
        json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL),
               *header = json_object_get(v, "header");

        if (status != 200 || !json_is_object(v) || json_object_get(v, "error"))
                take_error(v, status, &a);
        else {
                a.revision = gateway_int(header, "revision");
                (void) snprintf(a.cluster, sizeof(a.cluster), "%.20s", json_text_of(header, "cluster_id"));
                a.body = json_incref(v);
        }
        json_decref(v);
        *ret = a;
}

int gateway_kv(const json_t *kvs, size_t i, struct gateway_kv *ret) {
        const json_t *v = json_array_get(kvs, i);
        const char *key = json_text_of(v, "key");
        _cleanup_free_ char *bytes = NULL;
        size_t n;

        if (i >= json_array_size(kvs))
                return -ENOENT;
        if (!*key || decode_answer(key, strlen(key), &bytes, &n) < 0 || n >= sizeof(ret->key) ||
            strlen(bytes) != n)
                return -EBADMSG;
        memcpy(ret->key, bytes, n + 1);
        ret->created = gateway_int(v, "create_revision");
        ret->modified = gateway_int(v, "mod_revision");
        ret->lease = gateway_int(v, "lease");
        ret->value = json_object_get(v, "value");
        return 0;
}

static int value_text(const struct gateway_kv *kv, char **ret, size_t *ret_len) {
        const char *text = json_string_value(kv->value) ?: "";
        _cleanup_free_ char *value = NULL;
        uint8_t *whole;
        size_t n;
        int r;

        if (strlen(text) / 4 * 3 > GATEWAY_VALUE_MAX)
                return -E2BIG;
        r = decode_answer(text, strlen(text), &value, &n);
        if (r < 0)
                return r;
        if (n < 2 || memcmp(value, "\x1f\x8b", 2) != 0) {
                *ret_len = n;
                *ret = TAKE_PTR(value);
                return 0;
        }
        r = inflate_gzip(value, n, GATEWAY_TEXT_MAX, &whole, ret_len);
        if (r >= 0)
                *ret = (char *) whole;
        return r;
}

json_t *gateway_value_json(const struct gateway_kv *kv) {
        _cleanup_free_ char *text = NULL;
        json_auto_t *v = NULL;
        size_t len;

        if (value_text(kv, &text, &len) < 0)
                return NULL;
        v = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        return json_is_object(v) ? TAKE_PTR(v) : NULL;
}

const json_t *gateway_txn_kvs(const struct gateway_answer *a, size_t i) {
        const json_t *one = json_array_get(json_object_get(a->body, "responses"), i);

        return json_object_get(json_object_get(one, "response_range"), "kvs");
}

/* --- Streams --------------------------------------------------------------------------------------- */

void gateway_lines_clear(struct gateway_lines *l) {
        free(l->line);
        *l = (struct gateway_lines){ 0 };
}

static int look_at_line(const char *line, size_t len) {
        json_auto_t *v = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
        const json_t *result = json_object_get(v, "result");

        if (len > 0 && (!json_is_object(result) || json_is_true(json_object_get(result, "canceled"))))
                return -EPIPE;
        return json_array_size(json_object_get(result, "events")) > 0;
}

int gateway_lines(struct gateway_lines *l, const char *data, size_t len) {
        int r = 0, x;

        if (!l->line)
                l->line = malloc(GATEWAY_LINE_MAX);
        if (!l->line)
                return -ENOMEM;
        for (size_t i = 0; i < len; i++) {
                if (data[i] != '\n') {
                        if (l->len == GATEWAY_LINE_MAX)
                                return -E2BIG;
                        l->line[l->len++] = data[i];
                        continue;
                }
                x = look_at_line(l->line, l->len);
                l->len = 0;
                if (x < 0)
                        return x;
                r = MAX(r, x);
        }
        return r;
}
