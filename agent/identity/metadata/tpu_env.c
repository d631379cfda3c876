/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>

#include "tpu_env.h"

#include "texts.h"
#include "topology.h"

#define KEY_MAX 64

static int refuse_line(char why[static TPU_ENV_WHY_MAX], size_t line, const char *text) {
        return text_fail(why, TPU_ENV_WHY_MAX, -EBADMSG, "line %zu: %s", line, text);
}

/* --- tpu-env ------------------------------------------------------------------------------------------- */

/* The first of two names for a field stands. */
static const struct {
        const char *key;
        enum identity_field field;
} keys[] = {
        { "ACCELERATOR_TYPE", IDENTITY_ACCELERATOR_TYPE },
        { "TPU_ACCELERATOR_TYPE", IDENTITY_ACCELERATOR_TYPE },
        { "WORKER_ID", IDENTITY_WORKER_ID },
        { "TPU_WORKER_ID", IDENTITY_WORKER_ID },
        { "TOPOLOGY", IDENTITY_TOPOLOGY },
        { "TPU_TOPOLOGY", IDENTITY_TOPOLOGY },
        { "TPU_TOPOLOGY_WRAP", IDENTITY_TOPOLOGY_WRAP },
        { "WRAP", IDENTITY_TOPOLOGY_WRAP },
        { "CHIPS_PER_HOST_BOUNDS", IDENTITY_CHIPS_PER_HOST_BOUNDS },
        { "TPU_CHIPS_PER_HOST_BOUNDS", IDENTITY_CHIPS_PER_HOST_BOUNDS },
        { "HOST_BOUNDS", IDENTITY_HOST_BOUNDS },
        { "TPU_HOST_BOUNDS", IDENTITY_HOST_BOUNDS },
        { "ENABLE_ICI_RESILIENCY", IDENTITY_ICI_RESILIENCY },
        { "NODE_ID", IDENTITY_SLICE_NAME },
        { "ZONE", IDENTITY_ZONE },
        { "PREEMPTIBLE", IDENTITY_PREEMPTIBLE },
        { "MEGASCALE_NUM_SLICES", IDENTITY_SLICES },
        { "MEGASCALE_SLICE_ID", IDENTITY_SLICE_ID },
        { "MEGASCALE_COORDINATOR_ADDRESS", IDENTITY_COORDINATOR },
};

struct line {
        char key[KEY_MAX], value[TPU_ENV_VALUE_MAX];
};

/* Takes quotes off; '' within '…' is a quote. False: a quote is not closed. */
static bool take_value(const char *text, size_t len, char value[static TPU_ENV_VALUE_MAX]) {
        char quote = len > 0 && (text[0] == '\'' || text[0] == '"') ? text[0] : '\0';
        size_t n = 0;

        if (quote && (len < 2 || text[len - 1] != quote))
                return false;
        for (size_t i = quote ? 1 : 0; i < len - (quote ? 1 : 0); i++) {
                if (text[i] == '\'' && quote == '\'' && i + 2 < len && text[i + 1] == '\'')
                        i++;
                value[n++] = text[i];
        }
        value[n] = '\0';
        return true;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t trim(const char **text, size_t len) {
        while (len > 0 && is_blank((*text)[0]))
                (*text)++, len--;
        while (len > 0 && is_blank((*text)[len - 1]))
                len--;
        return len;
}

static bool is_key(const char *text, size_t len) {
        if (len == 0 || len >= KEY_MAX)
                return false;
        for (size_t i = 0; i < len; i++)
                if (!((text[i] >= 'A' && text[i] <= 'Z') || (text[i] >= 'a' && text[i] <= 'z') ||
                      (text[i] >= '0' && text[i] <= '9') || text[i] == '_' || text[i] == '-'))
                        return false;
        return true;
}

/* "KEY: 'VALUE'", trimmed. NULL, or what is wrong. */
static const char *take_line(const char *text, size_t len, struct line *l) {
        const char *colon = memchr(text, ':', len), *value;
        size_t n;

        if (!colon)
                return "not KEY: 'VALUE'";
        value = colon + 1;
        len -= (size_t) (value - text);
        n = trim(&text, (size_t) (colon - text));
        if (!is_key(text, n))
                return "its key is none";
        memcpy(l->key, text, n);
        l->key[n] = '\0';
        n = trim(&value, len);
        if (n >= TPU_ENV_VALUE_MAX)
                return "its value is too long";
        return take_value(value, n, l->value) ? NULL : "a quote is not closed";
}

/* Whether it counts, and what cannot be. */
static int add_line(const struct line *l, const char *origin, struct identity *i,
                    char why[static TPU_ENV_WHY_MAX]) {
        for (size_t k = 0; k < ELEMENTSOF(keys); k++) {
                int r;

                if (!streq(l->key, keys[k].key) || !l->value[0])
                        continue;
                r = identity_add(i, keys[k].field, l->value, origin);
                if (r == -EINVAL && !why[0])
                        (void) snprintf(why, TPU_ENV_WHY_MAX, "%s cannot be %s: it is passed over", l->key,
                                        identity_field_name(keys[k].field));
                return r == -EINVAL ? 0 : r;
        }
        return 0;
}

static int parse_lines(const char *text, size_t len, const char *origin, struct identity *i,
                       char why[static TPU_ENV_WHY_MAX]) {
        size_t number = 0, said = 0;

        for (const char *end = text + len; text < end;) {
                const char *feed = memchr(text, '\n', (size_t) (end - text)), *at = text;
                size_t n = trim(&at, (size_t) ((feed ? feed : end) - text));
                const char *wrong;
                struct line l;
                int r;

                text = feed ? feed + 1 : end;
                if (++number > TPU_ENV_LINES_MAX)
                        return refuse_line(why, number, "more lines than tpu-env can have");
                if (n == 0 || at[0] == '#' || (n == 3 && memcmp(at, "---", 3) == 0))
                        continue;
                wrong = memchr(at, '\0', n) ? "a NUL byte" : take_line(at, n, &l);
                if (wrong)
                        return refuse_line(why, number, wrong);
                r = add_line(&l, origin, i, why);
                if (r < 0)
                        return r;
                said++;
        }
        if (said == 0)
                (void) snprintf(why, TPU_ENV_WHY_MAX, "it is empty");
        return said > 0 ? 0 : -EBADMSG;
}

int tpu_env_parse(const char *text, size_t len, const char *origin, struct identity *i,
                  char why[static TPU_ENV_WHY_MAX]) {
        int r;

        why[0] = '\0';
        r = parse_lines(text, len, origin, i, why);
        if (r < 0)
                identity_clear(i);
        return r;
}

/* --- worker-network-endpoints -------------------------------------------------------------------------- */

struct endpoints {
        char *names, *addresses; /* comma lists, of room enough */
        size_t names_len, addresses_len, n;
        bool named; /* every name so far is one */
        bool bare;
};

static bool worker_name(const char *text, size_t len) {
        return worker_name_is_valid(text, len) && !memchr(text, ':', len);
}

static bool is_address(const char *text, size_t len) {
        char copy[INET6_ADDRSTRLEN];
        struct in6_addr address;

        if (len >= sizeof(copy))
                return false;
        memcpy(copy, text, len);
        copy[len] = '\0';
        return inet_pton(AF_INET, copy, &address) == 1 || inet_pton(AF_INET6, copy, &address) == 1;
}

static void append(char *list, size_t *list_len, const char *text, size_t len) {
        if (*list_len > 0)
                list[(*list_len)++] = ',';
        memcpy(list + *list_len, text, len);
        *list_len += len;
        list[*list_len] = '\0';
}

/* The Cloud TPU API writes "unknown" where it has no name. */
static bool is_named(const char *text, size_t len) {
        return worker_name(text, len) && !(len == strlen("unknown") && memcmp(text, "unknown", len) == 0);
}

/* "NAME:UID:ADDRESS" or "NAME". NULL, or what is wrong. */
static const char *take_endpoint(const char *text, size_t len, struct endpoints *e) {
        const char *first = memchr(text, ':', len);
        const char *second = first ? memchr(first + 1, ':', len - (size_t) (first + 1 - text)) : NULL;
        const char *address = second ? second + 1 : NULL;
        size_t name_len = first ? (size_t) (first - text) : len;

        if (first && !second)
                return "neither NAME:UID:ADDRESS nor NAME";
        if (e->n > 0 && e->bare != !first)
                return "not of the form of those before it";
        e->bare = !first;
        if (address && !is_address(address, len - (size_t) (address - text)))
                return "its third part is no address";
        if (e->bare && !is_named(text, name_len))
                return "no host name";
        if (address)
                append(e->addresses, &e->addresses_len, address, len - (size_t) (address - text));
        e->named = e->named && is_named(text, name_len);
        if (e->named)
                append(e->names, &e->names_len, text, name_len);
        e->n++;
        return NULL;
}

static int take_endpoints(const char *text, size_t len, struct endpoints *e,
                          char why[static TPU_ENV_WHY_MAX]) {
        const char *end = text + len;

        for (;; text++) {
                const char *comma = memchr(text, ',', (size_t) (end - text)), *at = text, *wrong;
                size_t n = trim(&at, (size_t) ((comma ? comma : end) - text));

                wrong = e->n >= IDENTITY_HOSTS_MAX ? "more than a slice can have" : take_endpoint(at, n, e);
                if (wrong)
                        return text_fail(why, TPU_ENV_WHY_MAX, -EBADMSG, "endpoint %zu: %s", e->n, wrong);
                if (!comma)
                        return 0;
                text = comma;
        }
}

int tpu_endpoints_parse(const char *text, size_t len, const char *origin, struct identity *i,
                        char why[static TPU_ENV_WHY_MAX]) {
        _cleanup_free_ char *names = malloc(len + 2), *addresses = malloc(len + 2);
        struct endpoints e = { .names = names, .addresses = addresses, .named = true };
        int r;

        why[0] = '\0';
        if (!names || !addresses)
                return -ENOMEM;
        len = trim(&text, len);
        if (memchr(text, '\0', len))
                return text_fail(why, TPU_ENV_WHY_MAX, -EBADMSG, "a NUL byte");
        r = take_endpoints(text, len, &e, why);
        if (r == 0 && e.addresses_len > 0)
                r = identity_add(i, IDENTITY_WORKER_ADDRESSES, addresses, origin);
        if (r == 0 && e.named)
                r = identity_add(i, IDENTITY_WORKER_HOSTNAMES, names, origin);
        return r == -EINVAL ? -EBADMSG : r;
}
