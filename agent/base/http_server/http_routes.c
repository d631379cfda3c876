/* SPDX-License-Identifier: Apache-2.0 */
#include "http_routes.h"

#include <arpa/inet.h>
#include <assert.h>

#include "texts.h"
#include "utf8.h"

static const struct http_route *route_at(const struct http_route_table *t, size_t i) {
        return (const struct http_route *) (const void *) ((const char *) t->first + i * t->size);
}

static bool path_matches(const char *pattern, const char *path, struct routed *ret) {
        size_t parts = 0;

        while (*pattern) {
                size_t n;

                if (*pattern < 'A' || *pattern > 'Z') {
                        if (*pattern++ != *path++)
                                return false;
                        continue;
                }
                n = strcspn(path, "/");
                if (n == 0 || n >= ROUTE_PART_MAX)
                        return false;
                assert(parts < ROUTE_PARTS_MAX);
                memcpy(ret->part[parts], path, n);
                ret->part[parts++][n] = '\0';
                path += n;
                pattern += strcspn(pattern, "/");
        }
        return *path == '\0';
}

bool http_reads(const struct http_request *q) {
        return streq(q->method, "GET") || streq(q->method, "HEAD");
}

/* "10.0.0.7:9471", "[::1]:9471" or "localhost:9471", the port may be missing. */
bool http_is_called_by_address(const struct http_request *q) {
        const char *host = http_header(q, "Host") ?: "";
        bool brackets = *host == '[';
        const char *begin = host + brackets;
        size_t n = strcspn(begin, brackets ? "]" : ":");
        struct in6_addr address; /* has room for either */
        char text[INET6_ADDRSTRLEN];

        if (n >= sizeof(text))
                return false;
        memcpy(text, begin, n);
        text[n] = '\0';
        return streq(text, "localhost") || inet_pton(brackets ? AF_INET6 : AF_INET, text, &address) == 1;
}

static bool method_matches(const char *of_route, const struct http_request *q) {
        return streq(of_route, q->method) || (streq(of_route, "GET") && http_reads(q));
}

const struct http_route *routes_find(const struct http_route_table *t, const struct http_request *q,
                                struct routed *ret, char ret_allow[static HTTP_ALLOW_MAX]) {
        *ret_allow = '\0';
        for (size_t i = 0; i < t->n; i++) {
                const struct http_route *r = route_at(t, i);

                if (!path_matches(r->path, q->path, ret))
                        continue;
                if (method_matches(r->method, q)) {
                        ret->route = r;
                        ret->arguments = (struct arguments){ .table = r->arguments };
                        return r;
                }
                text_append(ret_allow, HTTP_ALLOW_MAX, ", ", "%s",
                            streq(r->method, "GET") ? "GET, HEAD" : r->method);
        }
        return NULL;
}

void routes_refuse(const struct http_route_table *t, const struct http_request *q, const char *allow,
                   struct http_reply *reply) {
        char list[2048] = "there are ", error[128]; /* of what came: any bytes */

        if (*allow) {
                (void) snprintf(error, sizeof(error), "%.16s %.80s is not a call", q->method, q->path);
                (void) utf8_scrub(error, strlen(error));
                (void) snprintf(list, sizeof(list), "use %s", allow);
                api_reply_error(reply, 405, error, list);
                (void) snprintf(reply->allow, sizeof(reply->allow), "%s", allow);
                return;
        }
        for (size_t i = 0; i < t->n; i++)
                text_append(list, sizeof(list), i > 0 ? ", " : "", "%s %s", route_at(t, i)->method,
                            route_at(t, i)->path);
        api_reply_error(reply, 404, "there is no such call", list);
}

bool routes_check_arguments(const struct http_request *q, struct routed *routed, struct http_reply *reply) {
        if (arguments_read(&routed->arguments, q) == 0)
                return true;
        api_reply_error(reply, 400, routed->arguments.why, "less /usr/share/doc/tpu-*/api.md");
        return false;
}

const char *route_part(const struct http_request *q, size_t i) {
        assert(q->routed && i < ROUTE_PARTS_MAX);
        return q->routed->part[i];
}

const char *route_text(const struct http_request *q, const char *name) {
        assert(q->routed);
        return arguments_text(&q->routed->arguments, name);
}

int64_t route_number(const struct http_request *q, const char *name, int64_t not_given) {
        assert(q->routed);
        return arguments_number(&q->routed->arguments, name, not_given);
}

/* --- Replies ------------------------------------------------------------------------------------------ */

void api_reply(struct http_reply *reply, unsigned status, json_t *v) {
        char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;

        json_decref(v);
        reply->content_type = "application/json";
        reply->status = text ? status : 503;
        reply->body = text;
        reply->len = text ? strlen(text) : 0;
        if (!text)
                reply->retry_after = 1; /* a small text would fail, too */
}

void api_reply_error(struct http_reply *reply, unsigned status, const char *error, const char *remedy) {
        json_t *v = json_pack("{s:s, s:s}", "error", error, "remedy", remedy ?: "");

        if (!v) /* the text names what came, and that is no UTF-8 */
                v = json_pack("{s:s, s:s}", "error", "the request is not UTF-8", "remedy", remedy ?: "");
        api_reply(reply, status, v);
}
