/* SPDX-License-Identifier: Apache-2.0 */
#include "peer_alert.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

static void on_info(const SSL *ssl, int where, int what) {
        int *alert = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)), description = what & 0xff;

        if ((where & SSL_CB_READ_ALERT) != SSL_CB_READ_ALERT)
                return;
        if (description != SSL_AD_CLOSE_NOTIFY && description != SSL_AD_USER_CANCELLED &&
            description != SSL_AD_NO_RENEGOTIATION)
                *alert = description;
}

/*
 * curl before 8.0 goes on with a body in another buffer than OpenSSL was given first, which it refuses unless told
 * otherwise ("bad write retry"): then a peer's alert would never be read.
 */
static CURLcode on_context(CURL *c, void *context, void *userdata) {
        (void) c;
        (void) SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                                 SSL_MODE_RELEASE_BUFFERS /* while nothing is on its way */);
        SSL_CTX_set_info_callback(context, on_info);
        return SSL_CTX_set_app_data(context, userdata) == 1 ? CURLE_OK : CURLE_OUT_OF_MEMORY;
}

int peer_alert_listen(CURL *easy, int *alert) {
        if (curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_context) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, alert) != CURLE_OK)
                return -EIO;
        return 0;
}

void peer_alert_words(int alert, char *text, size_t size) {
        const char *words;

        if (alert == 0)
                return;
        words = ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, SSL_AD_REASON_OFFSET + alert));
        if (words)
                (void) snprintf(text, size, "the other side said: %s", words);
        else
                (void) snprintf(text, size, "the other side said: TLS alert %d", alert);
}
