/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <jansson.h>
#include <strings.h>

#include "metadata_facts.h"
#include "metadata_reply.h"

#define WORD_MAX 40

/* "window_start_time" is "windowStartTime". */
static bool is_key(const char *found, const char *wanted) {
        for (; *found || *wanted; wanted++) {
                found += strspn(found, "_");
                if (tolower((unsigned char) *found) != *wanted)
                        return false;
                found += *found != '\0';
        }
        return true;
}

/* "" when it is not there, or no word. */
static void take(const json_t *o, const char *key, char word[static WORD_MAX]) {
        const char *name, *text;
        json_t *v;

        word[0] = '\0';
        json_object_foreach((json_t *) (uintptr_t) o, name, v) {
                text = json_string_value(v);
                if (!is_key(name, key) || !text)
                        continue;
                (void) snprintf(word, WORD_MAX, "%s", text);
                for (char *p = word; *p; p++)
                        if (*p < ' ' || *p > '~')
                                *p = '?';
        }
}

bool metadata_upcoming_parse(const char *value, char text[static METADATA_UPCOMING_MAX]) {
        char start[WORD_MAX], end[WORD_MAX], latest[WORD_MAX], type[WORD_MAX], status[WORD_MAX], move[WORD_MAX];
        json_t *o = json_loads(value, 0, NULL);

        take(o, "windowstarttime", start);
        take(o, "windowendtime", end);
        take(o, "latestwindowstarttime", latest);
        take(o, "type", type);
        if (!type[0])
                take(o, "maintenancetype", type);
        take(o, "maintenancestatus", status);
        take(o, "canreschedule", move);
        json_decref(o);
        if (!start[0])
                return false;
        (void) snprintf(text, METADATA_UPCOMING_MAX, "%s%s%s%s%s%s%s%s%s%s", type, type[0] ? ", " : "", status,
                        status[0] ? ", " : "", start, end[0] ? " to " : "", end, latest[0] ? ", at the latest from " : "", latest,
                        strcasecmp(move, "true") == 0 ? ", can be rescheduled" : "");
        return true;
}

#define CONNECT_TIMEOUT (2 * USEC_PER_SEC)
#define FNV_BASIS       UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME       UINT64_C(0x100000001b3)

void metadata_reply_init(struct metadata_reply *r, char *body, size_t size) {
        *r = (struct metadata_reply){ .body = body, .size = size };
        (void) snprintf(r->flavor_text, sizeof(r->flavor_text), "Metadata-Flavor: Google");
        r->flavor.data = r->flavor_text;
}

static size_t on_body(char *data, size_t size, size_t n, void *userdata) {
        struct metadata_reply *r = userdata;
        size_t len = size * n;

        r->too_long = len > METADATA_BODY_MAX - r->len;
        if (r->too_long)
                return 0; /* ends the transfer */
        if (r->len < r->size)
                memcpy(r->body + r->len, data, MIN(len, r->size - r->len));
        for (size_t i = 0; i < len; i++)
                r->hash = (r->hash ^ (uint8_t) data[i]) * FNV_PRIME;
        r->len += len;
        return len;
}

/* The value of a header line of that name ("etag:"), trimmed; NULL when it is another one's. */
static const char *header_value(const char *line, size_t len, const char *name, size_t *ret_len) {
        size_t at = strlen(name);

        if (len < at || strncasecmp(line, name, at) != 0)
                return NULL;
        while (at < len && (line[at] == ' ' || line[at] == '\t'))
                at++;
        while (len > at && strchr(" \t\r\n", line[len - 1]) && line[len - 1])
                len--;
        *ret_len = len - at;
        return line + at;
}

static size_t on_header(char *data, size_t size, size_t n, void *userdata) {
        struct metadata_reply *r = userdata;
        const char *value;
        size_t len = 0;

        value = header_value(data, size * n, "metadata-flavor:", &len);
        if (value)
                r->flavored = len == strlen("Google") && memcmp(value, "Google", len) == 0;
        value = header_value(data, size * n, "etag:", &len);
        /* it goes back in a URL: nothing there may mean more than itself */
        if (value && len < sizeof(r->etag)) {
                memcpy(r->etag, value, len);
                r->etag[len] = '\0';
                if (r->etag[strspn(r->etag,
                                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")])
                        r->etag[0] = '\0';
        }
        return size * n;
}

static int prepare(struct metadata_reply *r, struct http_transfer *t, const char *user_agent) {
        const struct http_options o = { .user_agent = user_agent,
                                        .connect_timeout = CONNECT_TIMEOUT,
                                        .timeout = CONNECT_TIMEOUT };
        int done = http_transfer_prepare(t, &o), bad = 0;
        CURL *c = t->easy;

        if (done <= 0)
                return done;
        bad |= curl_easy_setopt(c, CURLOPT_HTTPGET, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HTTPHEADER, &r->flavor) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEDATA, r) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERDATA, r) != CURLE_OK;
        if (bad)
                http_transfer_drop(t);
        return bad ? -EIO : 0;
}

int metadata_reply_ask(struct metadata_reply *r, struct http_transfer *t, const char *user_agent,
                       const char *url, usec_t timeout) {
        int done = prepare(r, t, user_agent);

        if (done == 0)
                done = http_transfer_set_timeout(t, timeout);
        if (done == 0 && curl_easy_setopt(t->easy, CURLOPT_URL, url) != CURLE_OK)
                done = -ENOMEM;
        r->len = 0;
        r->hash = FNV_BASIS;
        r->flavored = r->too_long = false;
        r->etag[0] = '\0';
        return done < 0 ? done : http_transfer_start(t);
}
