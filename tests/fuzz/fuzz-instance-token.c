/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any instance token, and any file of keys. The first byte says what the rest is: a token's text; the JSON
 * of its header and payload, with a line between, which are packed here; or the file.
 */
#include <gnutls/gnutls.h>

#include "token_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t pack(const char *text, size_t len, char *ret) {
        gnutls_datum_t in = { (unsigned char *) (uintptr_t) text, (unsigned) len }, out = { 0 };
        size_t n = 0;

        if (gnutls_base64_encode2(&in, &out) < 0)
                abort();
        for (; n < out.size && out.data[n] != '='; n++)
                ret[n] = (char) (out.data[n] == '+' ? '-' : out.data[n] == '/' ? '_' : out.data[n]);
        gnutls_free(out.data);
        return n;
}

static void try_token(const struct token_keys *k, const char *text, size_t len) {
        char why[INSTANCE_TOKEN_WHY_MAX] = "";
        struct instance_token t;
        int r = instance_token_parse(text, len, &t, why);

        if (r == 0 && (!t.audience[0] || !t.name[0] || strchr(t.project, '/') || strchr(t.zone, '/') ||
                       strchr(t.name, '/') || strchr(t.id, '/') || t.signature_len > sizeof(t.signature) ||
                       t.signed_len >= len))
                abort();
        if (r < 0 && (r != -EBADMSG || !why[0] || !memchr(why, 0, sizeof(why))))
                abort();
        if (token_keys_check(k, text, len, UINT64_C(1764300000) * USEC_PER_SEC, &t, why) == 0)
                abort(); /* nobody signed it */
}

static void try_parts(const struct token_keys *k, const char *data, size_t size) {
        const char *end = memchr(data, '\n', size);
        char text[3 * INSTANCE_TOKEN_MAX];
        size_t len, head = end ? (size_t) (end - data) : 0;

        if (!end || size > INSTANCE_TOKEN_MAX)
                return;
        len = pack(data, head, text);
        text[len++] = '.';
        len += pack(end + 1, size - head - 1, text + len);
        memcpy(text + len, ".AAAA", 5);
        try_token(k, text, len + 5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(token_keys_freep) struct token_keys *k = NULL;
        _cleanup_free_ char *text = size > 0 ? strndup((const char *) data + 1, size - 1) : NULL;
        char why[NAME_LIST_WHY_MAX] = "";

        if (!text || token_keys_new("/none", "https://collectors.site.example", &k) < 0)
                return 0;
        if (data[0] == 'k') {
                if (token_keys_parse(k, text, strlen(text), why) < 0 && !why[0])
                        abort();
        } else if (data[0] == 'p')
                try_parts(k, (const char *) data + 1, size - 1);
        else
                try_token(k, (const char *) data + 1, size - 1);
        return 0;
}
