/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-arrivals HOSTS FOLDER: hosts of tpu-collectord, each with a certificate of its own (all with one
 * key, which costs a handshake as much), from one address, as behind a NAT. Writes ca.pem, server.pem and
 * server.key into FOLDER, says "ready", and reads "PORT ARRIVE-MS BESIDE-MS FLOODS" from standard input: one
 * more host opens FLOODS connections and syncs without a pause on each. All others arrive, evenly spread; a
 * host that was answered keeps its connection for as long as the collector does. Then they sync by turns,
 * 100 a second. Who is answered 503 comes again after a second, as hosts do. Prints one line a phase:
 *
 *   PHASE answered N failed N other N again N p50 S p99 S worst S seconds S floods N
 *
 * failed: connections that ended before their answer, or had none when the phase did; other: answers that
 * are neither 200 nor 503; again: 503. Times are from the first try to 200.
 */
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base.h"

#define SLICE 256u
#define PATIENCE (60 * USEC_PER_SEC) /* that an answer may take */
#define TURN (USEC_PER_SEC / 100)
#define AGAIN USEC_PER_SEC
#define HEAD_MAX 2048

enum step { STEP_NONE, STEP_SHAKES, STEP_SENDS, STEP_RECEIVES, STEP_RESTS };

struct host {
        int fd;
        gnutls_session_t tls;
        enum step step;
        unsigned number, status;
        bool floods, known; /* known: it was answered as a member */
        usec_t began, again; /* again: when it comes again */
        struct host *next;   /* that does */
        char out[1024], head[HEAD_MAX];
        size_t len, done, head_len, body; /* body: that is to come; SIZE_MAX: not known */
};

struct fleet {
        struct host *hosts;
        unsigned n, floods;
        uint16_t port;
        int epoll;
        gnutls_x509_privkey_t ca_key, key;
        gnutls_x509_crt_t ca;
        struct host *first, **last; /* that come again */
        double *took;               /* of the phase */
        size_t answered, failed, other, again, flooded;
};

static usec_t now_usec(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (usec_t) t.tv_sec * USEC_PER_SEC + (usec_t) t.tv_nsec / NSEC_PER_USEC;
}

/* What fails here is the test's own. */
static void must(int r, const char *what) {
        if (r >= 0)
                return;
        fprintf(stderr, "bench-arrivals: %s: %s\n", what, gnutls_strerror(r));
        exit(1);
}

/* --- Certificates -------------------------------------------------------------------------------------- */

static gnutls_x509_privkey_t new_key(void) {
        gnutls_x509_privkey_t key;

        must(gnutls_x509_privkey_init(&key), "key");
        must(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0), "key");
        return key;
}

/* uri: of a host; NULL: of the server. is_ca: it signs itself. */
static gnutls_x509_crt_t new_certificate(const struct fleet *f, gnutls_x509_privkey_t key, const char *uri,
                                         uint64_t serial, bool is_ca) {
        static const uint8_t loopback[] = { 127, 0, 0, 1 };
        gnutls_x509_crt_t c;
        uint8_t number[9] = { 1 };

        for (size_t i = 0; i < 8; i++)
                number[8 - i] = (uint8_t) (serial >> 8 * i);
        must(gnutls_x509_crt_init(&c), "certificate");
        must(gnutls_x509_crt_set_version(c, 3), "version");
        must(gnutls_x509_crt_set_serial(c, number, sizeof(number)), "serial");
        must(gnutls_x509_crt_set_activation_time(c, time(NULL) - 3600), "time");
        must(gnutls_x509_crt_set_expiration_time(c, time(NULL) + 86400), "time");
        must(gnutls_x509_crt_set_key(c, key), "key");
        must(gnutls_x509_crt_set_dn(c, is_ca ? "CN=ca" : "CN=x", NULL), "name");
        must(gnutls_x509_crt_set_basic_constraints(c, is_ca, -1), "constraints");
        if (uri)
                must(gnutls_x509_crt_set_subject_alt_name(c, GNUTLS_SAN_URI, uri, (unsigned) strlen(uri), 0),
                     "URI");
        else if (!is_ca)
                must(gnutls_x509_crt_set_subject_alt_name(c, GNUTLS_SAN_IPADDRESS, loopback,
                                                          sizeof(loopback), 0), "address");
        must(gnutls_x509_crt_sign2(c, is_ca ? c : f->ca, f->ca_key, GNUTLS_DIG_SHA256, 0), "signature");
        return c;
}

static void write_pem(const char *folder, const char *name, gnutls_x509_crt_t c, gnutls_x509_privkey_t key) {
        gnutls_datum_t text;
        char path[300];
        FILE *file;

        (void) snprintf(path, sizeof(path), "%s/%s", folder, name);
        must(c ? gnutls_x509_crt_export2(c, GNUTLS_X509_FMT_PEM, &text) :
                 gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &text),
             name);
        file = fopen(path, "w");
        if (!file || fwrite(text.data, 1, text.size, file) != text.size || fclose(file) != 0 ||
            chmod(path, 0600) < 0) {
                perror(path);
                exit(1);
        }
        gnutls_free(text.data);
}

static void write_files(struct fleet *f, const char *folder) {
        gnutls_x509_privkey_t server = new_key();

        f->ca_key = new_key();
        f->key = new_key();
        f->ca = new_certificate(f, f->ca_key, NULL, 1, true);
        write_pem(folder, "ca.pem", f->ca, NULL);
        write_pem(folder, "server.pem", new_certificate(f, server, NULL, 2, false), NULL);
        write_pem(folder, "server.key", NULL, server);
}

/* --- A host -------------------------------------------------------------------------------------------- */

static void make_sync(struct host *h) {
        unsigned s = h->number / SLICE, w = h->number % SLICE;
        char body[600];

        if (h->known)
                (void) snprintf(body, sizeof(body),
                                "{\"v\":1,\"same\":\"s%u/%u\",\"incarnation\":\"life-%u\",\"wait\":0}", s, w,
                                h->number);
        else
                (void) snprintf(body, sizeof(body),
                                "{\"v\":1,\"wait\":0,\"member\":{\"v\":1,\"slice\":\"s%u\",\"worker\":%u,"
                                "\"host\":\"h%u\",\"id\":\"id-%u\",\"incarnation\":\"life-%u\","
                                "\"address\":[],\"hosts\":%u}}",
                                s, w, h->number, h->number, h->number, SLICE);
        h->len = (size_t) snprintf(h->out, sizeof(h->out),
                                   "POST /registry/v1/sync HTTP/1.1\r\nHost: bench\r\n"
                                   "Content-Length: %zu\r\n\r\n%s",
                                   strlen(body), body);
        h->done = h->head_len = 0;
        h->body = SIZE_MAX;
        h->step = STEP_SENDS;
}

static void hang_up(struct host *h) {
        gnutls_deinit(h->tls);
        h->fd = close_fd(h->fd);
        h->step = STEP_NONE;
}

static void connect_host(struct fleet *f, struct host *h) {
        const struct sockaddr_in to = { .sin_family = AF_INET,
                                        .sin_port = htons(f->port),
                                        .sin_addr = { htonl(INADDR_LOOPBACK) } };
        struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data = { .ptr = h } };
        gnutls_certificate_credentials_t credentials;
        gnutls_x509_crt_t c;
        char uri[64];

        (void) snprintf(uri, sizeof(uri), "spiffe://site/host/h%u", h->number);
        c = new_certificate(f, f->key, uri, 16 + h->number, false);
        must(gnutls_certificate_allocate_credentials(&credentials), "credentials");
        must(gnutls_certificate_set_x509_key(credentials, &c, 1, f->key), "credentials");
        h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (h->fd < 0 || (connect(h->fd, (const void *) &to, sizeof(to)) < 0 && errno != EINPROGRESS) ||
            epoll_ctl(f->epoll, EPOLL_CTL_ADD, h->fd, &e) < 0) {
                perror("bench-arrivals: socket");
                exit(1);
        }
        must(gnutls_init(&h->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL), "session");
        must(gnutls_set_default_priority(h->tls), "session");
        must(gnutls_credentials_set(h->tls, GNUTLS_CRD_CERTIFICATE, credentials), "session");
        gnutls_transport_set_int(h->tls, h->fd);
        h->step = STEP_SHAKES;
}

/* --- An answer ----------------------------------------------------------------------------------------- */

/* 1: it is whole. */
static int take_bytes(struct host *h, const char *data, size_t n) {
        if (h->body == SIZE_MAX) {
                size_t fits = MIN(n, HEAD_MAX - 1 - h->head_len);
                const char *end, *length;

                memcpy(h->head + h->head_len, data, fits);
                h->head[h->head_len + fits] = '\0';
                end = strstr(h->head, "\r\n\r\n");
                length = strcasestr(h->head, "\r\nContent-Length:");
                if (!end || !length) {
                        h->head_len += fits;
                        return fits < n ? -EMSGSIZE : 0;
                }
                h->status = (unsigned) strtoul(h->head + strlen("HTTP/1.1 "), NULL, 10);
                h->body = strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
                n -= (size_t) (end + 4 - h->head) - h->head_len;
        }
        h->body -= MIN(n, h->body);
        return h->body == 0;
}

static void on_answer(struct fleet *f, struct host *h) {
        h->step = STEP_RESTS;
        if (h->floods) {
                f->flooded++;
                h->known = false;
                make_sync(h);
                return;
        }
        h->known = h->status == 200;
        if (h->status == 503) {
                f->again++;
                h->again = now_usec() + AGAIN;
                h->next = NULL;
                *f->last = h;
                f->last = &h->next;
        } else if (h->known)
                f->took[f->answered++] = (double) (now_usec() - h->began) / USEC_PER_SEC;
        else if (f->other++ == 0)
                fprintf(stderr, "bench-arrivals: host %u is answered %s\n", h->number, h->head);
}

/* As far as it goes without waiting. */
static int go_on(struct fleet *f, struct host *h) {
        static char buf[65536];
        ssize_t n = 0;

        for (;;) {
                switch (h->step) {
                case STEP_SHAKES:
                        n = gnutls_handshake(h->tls);
                        if (n == 0)
                                make_sync(h);
                        break;
                case STEP_SENDS:
                        n = gnutls_record_send(h->tls, h->out + h->done, h->len - h->done);
                        h->done += n > 0 ? (size_t) n : 0;
                        if (h->done == h->len)
                                h->step = STEP_RECEIVES;
                        break;
                case STEP_RECEIVES:
                case STEP_RESTS:
                        n = gnutls_record_recv(h->tls, buf, sizeof(buf));
                        if (n == 0)
                                return -ECONNRESET;
                        if (n > 0 && (h->step == STEP_RESTS || (n = take_bytes(h, buf, (size_t) n)) < 0))
                                return -EBADMSG;
                        if (n == 1 && h->body == 0)
                                on_answer(f, h);
                        break;
                case STEP_NONE:
                        return 0;
                }
                if (n == GNUTLS_E_AGAIN)
                        return 0;
                if (n < 0 && gnutls_error_is_fatal((int) n))
                        return -ECONNRESET;
        }
}

/* --- Phases -------------------------------------------------------------------------------------------- */

static void turn(struct fleet *f, int wait) {
        struct epoll_event events[256];
        int n = epoll_wait(f->epoll, events, ELEMENTSOF(events), wait);

        for (int i = 0; i < n; i++) {
                struct host *h = events[i].data.ptr;

                if (h->step == STEP_NONE || go_on(f, h) >= 0)
                        continue;
                f->failed += !h->floods && h->step != STEP_RESTS;
                hang_up(h);
                if (h->floods)
                        connect_host(f, h);
        }
}

static void ask(struct fleet *f, struct host *h) {
        if (h->step == STEP_NONE) {
                connect_host(f, h);
                return;
        }
        make_sync(h);
        if (go_on(f, h) < 0) {
                f->failed++;
                hang_up(h);
        }
}

static void ask_again(struct fleet *f) {
        while (f->first && f->first->again <= now_usec()) {
                struct host *h = f->first;

                f->first = h->next;
                if (!f->first)
                        f->last = &f->first;
                ask(f, h);
        }
}

static int by_size(const void *a, const void *b) {
        return COMPARE(*(const double *) a, *(const double *) b);
}

static void begin_phase(struct fleet *f) {
        f->answered = f->failed = f->other = f->again = f->flooded = 0;
        f->first = NULL;
        f->last = &f->first;
}

/* All that were asked are answered, or their patience is over. */
static void end_phase(struct fleet *f, const char *name, size_t asked, usec_t began) {
        usec_t end = now_usec() + PATIENCE;

        while (f->answered + f->failed + f->other < asked && now_usec() < end) {
                ask_again(f);
                turn(f, 10);
        }
        f->failed = asked - f->answered - f->other;
        qsort(f->took, f->answered, sizeof(*f->took), by_size);
        printf("%s answered %zu failed %zu other %zu again %zu p50 %.3f p99 %.3f worst %.3f seconds %.1f "
               "floods %zu\n",
               name, f->answered, f->failed, f->other, f->again, f->answered ? f->took[f->answered / 2] : 0,
               f->answered ? f->took[f->answered * 99 / 100] : 0,
               f->answered ? f->took[f->answered - 1] : 0, (double) (now_usec() - began) / USEC_PER_SEC,
               f->flooded);
        (void) fflush(stdout);
}

static void arrive(struct fleet *f, usec_t within) {
        usec_t began = now_usec();
        unsigned asked = 0;

        begin_phase(f);
        while (asked < f->n) {
                usec_t passed = now_usec() - began;

                if (asked * within <= passed * f->n) {
                        f->hosts[asked].began = now_usec();
                        ask(f, &f->hosts[asked++]);
                }
                ask_again(f);
                turn(f, asked * within <= passed * f->n ? 0 : 1);
        }
        end_phase(f, "arrival", asked, began);
}

static void sync_by_turns(struct fleet *f, usec_t lasts) {
        usec_t began = now_usec(), next = began;
        size_t asked = 0;

        begin_phase(f);
        for (unsigned i = 0; now_usec() < began + lasts;) {
                struct host *h = &f->hosts[i % f->n];

                ask_again(f);
                turn(f, 1);
                if (now_usec() < next || asked >= f->n)
                        continue;
                next += TURN;
                i++;
                if (h->step != STEP_RESTS && h->step != STEP_NONE)
                        continue;
                h->began = now_usec();
                asked++;
                ask(f, h);
        }
        end_phase(f, "beside", asked, began);
}

int main(int argc, char *argv[]) {
        unsigned arrive_ms, beside_ms, port;
        struct rlimit files;
        struct fleet f = { .n = argc == 3 ? (unsigned) strtoul(argv[1], NULL, 10) : 0 };

        if (f.n == 0) {
                fprintf(stderr, "bench-arrivals HOSTS FOLDER\n");
                return 64;
        }
        (void) getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &files);
        write_files(&f, argv[2]);
        printf("ready\n");
        (void) fflush(stdout);
        if (scanf("%u %u %u %u", &port, &arrive_ms, &beside_ms, &f.floods) != 4)
                return 64;
        f.port = (uint16_t) port;
        f.epoll = epoll_create1(EPOLL_CLOEXEC);
        f.hosts = calloc(f.n + f.floods, sizeof(*f.hosts));
        f.took = calloc(f.n, sizeof(*f.took));
        if (f.epoll < 0 || !f.hosts || !f.took)
                return 1;
        for (unsigned i = 0; i < f.n + f.floods; i++)
                f.hosts[i] = (struct host){ .fd = -1, .number = MIN(i, f.n), .floods = i >= f.n };
        for (unsigned i = f.n; i < f.n + f.floods; i++)
                connect_host(&f, &f.hosts[i]);
        arrive(&f, arrive_ms * USEC_PER_MSEC);
        sync_by_turns(&f, beside_ms * USEC_PER_MSEC);
        return 0;
}
