/* SPDX-License-Identifier: Apache-2.0 */
#include "http_loop.h"

#include <fcntl.h>

#include "grow.h"

#define CONNECTION_SECONDS 1800 /* then a new one: names and certificates of the other side may have moved */
/* Of Debian and Ubuntu. */
#define SYSTEM_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"

struct http_loop {
        sd_event *event;
        CURLM *multi; /* NULL: could not be made anew; the next prepare tries again */
        bool global;
        sd_event_source *timer, *now;
        char socket_name[32], timer_name[32];
        struct http_transfer *transfers;
};

/*
 * One of libcurl's sockets that is watched, by a descriptor of our own: curl_multi_remove_handle() closes a
 * connection first and says CURL_POLL_REMOVE then, when epoll cannot forget that number any more. As long as a child
 * of ours that was just forked has the socket, too, its events would be told of a source that is gone.
 */
struct watch {
        struct http_loop *loop;
        curl_socket_t fd; /* libcurl's */
        sd_event_source *source; /* owns the copy */
};

static void drain(struct http_loop *l);
static void rebuild(struct http_loop *l);

static void step(struct http_loop *l, curl_socket_t fd, int mask) {
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
        step(w->loop, w->fd, mask); /* and w may be gone */
        return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        step(userdata, CURL_SOCKET_TIMEOUT, 0);
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
        step(userdata, CURL_SOCKET_TIMEOUT, 0);
        return 0;
}

/* At once is at once: no timer has to be set, and nobody sleeps until it goes off. */
static int timer_changed(CURLM *multi, long timeout_ms, void *userdata) {
        struct http_loop *l = userdata;
        int r = sd_event_source_set_enabled(l->now, timeout_ms == 0 ? SD_EVENT_ONESHOT : SD_EVENT_OFF);

        (void) multi;
        if (r < 0)
                return -1;
        if (timeout_ms <= 0)
                return sd_event_source_set_enabled(l->timer, SD_EVENT_OFF) < 0 ? -1 : 0;
        if (sd_event_source_set_time_relative(l->timer, (usec_t) timeout_ms * USEC_PER_MSEC) < 0)
                return -1;
        return sd_event_source_set_enabled(l->timer, SD_EVENT_ONESHOT) < 0 ? -1 : 0;
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

/* done may start the next exchange, of which nothing has come when it returns; it does not free its transfer. */
static void transfer_done(struct http_transfer *t, const char *error) {
        t->at_work = false;
        t->done(t, error);
        free(TAKE_PTR(t->answer)); /* a long one is not kept until the next */
        t->len = t->size = 0;
}

/* done may start the transfer's next exchange: what was lost is told apart from that by having no handle. */
static void rebuild(struct http_loop *l) {
        drop_handles(l);
        (void) sd_event_source_set_enabled(l->timer, SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(l->now, SD_EVENT_OFF);
        if (new_multi(l) < 0)
                drop_handles(l); /* the next prepare tries again */
        for (struct http_transfer *t = l->transfers; t; t = t->next) {
                if (t->easy || !t->at_work)
                        continue;
                t->code = CURLE_ABORTED_BY_CALLBACK;
                transfer_done(t, "all connections were closed; started anew");
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
                                t->code = code;
                                transfer_done(t, code == CURLE_OK ? NULL : curl_easy_strerror(code));
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

size_t http_transfer_keep(char *data, size_t size, size_t n, void *transfer) {
        struct http_transfer *t = transfer;
        size_t len = size * n, kept = MIN(len, t->answer_kept - t->len);

        if (len > t->answer_max - t->received || grow(&t->answer, &t->size, t->len + kept, 1) < 0)
                return 0; /* ends the transfer */
        if (kept > 0)
                memcpy(t->answer + t->len, data, kept);
        t->len += kept;
        t->received += len;
        return len;
}

static size_t on_header(char *data, size_t size, size_t n, void *userdata) {
        struct http_transfer *t = userdata;

        backoff_take_retry_after(data, size * n, t->retry_after);
        return size * n;
}

/* Options of kinds that libcurl takes over by value or copies. */
static int setup_easy(struct http_transfer *t, const struct http_options *o) {
        CURL *c = t->easy;
        int bad = 0;

        t->answer_max = o->answer_max;
        t->answer_kept = o->answer_kept > 0 ? o->answer_kept : o->answer_max;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, http_transfer_keep) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEDATA, t) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERDATA, t) != CURLE_OK;
        if (o->posts) {
                bad |= curl_easy_setopt(c, CURLOPT_POST, 1L) != CURLE_OK;
                bad |= curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L) != CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075000
                bad |= curl_easy_setopt(c, CURLOPT_MAXLIFETIME_CONN, (long) CONNECTION_SECONDS) != CURLE_OK;
#endif
        }

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
        /* GnuTLS would read each file of /etc/ssl/certs for each connection: 26 ms and 3.8 MB, measured with 7.88 */
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
        r = setup_easy(t, o);
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
        free(TAKE_PTR(t->answer));
        t->len = t->size = 0;
}

static const char *path_or_null(const char *path) {
        return path && *path ? path : NULL; /* libcurl would look for a file without a name */
}

int http_transfer_set_tls(struct http_transfer *t, const char *ca, const char *certificate,
                          const char *key) {
        int bad = 0;

        if (path_or_null(ca)) /* else the system's authorities */
                bad |= curl_easy_setopt(t->easy, CURLOPT_CAINFO, ca) != CURLE_OK;
        bad |= curl_easy_setopt(t->easy, CURLOPT_SSLCERT, path_or_null(certificate)) != CURLE_OK;
        bad |= curl_easy_setopt(t->easy, CURLOPT_SSLKEY, path_or_null(key)) != CURLE_OK;
        return bad ? -EIO : 0;
}

void http_transfer_cancel(struct http_transfer *t) {
        if (t->easy && t->at_work)
                (void) curl_multi_remove_handle(t->loop->multi, t->easy);
        t->at_work = false;
        free(TAKE_PTR(t->answer));
        t->len = t->size = 0;
}

int http_transfer_set_timeout(struct http_transfer *t, usec_t timeout) {
        return curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long) (timeout / USEC_PER_MSEC)) == CURLE_OK ?
                       0 :
                       -EIO;
}

int http_transfer_start(struct http_transfer *t) {
        if (t->at_work)
                return -EBUSY;
        t->why[0] = t->tls[0] = t->retry_after[0] = '\0';
        t->len = t->received = 0;
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
        r = sd_event_add_time_relative(e, &l->timer, CLOCK_MONOTONIC, 0, 1 * USEC_PER_MSEC, on_timer, l);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(l->timer, l->timer_name);
        r = sd_event_source_set_enabled(l->timer, SD_EVENT_OFF);
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
