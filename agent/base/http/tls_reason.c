/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_reason.h"

#include <gnutls/gnutls.h>

static bool has(const char *text, size_t size, const char *words) {
        return memmem(text, size, words, strlen(words)) != NULL;
}

static gnutls_session_t session_of(CURL *easy) {
        const struct curl_tlssessioninfo *info = NULL;

        if (curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &info) != CURLE_OK || !info ||
            info->backend != CURLSSLBACKEND_GNUTLS)
                return NULL;
        return info->internals;
}

static void name_alert(gnutls_session_t session, char ret[static TLS_REASON_MAX]) {
        gnutls_alert_description_t alert = gnutls_alert_get(session);
        const char *name = gnutls_alert_get_name(alert);

        if (alert == GNUTLS_A_CLOSE_NOTIFY || alert == GNUTLS_A_USER_CANCELED || alert == GNUTLS_A_NO_RENEGOTIATION)
                return; /* the first is 0, which also says that there was none */
        if (name)
                (void) snprintf(ret, TLS_REASON_MAX, "the other side ended TLS with the alert: %s", name);
        else
                (void) snprintf(ret, TLS_REASON_MAX, "the other side ended TLS with alert %d", (int) alert);
}

static void judge_certificate(gnutls_session_t session, char ret[static TLS_REASON_MAX]) {
        gnutls_datum_t words = { 0 };
        unsigned status = 0;

        if (gnutls_certificate_verify_peers2(session, &status) < 0 || status == 0 ||
            gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &words, 0) < 0)
                return;
        (void) snprintf(ret, TLS_REASON_MAX, "the other side's certificate: %s", (const char *) words.data);
        gnutls_free(words.data);
}

/* Called inside of libcurl, while the session stands. */
static int on_word(CURL *easy, curl_infotype type, char *text, size_t size, void *userdata) {
        gnutls_session_t session = type == CURLINFO_TEXT ? session_of(easy) : NULL;
        char *ret = userdata, rest[64];

        if (!session || ret[0])
                return 0;
        if (has(text, size, "verification failed"))
                judge_certificate(session, ret);
        /* The last moment to read the alert, in the words of each version: "Closing connection 0", "closing connection #0". */
        if (has(text, size, "losing connection") && gnutls_alert_get(session) == GNUTLS_A_CLOSE_NOTIFY)
                (void) gnutls_record_recv(session, rest, sizeof(rest)); /* what else came is not wanted any more */
        name_alert(session, ret);
        return 0;
}

int tls_reason_listen(CURL *easy, char text[static TLS_REASON_MAX]) {
        if (curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, on_word) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_DEBUGDATA, text) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L) != CURLE_OK)
                return -EIO;
        return 0;
}
