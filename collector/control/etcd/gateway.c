/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway.h"
#include "json_text.h"

/* --- base64 (RFC 4648, 4) ------------------------------------------------------------------------------ */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

json_t *gateway_bytes(const char *data, size_t len) {
        _cleanup_free_ char *text = malloc((len + 2) / 3 * 4 + 1);
        char *p = text;

        if (!text)
                return NULL;
        for (size_t i = 0; i < len; i += 3) {
                size_t n = MIN(len - i, (size_t) 3);
                uint32_t x = (uint32_t) (unsigned char) data[i] << 16;

                if (n > 1)
                        x |= (uint32_t) (unsigned char) data[i + 1] << 8;
                if (n > 2)
                        x |= (unsigned char) data[i + 2];
                *p++ = digits[x >> 18 & 63];
                *p++ = digits[x >> 12 & 63];
                *p++ = n > 1 ? digits[x >> 6 & 63] : '=';
                *p++ = n > 2 ? digits[x & 63] : '=';
        }
        return json_stringn_nocheck(text, (size_t) (p - text));
}

static int digit_of(char c) {
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Into at most len bytes and an end; returns how many, or -EBADMSG. */
static ssize_t decode(const char *text, size_t len, char *ret) {
        uint32_t x = 0;
        unsigned bits = 0;
        size_t n = 0;

        if (len % 4 != 0)
                return -EBADMSG;
        for (unsigned i = 0; i < 2 && len > 0 && text[len - 1] == '='; i++)
                len--;
        for (size_t i = 0; i < len; i++) {
                int d = digit_of(text[i]);

                if (d < 0)
                        return -EBADMSG;
                x = x << 6 | (uint32_t) d;
                bits += 6;
                if (bits >= 8) {
                        bits -= 8;
                        ret[n++] = (char) (x >> bits & 0xff);
                }
        }
        ret[n] = '\0';
        return (ssize_t) n;
}

/* --- Requests ------------------------------------------------------------------------------------------ */

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

json_t *gateway_put(const char *key, const char *value, int64_t lease) {
        return json_pack("{s:{s:o, s:o, s:o}}", "requestPut", "key", text_bytes(key), "value",
                         text_bytes(value), "lease", gateway_number(lease));
}

json_t *gateway_delete(const char *key) {
        return json_pack("{s:{s:o}}", "requestDeleteRange", "key", text_bytes(key));
}

json_t *gateway_compare(const char *key, const char *what, int64_t revision) {
        return json_pack("{s:o, s:s, s:s, s:o}", "key", text_bytes(key), "result", "EQUAL", "target", what,
                         streq(what, "MOD") ? "mod_revision" : "create_revision", gateway_number(revision));
}

/* --- Answers ------------------------------------------------------------------------------------------- */

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
        ssize_t n;

        if (i >= json_array_size(kvs))
                return -ENOENT;
        if (!*key || strlen(key) / 4 * 3 >= sizeof(ret->key))
                return -EBADMSG;
        n = decode(key, strlen(key), ret->key);
        if (n < 0 || strlen(ret->key) != (size_t) n)
                return -EBADMSG;
        ret->created = gateway_int(v, "create_revision");
        ret->modified = gateway_int(v, "mod_revision");
        ret->lease = gateway_int(v, "lease");
        ret->value = json_object_get(v, "value");
        return 0;
}

int gateway_value(const struct gateway_kv *kv, char **ret, size_t *ret_len) {
        const char *text = json_string_value(kv->value);
        size_t len = text ? strlen(text) : 0;
        _cleanup_free_ char *value = NULL;
        ssize_t n;

        if (len / 4 * 3 > GATEWAY_VALUE_MAX)
                return -E2BIG;
        value = malloc(len / 4 * 3 + 1);
        if (!value)
                return -ENOMEM;
        n = decode(text ? text : "", len, value);
        if (n < 0)
                return -EBADMSG;
        *ret_len = (size_t) n;
        *ret = TAKE_PTR(value);
        return 0;
}

json_t *gateway_value_json(const struct gateway_kv *kv) {
        _cleanup_free_ char *text = NULL;
        size_t len;
        json_t *v;

        if (gateway_value(kv, &text, &len) < 0)
                return NULL;
        v = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        if (json_is_object(v))
                return v;
        json_decref(v);
        return NULL;
}

const json_t *gateway_txn_kvs(const struct gateway_answer *a, size_t i) {
        const json_t *one = json_array_get(json_object_get(a->body, "responses"), i);

        return json_object_get(json_object_get(one, "response_range"), "kvs");
}

/* --- Streams ------------------------------------------------------------------------------------------- */

void gateway_lines_clear(struct gateway_lines *l) {
        free(l->line);
        *l = (struct gateway_lines){ 0 };
}

static int look_at_line(const char *line, size_t len) {
        json_t *v = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL),
               *result = json_object_get(v, "result");
        int r = 0;

        if (len > 0 && (!json_is_object(result) || json_is_true(json_object_get(result, "canceled"))))
                r = -EPIPE;
        else if (json_array_size(json_object_get(result, "events")) > 0)
                r = 1;
        json_decref(v);
        return r;
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
