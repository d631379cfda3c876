/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which calls a server has: a table of method, path and arguments, from which also comes what the refusals
 * say. A program's table has elements of its own whose first member is the struct http_route.
 */
#include <jansson.h>

#include "http_arguments.h"
#include "http_server.h"

#define ROUTE_PARTS_MAX 2 /* named by a path */
#define ROUTE_PART_MAX 256

struct http_route {
        const char *method; /* GET also answers HEAD */
        const char *path;   /* "/v1/runs/NAME/capture": what is in capitals stands for one part, not empty */
        const struct argument *arguments; /* NULL: none */
};

#define ROUTE(m, p) { .method = (m), .path = (p) }
#define ROUTE_WITH(m, p, table) { .method = (m), .path = (p), .arguments = (table) }

struct http_route_table {
        const void *first; /* n elements of size bytes */
        size_t n, size;
};
#define ROUTE_TABLE(list) { (list), ELEMENTSOF(list), sizeof((list)[0]) }

/* A request that has been matched. Handlers see it as http_request.routed. */
struct routed {
        const struct http_route *route;
        char part[ROUTE_PARTS_MAX][ROUTE_PART_MAX];
        struct arguments arguments;
};

/*
 * The route of q. NULL: there is none, and *ret_allow has the methods of the path as 405 lists them, "" when
 * nothing has this path.
 */
const struct http_route *routes_find(const struct http_route_table *t, const struct http_request *q,
                                struct routed *ret, char ret_allow[static HTTP_ALLOW_MAX]);
/* The answer of JSON servers where there is none: 404 that lists what there is, or 405. */
void routes_refuse(const struct http_route_table *t, const struct http_request *q, const char *allow,
                   struct http_reply *reply);
/* Checks the arguments of a request whose routed is set. False: the reply is complete. */
bool routes_check_arguments(const struct http_request *q, struct routed *routed, struct http_reply *reply);

bool http_reads(const struct http_request *q); /* GET or HEAD */
/* Its header Host is an address or localhost. A page of another site whose name was bound to our address has
 * that name there. */
bool http_is_called_by_address(const struct http_request *q);
/* What stands in the path for the first, second … name in capitals. */
const char *route_part(const struct http_request *q, size_t i);
/* Arguments of the route's own table. NULL or not_given: it was not given. */
const char *route_text(const struct http_request *q, const char *name);
int64_t route_number(const struct http_request *q, const char *name, int64_t not_given);

/* JSON as the reply of a call, and the one form of an error: {error, remedy}. */

/* Sets status, type and body. Takes v over; NULL is out of memory: 503 without a body, to be tried again. */
void api_reply(struct http_reply *reply, unsigned status, json_t *v);
/* remedy: NULL: none is known. */
void api_reply_error(struct http_reply *reply, unsigned status, const char *error, const char *remedy);
