/* SPDX-License-Identifier: Apache-2.0 */
/* What a request says: its headers, the parameters of its query. The contract is http_server.h. */
#include <microhttpd.h>
#include <strings.h>

#include "http_server.h"

const char *http_header(const struct http_request *q, const char *name) {
        return MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, name);
}

struct repeated {
        const char *name, *value;
        bool again;
};

static enum MHD_Result on_header(void *userdata, enum MHD_ValueKind kind, const char *key,
                                 const char *value) {
        struct repeated *h = userdata;

        (void) kind;
        if (strcasecmp(key, h->name) != 0)
                return MHD_YES;
        h->again = h->value;
        h->value = value ? value : "";
        return h->again ? MHD_NO : MHD_YES;
}

int http_header_once(const struct http_request *q, const char *name, const char **ret) {
        struct repeated h = { .name = name };

        (void) MHD_get_connection_values(q->connection, MHD_HEADER_KIND, on_header, &h);
        if (h.again)
                return -ENOTUNIQ;
        *ret = h.value;
        return 0;
}

struct parameters {
        int (*visit)(const char *key, const char *value, void *userdata);
        void *userdata;
        int r;
};

static enum MHD_Result on_parameter(void *userdata, enum MHD_ValueKind kind, const char *key,
                                    const char *value) {
        struct parameters *p = userdata;

        (void) kind;
        p->r = p->visit(key, value ? value : "", p->userdata);
        return p->r == 0 ? MHD_YES : MHD_NO;
}

int http_query(const struct http_request *q,
               int (*visit)(const char *key, const char *value, void *userdata), void *userdata) {
        struct parameters p = { .visit = visit, .userdata = userdata };

        (void) MHD_get_connection_values(q->connection, MHD_GET_ARGUMENT_KIND, on_parameter, &p);
        return p.r;
}
