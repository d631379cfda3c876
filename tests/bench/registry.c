/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-registry [--arrive MS] [--first N] [--tls CA,CERTIFICATE,KEY] [--bare] ADDRESS:PORT[,ADDRESS:PORT…]
 * MEMBERS HOSTS-OF-A-SLICE: members of the registry of tpu-collectord in one process, each with a
 * connection, a lease and a clock of its own, doing what docs/registry.md says a host does. They arrive
 * spread over MS, and know several collectors, of which they ask the N-th first (0; as agents do that know
 * from an earlier life who led; --first spread: each another one): who is refused (421, 503) or cut off goes
 * to the leader that was named, else to the next one. --bare: connections and TLS handshakes alone, the
 * measure beside which enrollment is judged.
 *
 * Reads words from standard input: "die" (member 0 falls silent), "wait running", "wait ready", "wait
 * forming", "wait whole" (each has been told everything anew), "wait connected": answers when it is so for
 * all whom it concerns, with the milliseconds from the word to the first and to the last.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <gnutls/gnutls.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base.h"

#define EVENTS_MAX 512
#define WAIT_S     7 /* half of the usual lease, as hosts ask */
/* at most so long behind a round of all collectors, as hosts do: a quarter of the lease */
#define BACK_OFF   (15 * USEC_PER_SEC / 4)
#define ENDPOINTS_MAX 4

enum seen { SEEN_READY, SEEN_FORMING, SEEN_RUNNING, SEEN_WHOLE, SEEN_CONNECTED, _SEEN_MAX };
static const char *const seen_names[_SEEN_MAX] = { "ready", "forming", "running", "whole", "connected" };

struct member {
        int fd;
        unsigned endpoint, tried; /* tried: collectors since the last answer */
        gnutls_session_t tls;
        bool shaking; /* hands */
        bool dead, changed, waiting; /* waiting: for an answer */
        usec_t again;                /* not connected: when to try; 0: it is */
        char *in, revision[64];
        size_t in_len, in_size, out_done, out_len;
        char out[1024];
        unsigned generation; /* of its part in the run */
        const char *state;
        usec_t seen[_SEEN_MAX];
};

struct fleet {
        struct sockaddr_in address[ENDPOINTS_MAX];
        unsigned n, n_endpoints, per_slice;
        gnutls_certificate_credentials_t credentials; /* NULL: no TLS */
        bool bare;
        int epoll;
        struct member *members;
        uint64_t answers, bytes, failures, refused; /* refused: 421 and 503, which are no failures */
        enum seen wanted;
        bool asked;
        usec_t since;
};

static usec_t now_usec(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (usec_t) t.tv_sec * USEC_PER_SEC + (usec_t) t.tv_nsec / NSEC_PER_USEC;
}

/* --- Saying ------------------------------------------------------------------------------------------- */

static unsigned slice_hosts(const struct fleet *f, unsigned slice) {
        return MIN(f->per_slice, f->n - slice * f->per_slice);
}

static void make_request(struct fleet *f, struct member *m) {
        unsigned i = (unsigned) (m - f->members), s = i / f->per_slice, w = i % f->per_slice;
        char body[800], since[90] = "", run[160] = "";

        if (m->revision[0])
                (void) snprintf(since, sizeof(since), ",\"since\":\"%s\"", m->revision);
        if (m->state)
                (void) snprintf(run, sizeof(run), "{\"name\":\"train\",\"generation\":%u,\"state\":\"%s\"}",
                                m->generation, m->state);
        if (m->changed)
                (void) snprintf(body, sizeof(body),
                                "{\"v\":1,\"member\":{\"v\":1,\"slice\":\"s%04u\",\"worker\":%u,"
                                "\"host\":\"h%u\",\"id\":\"machine-%u\",\"machine\":\"machine-%u\","
                                "\"incarnation\":\"%016x\",\"address\":[\"10.%u.%u.%u\"],\"hosts\":%u,"
                                "\"accelerator\":\"v6e\","
                                "\"fingerprint\":{\"digest\":\"d\"},\"state\":\"ready\",\"runs\":[%s]},"
                                "\"wait\":%d%s}",
                                s, w, i, i, i, i, i >> 16, (i >> 8) & 255, i & 255, slice_hosts(f, s), run,
                                WAIT_S, since);
        else
                (void) snprintf(body, sizeof(body),
                                "{\"v\":1,\"same\":\"s%04u/%u\",\"incarnation\":\"%016x\",\"wait\":%d%s}", s,
                                w, i,
                                WAIT_S, since);
        m->changed = false;
        m->out_len = (size_t) snprintf(m->out, sizeof(m->out),
                                       "POST /registry/v1/sync HTTP/1.1\r\nHost: bench\r\n"
                                       "Content-Length: %zu\r\n\r\n%s", strlen(body),
                                       body);
        m->out_done = 0;
        m->in_len = 0;
        m->waiting = true;
}

static void hang_up(struct fleet *f, struct member *m, bool failed) {
        if (m->tls)
                gnutls_deinit(m->tls);
        m->tls = NULL;
        m->fd = close_fd(m->fd);
        m->waiting = false;
        m->changed = true;
        m->again = now_usec() + (++m->tried % f->n_endpoints == 0 ? (usec_t) random() % BACK_OFF : 0);
        f->failures += failed;
        if (failed)
                m->endpoint = (m->endpoint + 1) % f->n_endpoints;
}

static void begin_tls(struct fleet *f, struct member *m) {
        if (gnutls_init(&m->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK) < 0 ||
            gnutls_set_default_priority(m->tls) < 0 ||
            gnutls_credentials_set(m->tls, GNUTLS_CRD_CERTIFICATE, f->credentials) < 0)
                abort();
        gnutls_transport_set_int(m->tls, m->fd);
        m->shaking = true;
}

static void saw(struct member *m, enum seen s);

/* False: it is not done yet, or the connection is gone. */
static bool shake(struct fleet *f, struct member *m) {
        int r;

        if (!m->shaking)
                return true;
        r = gnutls_handshake(m->tls);
        if (r < 0 && gnutls_error_is_fatal(r))
                hang_up(f, m, true);
        if (r < 0)
                return false;
        m->shaking = false;
        saw(m, SEEN_CONNECTED);
        return true;
}

/* As send() and recv(): -1 with errno. */
static ssize_t as_errno(ssize_t n) {
        if (n >= 0)
                return n;
        errno = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ? EAGAIN : EPROTO;
        return -1;
}

static ssize_t write_some(struct member *m, const char *data, size_t len) {
        return m->tls ? as_errno(gnutls_record_send(m->tls, data, len))
               : send(m->fd, data, len, MSG_NOSIGNAL);
}

static ssize_t read_some(struct member *m, char *data, size_t len) {
        return m->tls ? as_errno(gnutls_record_recv(m->tls, data, len)) : recv(m->fd, data, len, 0);
}

static void dial(struct fleet *f, struct member *m) {
        struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET,
                                 .data.u32 = (uint32_t) (m - f->members) };
        int one = 1;

        m->again = 0;
        m->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (m->fd < 0) {
                hang_up(f, m, true);
                return;
        }
        (void) setsockopt(m->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (connect(m->fd, (struct sockaddr *) &f->address[m->endpoint], sizeof(f->address[0])) < 0 &&
            errno != EINPROGRESS) {
                hang_up(f, m, true);
                return;
        }
        if (f->credentials)
                begin_tls(f, m);
        if (!f->bare)
                make_request(f, m);
        (void) epoll_ctl(f->epoll, EPOLL_CTL_ADD, m->fd, &e);
}

static void send_more(struct fleet *f, struct member *m) {
        while (m->fd >= 0 && m->out_done < m->out_len) {
                ssize_t n = write_some(m, m->out + m->out_done, m->out_len - m->out_done);

                if (n > 0)
                        m->out_done += (size_t) n;
                else if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
                        return;
                else
                        hang_up(f, m, true);
        }
}

/* --- Hearing ------------------------------------------------------------------------------------------ */

static void saw(struct member *m, enum seen s) {
        if (m->seen[s] == 0)
                m->seen[s] = now_usec();
}

/* What a record says behind this: its generation and state. The texts are the collector's own, without
 * blanks. */
static bool record_of(const char *text, const char *key, unsigned *ret_generation,
                      char ret_state[static 16]) {
        const char *at = strstr(text, key), *g = at ? strstr(at, "\"generation\":") : NULL,
                *s = g ? strstr(g, "\"state\":\"") : NULL;

        if (!s)
                return false;
        *ret_generation = (unsigned) strtoul(g + strlen("\"generation\":"), NULL, 10);
        (void) snprintf(ret_state, 16, "%.*s", (int) MIN(strcspn(s + 9, "\""), (size_t) 15), s + 9);
        return true;
}

static void do_part(struct member *m, unsigned generation, const char *state) {
        const char *mine = m->state;

        if (streq(state, "preparing") && (generation > m->generation || !mine))
                m->state = "prepared";
        else if (streq(state, "running") && generation == m->generation && mine && streq(mine, "prepared"))
                m->state = "running";
        else if ((streq(state, "stopping") || streq(state, "ended")) && mine && streq(mine, "running"))
                m->state = "stopped";
        m->generation = generation;
        if (m->state == mine)
                return;
        m->changed = true;
        if (m->state && streq(m->state, "running"))
                saw(m, SEEN_RUNNING);
}

/* The leader is where "leader":"https://ADDRESS:PORT" says, if that is one of ours. */
static void refused(struct fleet *f, struct member *m, const char *body) {
        const char *leader = strstr(body, "\"leader\":\""), *port = leader ? strrchr(leader, ':') : NULL;
        unsigned next = (m->endpoint + 1) % f->n_endpoints;

        for (unsigned i = 0; port && i < f->n_endpoints; i++)
                if (ntohs(f->address[i].sin_port) == strtoul(port + 1, NULL, 10))
                        next = i;
        f->refused++;
        hang_up(f, m, false);
        m->endpoint = next;
}

static void take_answer(struct fleet *f, struct member *m, char *body) {
        const char *revision = strstr(body, "\"revision\":\"");
        unsigned generation;
        char state[16];

        f->answers++;
        if (!revision) { /* 421, 503 and their like */
                refused(f, m, body);
                return;
        }
        m->tried = 0;
        (void) snprintf(m->revision, sizeof(m->revision), "%.*s",
                        (int) MIN(strcspn(revision + 12, "\""), (size_t) 60), revision + 12);
        if (strstr(revision, "\"tell\":true"))
                m->changed = true;
        else if (strstr(revision, "\"whole\":true"))
                saw(m, SEEN_WHOLE);
        if (record_of(revision, "\"slice/s", &generation, state))
                saw(m, streq(state, "ready") ? SEEN_READY : SEEN_FORMING);
        if (record_of(revision, "\"run/train\":{", &generation, state))
                do_part(m, generation, state);
}

/* An answer that is whole is taken, and the next request made. */
static void take(struct fleet *f, struct member *m) {
        char *head = m->in_len > 0 ? memmem(m->in, m->in_len, "\r\n\r\n", 4) : NULL, *length;
        size_t want;

        if (!head)
                return;
        length = memmem(m->in, (size_t) (head - m->in), "Content-Length: ", 16);
        want = (size_t) (head - m->in) + 4 + (length ? strtoul(length + 16, NULL, 10) : 0);
        if (m->in_len < want)
                return;
        m->in[want] = '\0';
        f->bytes += want;
        take_answer(f, m, head + 4);
        if (m->in_size > 16384) { /* only now and then is it much */
                free(m->in);
                m->in = NULL;
                m->in_size = 0;
        }
        if (m->fd < 0)
                return;
        make_request(f, m);
        send_more(f, m);
}

static void receive_more(struct fleet *f, struct member *m) {
        while (m->fd >= 0) {
                ssize_t n;

                if (m->in_size < m->in_len + 4097) {
                        m->in_size = MAX(2 * m->in_size, (size_t) 8192);
                        m->in = realloc(m->in, m->in_size);
                        if (!m->in)
                                abort();
                }
                n = read_some(m, m->in + m->in_len, m->in_size - m->in_len - 1);
                if (n > 0) {
                        m->in_len += (size_t) n;
                        take(f, m);
                } else if (n < 0 && errno == EAGAIN)
                        return;
                else
                        hang_up(f, m, true);
        }
}

/* --- Words --------------------------------------------------------------------------------------------- */

static bool concerns(const struct fleet *f, unsigned i) {
        if (f->members[i].dead)
                return false;
        return f->wanted != SEEN_FORMING || i < f->per_slice;
}

static void look(struct fleet *f) {
        usec_t first = USEC_INFINITY, last = 0;
        unsigned n = 0;

        if (!f->asked)
                return;
        for (unsigned i = 0; i < f->n; i++) {
                usec_t t = f->members[i].seen[f->wanted];

                if (!concerns(f, i))
                        continue;
                if (t == 0)
                        return;
                first = MIN(first, t);
                last = MAX(last, t);
                n++;
        }
        f->asked = false;
        printf("%s %u %.1f %.1f %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", seen_names[f->wanted], n,
               first > f->since ? (double) (first - f->since) / 1000 : 0, (double) (last - f->since) / 1000,
               f->answers, f->bytes,
               f->failures, f->refused);
        (void) fflush(stdout);
}

static bool take_word(struct fleet *f) {
        char line[64];

        if (!fgets(line, sizeof(line), stdin))
                return false;
        line[strcspn(line, "\n")] = '\0';
        if (streq(line, "die")) {
                hang_up(f, &f->members[0], false);
                f->members[0].dead = true;
                f->members[0].again = USEC_INFINITY;
                return true;
        }
        for (int s = 0; s < _SEEN_MAX; s++)
                if (startswith(line, "wait ") && streq(line + 5, seen_names[s])) {
                        f->wanted = (enum seen) s;
                        f->asked = true;
                } else if (startswith(line, "forget ") && streq(line + 7, seen_names[s])) {
                        for (unsigned i = 0; i < f->n; i++)
                                f->members[i].seen[s] = 0;
                        f->since = now_usec();
                        f->answers = f->bytes = f->failures = f->refused = 0;
                        printf("forgot\n");
                        (void) fflush(stdout);
                }
        return true;
}

static void run(struct fleet *f) {
        struct epoll_event events[EVENTS_MAX];
        usec_t looked = 0;

        for (bool go = true; go;) {
                struct pollfd word = { .fd = STDIN_FILENO, .events = POLLIN };
                int n = epoll_wait(f->epoll, events, EVENTS_MAX, 10);

                for (int i = 0; i < n; i++) {
                        struct member *m = &f->members[events[i].data.u32];

                        if (m->fd < 0 || !shake(f, m))
                                continue;
                        if (!m->tls && f->bare)
                                saw(m, SEEN_CONNECTED);
                        if (events[i].events & (EPOLLOUT | EPOLLERR) || m->out_done < m->out_len)
                                send_more(f, m);
                        if (m->fd >= 0 && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                                receive_more(f, m);
                }
                if (now_usec() < looked + 5 * USEC_PER_MSEC)
                        continue;
                looked = now_usec();
                for (unsigned i = 0; i < f->n; i++)
                        if (f->members[i].again != 0 && f->members[i].again <= looked)
                                dial(f, &f->members[i]);
                look(f);
                if (poll(&word, 1, 0) > 0)
                        go = take_word(f);
        }
}

static bool take_endpoints(struct fleet *f, char *text) {
        for (char *at = strtok(text, ","); at; at = strtok(NULL, ",")) {
                char *colon = strchr(at, ':');
                struct sockaddr_in *a = &f->address[f->n_endpoints];

                if (!colon || f->n_endpoints == ENDPOINTS_MAX)
                        return false;
                *colon = '\0';
                *a = (struct sockaddr_in) { .sin_family = AF_INET,
                                            .sin_port = htons((uint16_t) atoi(colon + 1)) };
                if (inet_pton(AF_INET, at, &a->sin_addr) != 1)
                        return false;
                f->n_endpoints++;
        }
        return f->n_endpoints > 0;
}

static bool take_credentials(struct fleet *f, char *text) {
        const char *ca = strtok(text, ","), *certificate = strtok(NULL, ","), *key = strtok(NULL, ",");

        return key && gnutls_certificate_allocate_credentials(&f->credentials) == 0 &&
               gnutls_certificate_set_x509_trust_file(f->credentials, ca, GNUTLS_X509_FMT_PEM) > 0 &&
               gnutls_certificate_set_x509_key_file(f->credentials, certificate, key,
                                                    GNUTLS_X509_FMT_PEM) == 0;
}

static const struct option options[] = {
        { "arrive", required_argument, NULL, 'a' },
        { "first", required_argument, NULL, 'f' },
        { "tls", required_argument, NULL, 't' },
        { "bare", no_argument, NULL, 'b' },
        { 0 },
};

int main(int argc, char *argv[]) {
        struct fleet f = { .since = now_usec() };
        struct rlimit files;
        usec_t arrive = 0;
        unsigned first = 0;
        bool good = true, spread = false;
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
                switch (c) {
                case 'a':
                        arrive = strtoul(optarg, NULL, 10) * USEC_PER_MSEC;
                        break;
                case 'f':
                        spread = streq(optarg, "spread");
                        first = (unsigned) atoi(optarg);
                        break;
                case 't':
                        good = good && take_credentials(&f, optarg);
                        break;
                case 'b':
                        f.bare = true;
                        break;
                default:
                        good = false;
                }
        if (!good || argc - optind != 3 || !take_endpoints(&f, argv[optind])) {
                fprintf(stderr, "bench-registry [--arrive MS] [--first N] [--tls CA,CERTIFICATE,KEY] "
                                "[--bare] ADDRESS:PORT[,ADDRESS:PORT…] MEMBERS HOSTS-OF-A-SLICE\n");
                return EXIT_FAILURE;
        }
        f.n = (unsigned) atoi(argv[optind + 1]);
        f.per_slice = (unsigned) atoi(argv[optind + 2]);
        f.members = calloc(f.n, sizeof(f.members[0]));
        f.epoll = epoll_create1(EPOLL_CLOEXEC);
        if (!f.members || f.epoll < 0 || f.per_slice == 0)
                return EXIT_FAILURE;
        (void) setvbuf(stdin, NULL, _IONBF, 0); /* poll() is to see what is left */
        (void) getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &files);
        for (unsigned i = 0; i < f.n; i++) /* over the time */
                f.members[i] = (struct member) { .fd = -1, .changed = true,
                                                 .again = f.since + 1 + arrive * i / f.n,
                                                 .endpoint = (spread ? i : first) % f.n_endpoints };
        run(&f);
        return EXIT_SUCCESS;
}
