/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Why the other side of a TLS connection hung up, whatever libcurl saw of it. With TLS 1.3 a server judges our
 * certificate after our handshake has ended (RFC 8446, 2): its alert comes while we send already, and its reset right
 * behind. libcurl says "fatal alert" or "connection reset"; GnuTLS knows which alert it was. libcurl gives its session
 * out while it lives (CURLINFO_TLS_SSL_PTR), so it is asked in what libcurl calls with each of its words.
 */
#include <curl/curl.h>

#include "base.h"

/*
 * On every connection that easy makes: writes down the alert that ended it in *alert, which must live as long as the
 * multi handle's connections. Closing in peace (close_notify) is none. -EIO.
 */
int peer_alert_listen(CURL *easy, int *alert);
/* GnuTLS' words for it ("… alert: Unknown CA") into text; 0 leaves text as it is. */
void peer_alert_words(int alert, char *text, size_t size);
