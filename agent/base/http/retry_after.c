/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <curl/curl.h>

#include <strings.h>

#include "retry_after.h"

void backoff_take_retry_after(const char *line, size_t len, char ret[static BACKOFF_RETRY_AFTER_TEXT]) {
        static const char name[] = "retry-after:";
        size_t at = sizeof(name) - 1;

        if (len < at || strncasecmp(line, name, at) != 0)
                return;
        while (at < len && (line[at] == ' ' || line[at] == '\t'))
                at++;
        while (len > at && (line[len - 1] == '\r' || line[len - 1] == '\n' || line[len - 1] == ' '))
                len--;
        if (len - at >= BACKOFF_RETRY_AFTER_TEXT)
                return;
        memcpy(ret, line + at, len - at);
        ret[len - at] = '\0';
}

int backoff_parse_retry_after(const char *text, usec_t now_real, usec_t *ret) {
        size_t digits = strspn(text, "0123456789");
        usec_t at;
        time_t t;

        if (digits > 0 && text[digits] == '\0') {
                /* more than 9 digits are more than the limit, whatever they say */
                usec_t seconds = digits > 9 ? BACKOFF_RETRY_AFTER_MAX : (usec_t) strtoull(text, NULL, 10);

                *ret = MIN(seconds, BACKOFF_RETRY_AFTER_MAX / USEC_PER_SEC) * USEC_PER_SEC;
                return 0;
        }
        /*
         * all three forms of a date begin with the day's name; curl_getdate() alone would take "12.5" for
         * one
         */
        if (!isalpha((unsigned char) text[0]) || !strchr(text, ':'))
                return -EBADMSG;
        t = curl_getdate(text, NULL);
        if (t < 0)
                return -EBADMSG;
        at = (usec_t) t * USEC_PER_SEC;
        *ret = at > now_real ? MIN(at - now_real, BACKOFF_RETRY_AFTER_MAX) : 0;
        return 0;
}
