/* SPDX-License-Identifier: Apache-2.0 */
#include "redact.h"

#include <ctype.h>

#include "texts.h"

#define HIDDEN  "****"
#define NAMES   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
#define ENCODED "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+=_-"
#define HEX     "0123456789abcdefABCDEF-"
#define ENDS    " \t\n\r\"',;&<>(){}[]"
#define QUOTES  "\"'\\"

static bool starts_a_token(const char *s) {
        static const char *const marks[] = { "hf_",    "ghp_",  "gho_", "ghs_",  "github_pat_",
                                             "glpat-", "ya29.", "sk-",  "xoxb-", "xoxp-",
                                             "AKIA",   "AIza",  "eyJ" };

        for (size_t i = 0; i < ELEMENTSOF(marks); i++)
                if (startswith(s, marks[i]) && strspn(s + strlen(marks[i]), NAMES) >= 12)
                        return true;
        return false;
}

/* Letters and digits in a row as only base64 has them: identifiers and hexadecimal digits are none. */
static bool is_encoded(const char *s, size_t n) {
        bool upper = false, digit = false;

        for (size_t i = 0; i < n; i++) {
                upper = upper || isupper((unsigned char) s[i]);
                digit = digit || isdigit((unsigned char) s[i]);
        }
        return n >= SECRET_ENCODED && upper && digit && strspn(s, HEX) < n;
}

/* Of "scheme://user:password@host": up to the '@'; 0: no user stands there. */
static size_t user_of_url(const char *s) {
        size_t n = startswith(s, "://") ? strcspn(s + 3, " \t\n\"'/@") : 0;

        return n > 0 && s[3 + n] == '@' ? n : 0;
}

static bool is_scheme(const char *s, size_t n) {
        return (n == 6 && strncasecmp(s, "bearer", n) == 0) || (n == 5 && strncasecmp(s, "basic", n) == 0);
}

/* What stands between a secret's name and its value: '=' or ':', quotes and blanks around them, or the blank
 * behind an option or a scheme. 0: no value follows. */
static size_t gap(const char *s, bool option) {
        size_t n = strspn(s, QUOTES), sign;

        n += strspn(s + n, " \t");
        sign = strspn(s + n, "=:");
        if (sign == 0 && !option)
                return 0;
        n += sign;
        n += strspn(s + n, " \t");
        return n + strspn(s + n, QUOTES);
}

/* How much of a value is hidden: what stands in quotes to their end. Behind "Authorization:" its scheme is
 * hidden, too. before: what stands before s. */
static size_t value_length(const char *s, char before) {
        const char quote[] = { before, '\0' };
        size_t n = strcspn(s, ENDS), word = strspn(s, NAMES);

        if (before == '"' || before == '\'')
                return strcspn(s, quote);
        if (is_scheme(s, word) && s[word] == ' ')
                n = word + 1 + strcspn(s + word + 1, ENDS);
        return n;
}

/* A word with what follows it. Returns how many bytes that are. */
static size_t print_word(const char *word, size_t n, FILE *f) {
        bool authorizes = n >= strlen("authorization") && strncasecmp(word, "authorization", 13) == 0;
        bool scheme = is_scheme(word, n);
        size_t hidden = 0;

        if (name_is_secret(word, n) || authorizes || scheme) {
                size_t skip = gap(word + n, word[0] == '-' || scheme);

                n += skip;
                hidden = skip > 0 ? value_length(word + n, word[n - 1]) : 0;
        }
        fwrite(word, 1, n, f);
        fputs(hidden > 0 ? HIDDEN : "", f);
        return n + hidden;
}

static size_t print_piece(const char *at, FILE *f) {
        size_t word = strspn(at, NAMES), encoded = strspn(at, ENCODED), user = user_of_url(at);

        if (word > 0 && !starts_a_token(at) && !is_encoded(at, encoded))
                return print_word(at, word, f);
        if (word == 0 && user == 0) {
                fputc(*at, f);
                return 1;
        }
        fputs(user > 0 ? "://" HIDDEN : HIDDEN, f);
        return user > 0 ? 3 + user : MAX(word, encoded);
}

char *redact_text(const char *text) {
        char *out = NULL;
        size_t size;
        FILE *f = open_memstream(&out, &size);

        if (!f)
                return NULL;
        for (const char *at = text; *at;)
                at += print_piece(at, f);
        return memstream_close(f, &out);
}

static json_t *redacted(const char *name, const json_t *v) {
        _cleanup_free_ char *text =
                name_is_secret(name, strlen(name)) ? strdup(HIDDEN) : redact_text(json_string_value(v));

        return text ? json_string(text) : NULL;
}

int redact_json(json_t *v) {
        const char *name;
        json_t *item;
        size_t i;
        int r = 0;

        json_object_foreach (v, name, item) {
                if (r == 0 && json_is_string(item))
                        r = json_object_set_new(v, name, redacted(name, item)) < 0 ? -ENOMEM : 0;
                else if (r == 0)
                        r = redact_json(item);
        }
        json_array_foreach (v, i, item) {
                if (r == 0 && json_is_string(item))
                        r = json_array_set_new(v, i, redacted("", item)) < 0 ? -ENOMEM : 0;
                else if (r == 0)
                        r = redact_json(item);
        }
        return r;
}
