/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-fleet ADDRESS:PORT HOSTS SECONDS [--period S] [--points N] [--gzip] [--burst] [--tls CERTIFICATE
 * KEY]: a fleet in one process. Each host has a connection of its own and pushes N points (OTLP protobuf)
 * every S seconds at its own phase, or all at once (--burst). With --period 0 each sends its next push when
 * the last was answered. Prints what was answered and how late.
 */
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <zlib.h>

#include "base.h"

#define EVENTS_MAX    256
#define LATENCIES_MAX 4000000
#define RETRY_USEC    (1000 * USEC_PER_MSEC)

struct buf {
        uint8_t *data;
        size_t len, size;
};

struct fleet_host {
        int fd;
        bool connecting, waiting, handshake, made; /* made: the request is there and was not begun */
        gnutls_session_t tls;
        usec_t due, sent;
        uint64_t seq;
        struct buf out;
        size_t out_done;
        char in[1024];
        size_t in_len;
};

struct fleet {
        struct sockaddr_in address;
        unsigned n, points, seconds;
        double period;
        bool gzip, burst, tls;
        gnutls_certificate_credentials_t credentials;
        int epoll;
        struct fleet_host *hosts;
        uint32_t *latency; /* microseconds */
        size_t latencies;
        uint64_t ok, refused, failed, bytes;
};

static usec_t now_usec(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (usec_t) t.tv_sec * USEC_PER_SEC + (usec_t) t.tv_nsec / NSEC_PER_USEC;
}

/* --- A body ---------------------------------------------------------------------------------- */

static void add(struct buf *b, const void *data, size_t len) {
        if (b->len + len > b->size) {
                b->size = MAX(2 * b->size, b->len + len + 4096);
                b->data = realloc(b->data, b->size);
                if (!b->data)
                        abort();
        }
        memcpy(b->data + b->len, data, len);
        b->len += len;
}

static void add_varint(struct buf *b, uint64_t v) {
        uint8_t byte;

        for (; v >= 0x80; v >>= 7) {
                byte = (uint8_t) (v | 0x80);
                add(b, &byte, 1);
        }
        byte = (uint8_t) v;
        add(b, &byte, 1);
}

static void add_bytes(struct buf *b, unsigned field, const void *data, size_t len) {
        add_varint(b, field << 3 | 2);
        add_varint(b, len);
        add(b, data, len);
}

static void add_sub(struct buf *b, unsigned field, struct buf *sub) {
        add_bytes(b, field, sub->data, sub->len);
        sub->len = 0;
}

static void add_fixed64(struct buf *b, unsigned field, uint64_t v) {
        add_varint(b, field << 3 | 1);
        add(b, &v, sizeof(v)); /* little-endian, as is the wire */
}

static void add_attribute(struct buf *b, unsigned field, const char *key, const char *value) {
        struct buf kv = { 0 }, any = { 0 };

        add_bytes(&any, 1, value, strlen(value));
        add_bytes(&kv, 1, key, strlen(key));
        add_sub(&kv, 2, &any);
        add_sub(b, field, &kv);
        free(kv.data);
        free(any.data);
}

/* Metrics of ten points each, a point with two attributes and a value that changes now and then. */
static void make_body(const struct fleet *f, unsigned host, uint64_t seq, struct buf *out) {
        struct buf resource = { 0 }, group = { 0 }, scope = { 0 }, metric = { 0 }, points = { 0 },
                   point = { 0 };
        struct timespec t;
        uint64_t nsec;
        char text[64];

        (void) clock_gettime(CLOCK_REALTIME, &t);
        nsec = (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
        (void) snprintf(text, sizeof(text), "host-%05u", host);
        add_attribute(&resource, 1, "host.name", text);
        add_attribute(&resource, 1, "service.name", "tpu-hostd");
        add_attribute(&resource, 1, "service.version", "0.1.0");
        add_attribute(&resource, 1, "tpu.boot.id", "1f6a5b0e-0000-4000-8000-000000000000");
        (void) snprintf(text, sizeof(text), "slice-%03u", host / 64);
        add_attribute(&resource, 1, "tpu.slice.name", text);
        add_sub(&group, 1, &resource);
        for (unsigned i = 0; i < f->points; i++) {
                (void) snprintf(text, sizeof(text), "eth%u", i % 10);
                add_attribute(&point, 7, "network.interface.name", text);
                add_attribute(&point, 7, "network.io.direction", i % 2 ? "receive" : "transmit");
                add_fixed64(&point, 3, nsec);
                add_fixed64(&point, 6, seq * 1000003 * (i % 3) + i);
                add_sub(&points, 1, &point);
                if (i % 10 == 9 || i == f->points - 1) {
                        add_varint(&points, 2 << 3);
                        add_varint(&points, 2);
                        (void) snprintf(text, sizeof(text), "system.network.metric.%u", i / 10);
                        add_bytes(&metric, 1, text, strlen(text));
                        add_bytes(&metric, 3, "By", 2);
                        add_sub(&metric, 7, &points);
                        add_sub(&scope, 2, &metric);
                }
        }
        add_sub(&group, 2, &scope);
        add_sub(out, 1, &group);
        free(resource.data);
        free(group.data);
        free(scope.data);
        free(metric.data);
        free(points.data);
        free(point.data);
}

static void compress_body(struct buf *b) {
        z_stream z = { 0 };
        struct buf out = { .size = b->len + 1024 };

        out.data = malloc(out.size);
        if (!out.data || deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
                abort();
        z.next_in = b->data;
        z.avail_in = (uInt) b->len;
        z.next_out = out.data;
        z.avail_out = (uInt) out.size;
        if (deflate(&z, Z_FINISH) != Z_STREAM_END)
                abort();
        out.len = z.total_out;
        (void) deflateEnd(&z);
        free(b->data);
        *b = out;
}

static void make_request(struct fleet *f, struct fleet_host *h) {
        struct buf body = { 0 };
        char head[512];
        int n;

        h->seq++;
        make_body(f, (unsigned) (h - f->hosts), h->seq, &body);
        if (f->gzip)
                compress_body(&body);
        n = snprintf(
                head, sizeof(head),
                "POST /v1/metrics HTTP/1.1\r\nHost: collector\r\nUser-Agent: bench-fleet\r\nContent-Type: "
                "application/x-protobuf\r\n%sTPU-Spool-Record: %016x/metrics/%" PRIu64
                "\r\nContent-Length: %zu\r\n\r\n",
                f->gzip ? "Content-Encoding: gzip\r\n" : "", (unsigned) (h - f->hosts) + 1, h->seq,
                body.len);
        h->out.len = 0;
        h->out_done = 0;
        add(&h->out, head, (size_t) n);
        add(&h->out, body.data, body.len);
        free(body.data);
}

/* --- A connection ---------------------------------------------------------------------------- */

static void drop(struct fleet *f, struct fleet_host *h, usec_t now) {
        if (h->tls)
                gnutls_deinit(h->tls);
        h->tls = NULL;
        h->fd = close_fd(h->fd);
        f->failed++;
        h->waiting = false;
        h->seq -= h->seq > 0; /* the same record comes again */
        h->due = now + RETRY_USEC;
}

static void watch(struct fleet *f, struct fleet_host *h, uint32_t events, int op) {
        struct epoll_event e = { .events = events, .data.ptr = h };

        (void) epoll_ctl(f->epoll, op, h->fd, &e);
}

static void dial(struct fleet *f, struct fleet_host *h, usec_t now) {
        static const int on = 1;

        h->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (h->fd < 0)
                abort();
        (void) setsockopt(h->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (connect(h->fd, (const struct sockaddr *) &f->address, sizeof(f->address)) < 0 &&
            errno != EINPROGRESS) {
                drop(f, h, now);
                return;
        }
        if (f->tls) {
                if (gnutls_init(&h->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK) < 0 ||
                    gnutls_set_default_priority(h->tls) < 0 ||
                    gnutls_credentials_set(h->tls, GNUTLS_CRD_CERTIFICATE, f->credentials) < 0)
                        abort();
                gnutls_transport_set_int(h->tls, h->fd);
        }
        h->handshake = f->tls;
        watch(f, h, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD);
}

static ssize_t send_some(struct fleet_host *h) {
        const uint8_t *data = h->out.data + h->out_done;
        size_t len = h->out.len - h->out_done;
        ssize_t n;

        if (!h->tls)
                return send(h->fd, data, len, MSG_NOSIGNAL);
        n = gnutls_record_send(h->tls, data, len);
        errno = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ? EAGAIN : EIO;
        return n;
}

static void push_out(struct fleet *f, struct fleet_host *h, usec_t now) {
        while (h->out_done < h->out.len) {
                ssize_t n = send_some(h);

                if (n <= 0) {
                        if (errno != EAGAIN && errno != EINPROGRESS && errno != ENOTCONN)
                                drop(f, h, now);
                        return;
                }
                h->out_done += (size_t) n;
                f->bytes += (uint64_t) n;
        }
        watch(f, h, EPOLLIN, EPOLL_CTL_MOD);
}

static void begin(struct fleet *f, struct fleet_host *h, usec_t now) {
        if (!h->made)
                make_request(f, h);
        h->made = false;
        h->waiting = true;
        h->sent = f->period > 0 && !f->burst ? h->due : now; /* lateness of the sender counts, too */
        h->in_len = 0;
        if (h->fd < 0)
                dial(f, h, now);
        else {
                watch(f, h, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
                push_out(f, h, now);
        }
}

static void answered(struct fleet *f, struct fleet_host *h, usec_t now) {
        unsigned status = (unsigned) strtoul(h->in + 9, NULL, 10);

        h->waiting = false;
        if (status == 200)
                f->ok++;
        else
                f->refused++;
        if (f->latencies < LATENCIES_MAX)
                f->latency[f->latencies++] = (uint32_t) MIN(now - h->sent, (usec_t) UINT32_MAX);
        h->due = f->period > 0 ? h->due + (usec_t) (f->period * 1e6) : now;
}

static void pull_in(struct fleet *f, struct fleet_host *h, usec_t now) {
        ssize_t n;

        if (h->in_len == sizeof(h->in) - 1)
                h->in_len = 0;
        n = h->tls ? gnutls_record_recv(h->tls, h->in + h->in_len, sizeof(h->in) - 1 - h->in_len)
                   : recv(h->fd, h->in + h->in_len, sizeof(h->in) - 1 - h->in_len, 0);
        if (h->tls && (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED))
                return;
        if (n < 0 && !h->tls && errno == EAGAIN)
                return;
        if (n <= 0) {
                drop(f, h, now);
                return;
        }
        h->in_len += (size_t) n;
        h->in[h->in_len] = '\0';
        if (h->waiting && strstr(h->in, "\r\n\r\n")) /* an answer's body is small and comes with it */
                answered(f, h, now);
}

static void serve(struct fleet *f, const struct epoll_event *e) {
        struct fleet_host *h = e->data.ptr;
        usec_t now = now_usec();

        if (h->fd < 0)
                return;
        if (h->handshake) {
                int r = gnutls_handshake(h->tls);

                if (r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED) {
                        watch(f, h, gnutls_record_get_direction(h->tls) ? EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
                        return;
                }
                if (r < 0) {
                        drop(f, h, now);
                        return;
                }
                h->handshake = false;
                watch(f, h, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
        }
        if (e->events & (EPOLLIN | EPOLLERR | EPOLLHUP))
                pull_in(f, h, now);
        if (h->fd >= 0 && h->out_done < h->out.len)
                push_out(f, h, now);
}

/* --- The run --------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

        return (x > y) - (x < y);
}

static double at(const struct fleet *f, double part) {
        return f->latencies ? (double) f->latency[(size_t) ((double) (f->latencies - 1) * part)] / 1000 : 0;
}

static void report(struct fleet *f, double seconds) {
        qsort(f->latency, f->latencies, sizeof(*f->latency), by_size);
        printf("hosts %u  points %u  answered 200: %" PRIu64 "  others: %" PRIu64
               "  connections lost: %" PRIu64 "\n%.0f pushes/s  %.0f points/s  %.2f MB/s  answer p50 %.1f "
                                              "ms  p90 %.1f  p99 %.1f  max %.1f\n",
               f->n, f->points, f->ok, f->refused, f->failed, (double) f->ok / seconds,
               (double) f->ok * f->points / seconds, (double) f->bytes / seconds / 1e6, at(f, .5), at(f, .9),
               at(f, .99), at(f, 1));
}

static void run(struct fleet *f) {
        struct epoll_event events[EVENTS_MAX];
        usec_t start, end;

        /* As a fleet has done before it is let in; one process spends seconds on it. */
        for (unsigned i = 0; f->burst && i < f->n; i++) {
                make_request(f, &f->hosts[i]);
                f->hosts[i].made = true;
        }
        start = now_usec();
        end = start + f->seconds * USEC_PER_SEC;
        for (unsigned i = 0; i < f->n; i++) {
                f->hosts[i].fd = -1;
                f->hosts[i].due = start;
                if (f->period > 0 && !f->burst)
                        f->hosts[i].due += (usec_t) (f->period * 1e6 * i / f->n);
        }
        for (usec_t now = start; now < end; now = now_usec()) {
                usec_t next = now + 100 * USEC_PER_MSEC;
                int n;

                for (unsigned i = 0; i < f->n; i++) {
                        struct fleet_host *h = &f->hosts[i];

                        if (!h->waiting && h->due <= now)
                                begin(f, h, now);
                        else if (!h->waiting)
                                next = MIN(next, h->due);
                }
                n = epoll_wait(f->epoll, events, EVENTS_MAX,
                               next > now ? (int) MAX((next - now) / USEC_PER_MSEC, 1) : 0);
                for (int i = 0; i < n; i++)
                        serve(f, &events[i]);
        }
        report(f, (double) (now_usec() - start) / 1e6);
}

int main(int argc, char *argv[]) {
        struct fleet f = { .points = 150, .period = 10 };
        struct rlimit files;
        char *colon = argc > 3 ? strchr(argv[1], ':') : NULL;

        if (!colon) {
                fprintf(stderr, "bench-fleet ADDRESS:PORT HOSTS SECONDS [--period S] [--points N] [--gzip] "
                                "[--burst] [--tls CERTIFICATE KEY]\n");
                return 64;
        }
        *colon = '\0';
        f.address.sin_family = AF_INET;
        f.address.sin_port = htons((uint16_t) strtoul(colon + 1, NULL, 10));
        (void) inet_pton(AF_INET, argv[1], &f.address.sin_addr);
        f.n = (unsigned) strtoul(argv[2], NULL, 10);
        f.seconds = (unsigned) strtoul(argv[3], NULL, 10);
        for (int i = 4; i < argc; i++) {
                f.gzip = f.gzip || streq(argv[i], "--gzip");
                f.burst = f.burst || streq(argv[i], "--burst");
                if (streq(argv[i], "--tls") && i + 2 < argc) {
                        f.tls = true;
                        if (gnutls_certificate_allocate_credentials(&f.credentials) < 0 ||
                            gnutls_certificate_set_x509_key_file(f.credentials, argv[i + 1], argv[i + 2],
                                                                 GNUTLS_X509_FMT_PEM) < 0) {
                                fprintf(stderr, "bench-fleet: %s, %s: no certificate with its key\n",
                                        argv[i + 1], argv[i + 2]);
                                return 1;
                        }
                        i += 2;
                        continue;
                }
                if (streq(argv[i], "--period") && i + 1 < argc)
                        f.period = strtod(argv[++i], NULL);
                else if (streq(argv[i], "--points") && i + 1 < argc)
                        f.points = (unsigned) strtoul(argv[++i], NULL, 10);
        }
        (void) getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur < f.n + 16)
                fprintf(stderr, "bench-fleet: %llu files may be open: fewer hosts\n",
                        (unsigned long long) files.rlim_cur);
        f.epoll = epoll_create1(EPOLL_CLOEXEC);
        f.hosts = calloc(f.n, sizeof(*f.hosts));
        f.latency = calloc(LATENCIES_MAX, sizeof(*f.latency));
        if (f.epoll < 0 || !f.hosts || !f.latency)
                return 1;
        run(&f);
        return 0;
}
