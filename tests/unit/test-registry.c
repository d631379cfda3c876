/* SPDX-License-Identifier: Apache-2.0 */
/* The registry as an agent's parts use it, with a collector in a thread that answers every sync the same. */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include "registry.h"
#include "test.h"

#define SYNCED                                                                                              \
        "{\"v\":1,\"lease\":15,\"revision\":\"a.1\",\"whole\":true,\"records\":{},\"tell\":false,"          \
        "\"conflict\":null,\"term\":7,\"store\":\"s\"}"

struct collector {
        int fd;
        uint16_t port;
        pthread_t thread, serving[8];
        size_t n_serving;
        pthread_mutex_t lock;
        char post[4096]; /* the last request that was no sync */
        char sync[4096]; /* the last sync */
        unsigned posts, syncs;
        bool holds; /* each sync but the first, until its connection ends */
};

struct connection {
        struct collector *collector;
        int fd;
};

static bool receive(int fd, char *text, size_t size) {
        size_t n = 0, length = 0;
        const char *body = NULL, *p;

        while (!body || n < (size_t) (body - text) + length) {
                ssize_t k = recv(fd, text + n, size - 1 - n, 0);

                if (k <= 0)
                        return false;
                n += (size_t) k;
                text[n] = '\0';
                p = strstr(text, "\r\n\r\n");
                if (!body && p) {
                        body = p + 4;
                        p = strcasestr(text, "\r\nContent-Length: ");
                        ASSERT_TRUE(p);
                        length = strtoul(p + 18, NULL, 10);
                }
        }
        return true;
}

static void *serve(void *userdata) {
        struct connection *c = userdata;
        struct collector *s = c->collector;
        char text[4096], answer[512];

        while (receive(c->fd, text, sizeof(text))) {
                bool sync = startswith(text, "POST /registry/v1/sync ");
                const char *status = "200 OK", *body = SYNCED;

                pthread_mutex_lock(&s->lock);
                memcpy(sync ? s->sync : s->post, text, sizeof(text));
                if (!sync) {
                        s->posts++;
                        status = strstr(text, "?unknown") ? "404 No" : "200 OK";
                        body = strstr(text, "?unknown") ? "{\"error\":\"no such episode\"}" : "{}";
                }
                s->syncs += sync;
                if (s->holds && s->syncs > 1)
                        body = NULL;
                pthread_mutex_unlock(&s->lock);
                if (!body)
                        continue;
                (void) snprintf(answer, sizeof(answer), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s",
                                status, strlen(body), body);
                if (send(c->fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
                        break;
        }
        (void) close(c->fd);
        free(c);
        return NULL;
}

static void *listens(void *userdata) {
        struct collector *s = userdata;
        int fd;

        while ((fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
                struct connection *c = malloc(sizeof(*c));

                ASSERT_TRUE(c && s->n_serving < ELEMENTSOF(s->serving));
                *c = (struct connection){ s, fd };
                ASSERT_OK(pthread_create(&s->serving[s->n_serving++], NULL, serve, c));
        }
        return NULL;
}

static void collector_start(struct collector *s) {
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t len = sizeof(a);

        pthread_mutex_init(&s->lock, NULL);
        s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_OK(bind(s->fd, (struct sockaddr *) &a, sizeof(a)));
        ASSERT_OK(getsockname(s->fd, (struct sockaddr *) &a, &len));
        s->port = ntohs(a.sin_port);
        ASSERT_OK(listen(s->fd, 16));
        ASSERT_OK(pthread_create(&s->thread, NULL, listens, s));
}

/* Its caller has closed the host's connections: what was on its way is read here, not in the next test. */
static void collector_stop(struct collector *s) {
        (void) shutdown(s->fd, SHUT_RDWR);
        (void) pthread_join(s->thread, NULL);
        for (size_t i = 0; i < s->n_serving; i++)
                (void) pthread_join(s->serving[i], NULL);
        (void) close(s->fd);
}

/* --- The host ------------------------------------------------------------------------------------------ */

struct posted {
        struct registry *registry;
        int error;
        unsigned n, status, next; /* next: so many are posted out of done */
        uint64_t term;
        char why[200];
};

static bool is_member;

static void on_record(const char *key, const json_t *value, void *userdata) {
        (void) key, (void) value, (void) userdata;
}

static void on_status(const struct registry_status *s, void *userdata) {
        (void) userdata;
        is_member = s->state == REGISTRY_MEMBER;
}

static void on_complete(void *userdata) {
        (void) userdata;
}

static const struct registry_events events = { .record = on_record,
                                               .status = on_status,
                                               .complete = on_complete };

static struct registry *make(sd_event *e, enum registry_kind kind, const char *endpoints) {
        const struct registry_options o = {
                .kind = kind, .endpoints = endpoints, .tenant = "t1", .slice = "s0"
        };
        struct registry *r;
        char why[256];

        ASSERT_OK(registry_new(e, &o, &events, NULL, &r, why));
        return r;
}

static void say_step(struct registry *r, int step, bool news) {
        json_t *member = json_pack("{s:i, s:s, s:i, s:s, s:i}", "v", 1, "slice", "s0", "worker", 0,
                                   "incarnation", "a", "step", step);

        ASSERT_OK(registry_say(r, member, news));
        json_decref(member);
}

static void say(struct registry *r) {
        say_step(r, 0, true);
}

static void turn_until(sd_event *e, const bool *what, const unsigned *n, unsigned wanted) {
        for (int i = 0; i < 600 && !(what ? *what : *n >= wanted); i++)
                ASSERT_TRUE(sd_event_run(e, 100 * USEC_PER_MSEC) >= 0);
        ASSERT_TRUE(what ? *what : *n >= wanted);
}

static void on_posted(int error, unsigned status, uint64_t term, const char *why, void *userdata) {
        struct posted *p = userdata;

        p->n++;
        p->error = error;
        p->status = status;
        p->term = term;
        (void) snprintf(p->why, sizeof(p->why), "%s", why);
        if (p->next > 0) {
                p->next--;
                ASSERT_OK(registry_post(p->registry, "/registry/v1/capture?again", NULL, "x", 1, on_posted,
                                        p));
        }
}

static void test_post(void) {
        struct collector c = { .posts = 0 };
        _cleanup_(sd_event_unrefp) sd_event *e = NULL;
        struct posted p = { .n = 0 };
        char url[64];

        is_member = false;
        collector_start(&c);
        ASSERT_OK(sd_event_new(&e));
        (void) snprintf(url, sizeof(url), "http://127.0.0.1:%u/", c.port);
        p.registry = make(e, REGISTRY_COLLECTOR, url);
        ASSERT_EQ(registry_post(p.registry, "/x", NULL, "", 0, on_posted, &p), -ENOTCONN);
        ASSERT_EQ(registry_term(p.registry), 0);
        say(p.registry);
        turn_until(e, &is_member, NULL, 0);
        ASSERT_EQ(registry_term(p.registry), 7);

        ASSERT_OK(registry_post(p.registry, "/registry/v1/capture?episode=e", "application/x-protobuf",
                                "\x1f\x8bpacked", 8, on_posted, &p));
        ASSERT_EQ(registry_post(p.registry, "/x", NULL, "", 0, on_posted, &p), -EBUSY);
        turn_until(e, NULL, &p.n, 1);
        ASSERT_EQ(p.error, 0);
        ASSERT_EQ(p.status, 200);
        ASSERT_EQ(p.term, 7); /* in which it was posted: by the syncs */
        ASSERT_STREQ(p.why, "");
        ASSERT_TRUE(startswith(c.post, "POST /registry/v1/capture?episode=e HTTP/1.1\r\n"));
        ASSERT_TRUE(strcasestr(c.post, "\r\nContent-Type: application/x-protobuf\r\n") != NULL);
        ASSERT_TRUE(strcasestr(c.post, "\r\nContent-Encoding: gzip\r\n") != NULL);

        ASSERT_OK(registry_post(p.registry, "/registry/v1/capture?unknown", NULL, "{}", 2, on_posted, &p));
        turn_until(e, NULL, &p.n, 2);
        ASSERT_EQ(p.status, 404);
        ASSERT_STREQ(p.why, "HTTP 404: no such episode");
        ASSERT_TRUE(strcasestr(c.post, "\r\nContent-Type: application/json\r\n") != NULL);
        ASSERT_TRUE(strcasestr(c.post, "Content-Encoding") == NULL);

        p.next = 2; /* one behind the other, out of done */
        ASSERT_OK(registry_post(p.registry, "/registry/v1/capture", NULL, "x", 1, on_posted, &p));
        turn_until(e, NULL, &p.n, 3);
        ASSERT_EQ(p.term, 7);
        turn_until(e, NULL, &p.n, 5);
        ASSERT_EQ(c.posts, 5);
        p.registry = registry_free(p.registry);
        collector_stop(&c);
}

/* A host that has said nothing yet, and its collector. */
static struct registry *meet(struct collector *c, sd_event **ret) {
        char url[64];

        is_member = false;
        collector_start(c);
        ASSERT_OK(sd_event_new(ret));
        (void) snprintf(url, sizeof(url), "http://127.0.0.1:%u", c->port);
        return make(*ret, REGISTRY_COLLECTOR, url);
}

/* They go with what is said anyway, in both forms; without any the member is not there. */
static void test_figures(void) {
        struct collector c = { .posts = 0 };
        _cleanup_(sd_event_unrefp) sd_event *e = NULL;
        json_t *figures = json_pack("[{s:s, s:i}]", "run", "run1", "step", 12), *none = json_object();
        struct registry *r = meet(&c, &e);

        ASSERT_EQ(registry_figures(r, none), -EINVAL);
        ASSERT_OK(registry_figures(r, figures));
        say(r);
        turn_until(e, &is_member, NULL, 0);
        ASSERT_TRUE(strstr(c.sync, "\"figures\":[{\"run\":\"run1\",\"step\":12}]") &&
                    strstr(c.sync, "\"tenant\":\"t1\""));
        ASSERT_OK(registry_figures(r, NULL));
        r = registry_free(r);
        json_decref(figures);
        json_decref(none);
        collector_stop(&c);
}

static unsigned syncs_of(struct collector *c) {
        unsigned n;

        pthread_mutex_lock(&c->lock);
        n = c->syncs;
        pthread_mutex_unlock(&c->lock);
        return n;
}

static void turn_for(sd_event *e, usec_t span) {
        usec_t end = clock_ns(CLOCK_MONOTONIC) / 1000 + span, now;

        while ((now = clock_ns(CLOCK_MONOTONIC) / 1000) < end)
                ASSERT_TRUE(sd_event_run(e, end - now) >= 0);
}

/* What is no news waits for the next question; what is ends the held one, and its connection. */
static void test_held(void) {
        struct collector c = { .holds = true };
        _cleanup_(sd_event_unrefp) sd_event *e = NULL;
        struct registry *r = meet(&c, &e);

        say(r);
        turn_until(e, &is_member, NULL, 0);
        while (syncs_of(&c) < 2)
                turn_for(e, 20 * USEC_PER_MSEC);
        say_step(r, 1, false);
        turn_for(e, 300 * USEC_PER_MSEC);
        ASSERT_EQ(syncs_of(&c), 2);
        say_step(r, 2, true);
        while (syncs_of(&c) < 3)
                turn_for(e, 20 * USEC_PER_MSEC);
        ASSERT_TRUE(strstr(c.sync, "\"step\":2"));
        r = registry_free(r);
        collector_stop(&c);
}

static void test_nobody(void) {
        _cleanup_(sd_event_unrefp) sd_event *e = NULL;
        struct registry *r;

        is_member = false;
        ASSERT_OK(sd_event_new(&e));
        r = make(e, REGISTRY_STATIC, "");
        say(r);
        turn_until(e, &is_member, NULL, 0);
        ASSERT_EQ(registry_post(r, "/x", NULL, "", 0, on_posted, NULL), -ENOTCONN);
        ASSERT_EQ(registry_term(r), 0);
        ASSERT_OK(registry_figures(r, NULL));
        registry_leave(r);
        ASSERT_TRUE(registry_has_left(r));
        r = registry_free(r);
}

TEST_MAIN(test_post, test_figures, test_held, test_nobody)
