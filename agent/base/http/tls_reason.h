/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Why TLS with the other side failed, in GnuTLS' words. libcurl says "server certificate verification failed", "fatal
 * alert" or "connection reset"; GnuTLS knows what is wrong with the certificate, and which alert came. libcurl gives
 * its session out while it lives (CURLINFO_TLS_SSL_PTR), so it is asked in what libcurl calls with each of its words.
 *
 * With TLS 1.3 a server judges our certificate after our handshake has ended (RFC 8446, 2): its alert comes while we
 * send already, and its reset right behind. Who sends late fails with "connection reset" and has not read the alert.
 */
#include <curl/curl.h>

#include "base.h"

#define TLS_REASON_MAX 200

/*
 * On every connection that easy makes: writes into text why TLS ended, and leaves it as it is when it ends in peace
 * (close_notify). text must live as long as the multi handle's connections. -EIO.
 */
int tls_reason_listen(CURL *easy, char text[static TLS_REASON_MAX]);
