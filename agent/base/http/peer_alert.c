/* SPDX-License-Identifier: Apache-2.0 */
#include "peer_alert.h"

#include <gnutls/gnutls.h>

/* libcurl's word before it closes a connection, in each version: "Closing connection 0", "closing connection #0". */
static bool is_closing(const char *text, size_t size) {
        return memmem(text, size, "losing connection", strlen("losing connection")) != NULL;
}

static gnutls_session_t session_of(CURL *easy) {
        const struct curl_tlssessioninfo *info = NULL;

        if (curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &info) != CURLE_OK || !info ||
            info->backend != CURLSSLBACKEND_GNUTLS)
                return NULL;
        return info->internals;
}

/*
 * Called inside of libcurl, while the session stands. Who sends late has not read the alert yet when sending fails:
 * it is read as the last thing before the session goes.
 */
static int on_word(CURL *easy, curl_infotype type, char *text, size_t size, void *userdata) {
        gnutls_session_t session = type == CURLINFO_TEXT ? session_of(easy) : NULL;
        gnutls_alert_description_t alert;
        int *ret = userdata;
        char rest[64];

        if (!session)
                return 0;
        alert = gnutls_alert_get(session);
        if (alert == GNUTLS_A_CLOSE_NOTIFY && is_closing(text, size)) { /* 0, which also says that there was none */
                (void) gnutls_record_recv(session, rest, sizeof(rest)); /* what else came is not wanted any more */
                alert = gnutls_alert_get(session);
        }
        if (alert != GNUTLS_A_CLOSE_NOTIFY && alert != GNUTLS_A_USER_CANCELED && alert != GNUTLS_A_NO_RENEGOTIATION)
                *ret = (int) alert;
        return 0;
}

int peer_alert_listen(CURL *easy, int *alert) {
        if (curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, on_word) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_DEBUGDATA, alert) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L) != CURLE_OK)
                return -EIO;
        return 0;
}

void peer_alert_words(int alert, char *text, size_t size) {
        const char *words = gnutls_alert_get_name((gnutls_alert_description_t) alert);

        if (alert == 0)
                return;
        if (words)
                (void) snprintf(text, size, "the other side ended TLS with the alert: %s", words);
        else
                (void) snprintf(text, size, "the other side ended TLS with alert %d", alert);
}
