/* SPDX-License-Identifier: Apache-2.0 */
#include "texts.h"

#include <assert.h>
#include <stdarg.h>
#include <strings.h>

char **strings_free(char **l) {
        for (size_t i = 0; l && l[i]; i++)
                free(l[i]);
        free(l);
        return NULL;
}

char **strings_copy(const char *const *from, size_t n) {
        char **l = calloc(n + 1, sizeof(*l));

        for (size_t i = 0; l && i < n; i++) {
                l[i] = strdup(from[i]);
                if (!l[i])
                        return strings_free(l);
        }
        return l;
}

void text_append(char *buf, size_t size, const char *between, const char *fmt, ...) {
        size_t n = strlen(buf);
        va_list ap;

        assert(n < size);
        if (n > 0) {
                (void) snprintf(buf + n, size - n, "%s", between);
                n += strlen(buf + n);
        }
        va_start(ap, fmt);
        (void) vsnprintf(buf + n, size - n, fmt, ap);
        va_end(ap);
}

int text_fail(char *why, size_t size, int error, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(why, size, fmt, ap);
        va_end(ap);
        return error;
}

void placeholder_fill(char *text, size_t size, const char *word, const char *value) {
        size_t n = strlen(value), left;

        assert(size > 0 && word[0]);
        for (char *at = text; (at = strstr(at, word)); at += n) {
                char *rest = at + strlen(word);

                left = size - (size_t) (at - text) - 1; /* for the value and what is behind it */
                n = MIN(n, left);
                memmove(at + n, rest, MIN(strlen(rest), left - n) + 1);
                memcpy(at, value, n);
                text[size - 1] = '\0';
        }
}

int range_next(const char **list, uint64_t *ret_first, uint64_t *ret_last) {
        uint64_t first, last;
        char *end;

        if (**list == '\0' || **list == '\n')
                return 0;
        if (!is_digit(**list))
                return -EBADMSG;
        first = last = strtoull(*list, &end, 10);
        if (*end == '-' && is_digit(end[1]))
                last = strtoull(end + 1, &end, 10);
        if (last < first || !strchr(",\n", *end)) /* or the end */
                return -EBADMSG;
        *list = end + (*end == ',');
        *ret_first = first;
        *ret_last = last;
        return 1;
}

const char *mac_text(const uint8_t mac[static 6], char buf[static MAC_TEXT_MAX]) {
        (void) snprintf(buf, MAC_TEXT_MAX, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
                        mac[4], mac[5]);
        return buf;
}

bool mac_parse(const char *text, uint8_t ret[static 6]) {
        char again[MAC_TEXT_MAX];
        uint8_t mac[6];

        if (sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
                   &mac[5]) != 6 ||
            strcasecmp(mac_text(mac, again), text) != 0)
                return false;
        memcpy(ret, mac, sizeof(mac));
        return true;
}

bool name_is_for_registry(const char *name) {
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

        return n >= 1 && n <= 63 && !name[n] && !strchr("._-", name[0]);
}

static bool has_word(const char *name, size_t len, const char *word) {
        size_t n = strlen(word);

        for (size_t i = 0; i + n <= len; i++)
                if (strncasecmp(name + i, word, n) == 0)
                        return true;
        return false;
}

bool name_is_secret(const char *name, size_t len) {
        static const char *const words[] = { "SECRET", "TOKEN", "PASSW", "CREDENTIAL" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (has_word(name, len, words[i]))
                        return true;
        return len >= 3 && strncasecmp(name + len - 3, "KEY", 3) == 0;
}

char *hex_encode(const void *data, size_t len) {
        static const char digits[] = "0123456789abcdef";
        const uint8_t *from = data;
        char *text = malloc(2 * len + 1);

        if (!text)
                return NULL;
        for (size_t i = 0; i < len; i++) {
                text[2 * i] = digits[from[i] >> 4];
                text[2 * i + 1] = digits[from[i] & 15];
        }
        text[2 * len] = '\0';
        return text;
}
