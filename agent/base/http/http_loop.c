/* SPDX-License-Identifier: Apache-2.0 */
#include "http_loop.h"

#include <fcntl.h>
#include <gnutls/gnutls.h>

#include "loop_timer.h"

/* Of Debian and Ubuntu. */
#define SYSTEM_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"
#define SLACK_MAX (2500 * USEC_PER_MSEC)

/* --- Why TLS ended ------------------------------------------------------------------------------------- */

/*
 * Why TLS with the other side failed, in GnuTLS' words. libcurl says "server certificate verification
 * failed", "fatal alert" or "connection reset"; GnuTLS knows what is wrong with the certificate, and which
 * alert came. libcurl gives its session out while it lives (CURLINFO_TLS_SSL_PTR), so it is asked in what
 * libcurl calls with each of its words.
 *
 * With TLS 1.3 a server judges our certificate after our handshake has ended (RFC 8446, 2): its alert comes
 * while we send already, and its reset right behind. Who sends late fails with "connection reset" and has
 * not read the alert.
 */
static bool has_words(const char *text, size_t size, const char *words) {
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

        if (alert == GNUTLS_A_CLOSE_NOTIFY || alert == GNUTLS_A_USER_CANCELED ||
            alert == GNUTLS_A_NO_RENEGOTIATION)
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
        if (has_words(text, size, "verification failed"))
                judge_certificate(session, ret);
        /* The last moment to read the alert, in the words of each version: "Closing connection 0", "closing
         * connection #0". */
        if (has_words(text, size, "losing connection") && gnutls_alert_get(session) == GNUTLS_A_CLOSE_NOTIFY)
                /* what else came is not wanted any more */
                (void) gnutls_record_recv(session, rest, sizeof(rest));
        name_alert(session, ret);
        return 0;
}

/*
 * On every connection that easy makes: writes into text why TLS ended, and leaves it as it is when it ends
 * in peace (close_notify). text must live as long as the multi handle's connections. -EIO.
 */
static int tls_reason_listen(CURL *easy, char text[static TLS_REASON_MAX]) {
        if (curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, on_word) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_DEBUGDATA, text) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L) != CURLE_OK)
                return -EIO;
        return 0;
}

struct http_loop {
        sd_event *event;
        CURLM *multi; /* NULL: could not be made again; the next prepare tries again */
        bool global;
        sd_event_source *timer, *now;
        char socket_name[32], timer_name[32];
        struct http_transfer *transfers;
};

/*
 * One of libcurl's sockets that is watched, by a descriptor of our own: curl_multi_remove_handle() closes a
 * connection first and says CURL_POLL_REMOVE then, when epoll cannot forget that number any more. As long as
 * a child of ours that was just forked has the socket, too, its events would be reported for a source that
 * is gone.
 */
struct watch {
        struct http_loop *loop;
        curl_socket_t fd; /* libcurl's */
        sd_event_source *source; /* owns the copy */
};

static void drain(struct http_loop *l);
static void rebuild(struct http_loop *l);

static void step_multi(struct http_loop *l, curl_socket_t fd, int mask) {
        int running;

        if (curl_multi_socket_action(l->multi, fd, mask, &running) != CURLM_OK)
                rebuild(l);
        else
                drain(l);
}

static struct watch *watch_free(struct watch *w) {
        if (!w)
                return NULL;
        (void) sd_event_source_disable_unref(w->source);
        free(w);
        return NULL;
}
DEFINE_CLEANUP(struct watch *, watch_free)

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        struct watch *w = userdata;
        int mask = 0;

        (void) source, (void) fd;
        if (revents & EPOLLIN)
                mask |= CURL_CSELECT_IN;
        if (revents & EPOLLOUT)
                mask |= CURL_CSELECT_OUT;
        if (revents & (EPOLLERR | EPOLLHUP))
                mask |= CURL_CSELECT_ERR;
        step_multi(w->loop, w->fd, mask); /* and w may be gone */
        return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        step_multi(userdata, CURL_SOCKET_TIMEOUT, 0);
        return 0;
}

static int watch_new(struct http_loop *l, curl_socket_t fd, uint32_t events, struct watch **ret) {
        _cleanup_close_ int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        _cleanup_(watch_freep) struct watch *w = calloc(1, sizeof(*w));
        int r;

        if (!w)
                return -ENOMEM;
        if (copy < 0)
                return -errno;
        *w = (struct watch){ .loop = l, .fd = fd };
        r = sd_event_add_io(l->event, &w->source, copy, events, on_io, w);
        if (r >= 0)
                r = sd_event_source_set_io_fd_own(w->source, true);
        if (r < 0)
                return r;
        (void) TAKE_FD(copy);
        (void) sd_event_source_set_description(w->source, l->socket_name);
        *ret = TAKE_PTR(w);
        return 0;
}

static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *userdata, void *socketp) {
        struct watch *w = socketp;
        struct http_loop *l = userdata;
        uint32_t events = 0;

        (void) easy;
        if (what == CURL_POLL_REMOVE) {
                (void) watch_free(w);
                (void) curl_multi_assign(l->multi, fd, NULL);
                return 0;
        }
        if (what != CURL_POLL_OUT)
                events |= EPOLLIN;
        if (what != CURL_POLL_IN)
                events |= EPOLLOUT;
        if (w)
                return sd_event_source_set_io_events(w->source, events) < 0 ? -1 : 0;
        if (watch_new(l, fd, events, &w) < 0)
                return -1;
        if (curl_multi_assign(l->multi, fd, w) != CURLM_OK) {
                (void) watch_free(w);
                return -1;
        }
        return 0;
}

static int on_now(sd_event_source *source, void *userdata) {
        (void) source;
        step_multi(userdata, CURL_SOCKET_TIMEOUT, 0);
        return 0;
}

/*
 * How much later a limit may be noticed: libcurl's timers of seconds are limits, and most exchanges end
 * before. Its limit for connecting stays set although the connection is there. Of a held request that alone
 * would be a wakeup each time.
 */
static usec_t slack(usec_t timeout) {
        return timeout < USEC_PER_SEC ? USEC_PER_MSEC : MIN(timeout / 2, SLACK_MAX);
}

/* At once is at once: no timer has to be set, and nobody sleeps until it goes off. */
static int timer_changed(CURLM *multi, long timeout_ms, void *userdata) {
        struct http_loop *l = userdata;
        int r = sd_event_source_set_enabled(l->now, timeout_ms == 0 ? SD_EVENT_ONESHOT : SD_EVENT_OFF);

        (void) multi;
        if (r >= 0 && timeout_ms > 0)
                r = sd_event_source_set_time_accuracy(l->timer, slack((usec_t) timeout_ms * USEC_PER_MSEC));
        if (r < 0)
                return -1;
        r = loop_timer_in(l->timer, timeout_ms > 0 ? (usec_t) timeout_ms * USEC_PER_MSEC : USEC_INFINITY);
        return r < 0 ? -1 : 0;
}

static int new_multi(struct http_loop *l) {
        l->multi = curl_multi_init();
        if (!l->multi)
                return -ENOMEM;
        if (curl_multi_setopt(l->multi, CURLMOPT_SOCKETFUNCTION, socket_changed) != CURLM_OK ||
            curl_multi_setopt(l->multi, CURLMOPT_SOCKETDATA, l) != CURLM_OK ||
            curl_multi_setopt(l->multi, CURLMOPT_TIMERFUNCTION, timer_changed) != CURLM_OK ||
            curl_multi_setopt(l->multi, CURLMOPT_TIMERDATA, l) != CURLM_OK)
                return -EIO;
        return 0;
}

static void drop_handles(struct http_loop *l) {
        for (struct http_transfer *t = l->transfers; t; t = t->next)
                http_transfer_drop(t);
        if (l->multi)
                (void) curl_multi_cleanup(l->multi);
        l->multi = NULL;
}

/* done may start the transfer's next exchange: what was lost differs from that by having no handle. */
static void rebuild(struct http_loop *l) {
        drop_handles(l);
        (void) sd_event_source_set_enabled(l->timer, SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(l->now, SD_EVENT_OFF);
        if (new_multi(l) < 0)
                drop_handles(l); /* the next prepare tries again */
        for (struct http_transfer *t = l->transfers; t; t = t->next) {
                if (t->easy || !t->at_work)
                        continue;
                t->at_work = false;
                t->code = CURLE_ABORTED_BY_CALLBACK;
                t->done(t, "all connections were closed; started anew");
        }
}

void http_loop_renew(struct http_loop *l) {
        rebuild(l);
}

static void drain(struct http_loop *l) {
        CURLMsg *m;
        int left;

        while (l->multi && (m = curl_multi_info_read(l->multi, &left))) {
                CURLcode code = m->data.result;
                CURL *easy = m->easy_handle;

                if (m->msg != CURLMSG_DONE)
                        continue;
                for (struct http_transfer *t = l->transfers; t; t = t->next)
                        if (t->easy == easy) {
                                (void) curl_multi_remove_handle(l->multi, easy);
                                t->at_work = false;
                                t->code = code;
                                t->done(t, code == CURLE_OK ? NULL : curl_easy_strerror(code));
                                break;
                        }
        }
}

/* --- Transfers ---------------------------------------------------------------------------------------- */

void http_loop_add(struct http_loop *l, struct http_transfer *t) {
        t->loop = l;
        t->next = l->transfers;
        l->transfers = t;
}

void http_loop_remove(struct http_loop *l, struct http_transfer *t) {
        struct http_transfer **at = &l->transfers;

        http_transfer_drop(t);
        while (*at && *at != t)
                at = &(*at)->next;
        if (*at)
                *at = t->next;
}

/* Options of kinds that libcurl takes over by value or copies. */
static int setup_easy(CURL *c, const struct http_options *o) {
        int bad = 0;

        bad |= curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) != CURLE_OK;
        /* "": not even from the environment */
        bad |= curl_easy_setopt(c, CURLOPT_PROXY, o->proxy ? o->proxy : "") != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_NOPROXY, "") != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_USERAGENT, o->user_agent) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long) (o->connect_timeout / USEC_PER_MSEC)) !=
               CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long) (o->timeout / USEC_PER_MSEC)) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2) != CURLE_OK;
        /* a resumed session would go on with the previous certificate */
        bad |= curl_easy_setopt(c, CURLOPT_SSL_SESSIONID_CACHE, 0L) != CURLE_OK;
        /* GnuTLS would read each file of /etc/ssl/certs for each connection: 26 ms and 3.8 MB, measured with
         * 7.88 */
        bad |= curl_easy_setopt(c, CURLOPT_CAPATH, NULL) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_CAINFO, SYSTEM_AUTHORITIES) != CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075500
        bad |= curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK;
#else
        bad |= curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS)) != CURLE_OK;
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
        bad |= curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L) != CURLE_OK;
#endif
        return bad ? -EIO : 0;
}

int http_transfer_prepare(struct http_transfer *t, const struct http_options *o) {
        int r;

        if (!t->loop->multi) {
                r = new_multi(t->loop);
                if (r < 0)
                        return r;
        }
        if (t->easy)
                return 0;
        t->easy = curl_easy_init();
        if (!t->easy)
                return -ENOMEM;
        r = setup_easy(t->easy, o);
        if (r == 0 && curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->why) != CURLE_OK)
                r = -EIO;
        if (r == 0)
                r = tls_reason_listen(t->easy, t->tls);
        if (r < 0)
                http_transfer_drop(t);
        return r < 0 ? r : 1;
}

void http_transfer_drop(struct http_transfer *t) {
        if (t->easy && t->at_work)
                (void) curl_multi_remove_handle(t->loop->multi, t->easy);
        if (t->easy)
                curl_easy_cleanup(t->easy);
        t->easy = NULL;
}

void http_transfer_cancel(struct http_transfer *t) {
        if (t->easy && t->at_work)
                (void) curl_multi_remove_handle(t->loop->multi, t->easy);
        t->at_work = false;
}

int http_transfer_set_timeout(struct http_transfer *t, usec_t timeout) {
        return curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long) (timeout / USEC_PER_MSEC)) == CURLE_OK ?
                       0 :
                       -EIO;
}

int http_transfer_start(struct http_transfer *t) {
        if (t->at_work)
                return -EBUSY;
        t->why[0] = '\0';
        t->tls[0] = '\0';
        if (curl_multi_add_handle(t->loop->multi, t->easy) != CURLM_OK)
                return -EIO;
        t->at_work = true;
        return 0;
}

bool http_transfer_about_certificates(struct http_transfer *t) {
        if (t->tls[0])
                (void) snprintf(t->why, sizeof(t->why), "%s", t->tls);
        switch ((int) t->code) { /* of an enum that grows with each libcurl */
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_ISSUER_ERROR:
                return true;
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_SEND_ERROR:
                return t->tls[0];
        default:
                return false;
        }
}

/* --- Life --------------------------------------------------------------------------------------------- */

int http_loop_new(sd_event *e, const char *name, struct http_loop **ret) {
        _cleanup_(http_loop_freep) struct http_loop *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return -ENOMEM;
        l->event = sd_event_ref(e);
        (void) snprintf(l->socket_name, sizeof(l->socket_name), "%s-socket", name);
        (void) snprintf(l->timer_name, sizeof(l->timer_name), "%s-curl", name);
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return -EIO;
        l->global = true;
        r = loop_timer_new(e, CLOCK_MONOTONIC, USEC_PER_MSEC, l->timer_name, on_timer, l, &l->timer);
        if (r >= 0)
                r = sd_event_add_defer(e, &l->now, on_now, l);
        if (r >= 0)
                r = sd_event_source_set_enabled(l->now, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(l->now, l->timer_name);
        r = new_multi(l);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

struct http_loop *http_loop_free(struct http_loop *l) {
        if (!l)
                return NULL;
        drop_handles(l);
        l->timer = sd_event_source_disable_unref(l->timer);
        l->now = sd_event_source_disable_unref(l->now);
        l->event = sd_event_unref(l->event);
        if (l->global)
                curl_global_cleanup();
        free(l);
        return NULL;
}
