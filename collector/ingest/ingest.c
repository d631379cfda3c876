/* SPDX-License-Identifier: Apache-2.0 */
#include "ingest.h"
#include "leaf.h"
#include "unpack.h"

/*
 * Field numbers of the envelope, the same for metrics and logs (opentelemetry-proto, stable since 1.0): a
 * request holds groups, a group a resource and scopes, a scope metrics or log records.
 */
enum { REQUEST_GROUP = 1, GROUP_RESOURCE = 1, GROUP_SCOPE = 2, SCOPE_LEAF = 2 };

typedef int (*leaf_fn)(struct walk *w, const uint8_t *data, size_t len);

/* The next field of this number that is a message; others are skipped. As wire_next(). */
static int next_message(struct walk *w, struct wire *at, uint32_t number, struct wire_field *ret) {
        struct wire_field f;
        int r;

        while ((r = wire_next(at, &f)) > 0) {
                if (f.number != number)
                        continue;
                if (f.type != WIRE_BYTES)
                        return walk_fail(w, -EBADMSG, "byte %zu: field %u is no message",
                                         (size_t) (f.data - w->start), number);
                *ret = f;
                return 1;
        }
        if (r < 0)
                (void) walk_fail(w, r, "byte %zu: not a protobuf field, or cut off",
                                 (size_t) (at->next - w->start));
        return r;
}

static int walk_scope(struct walk *w, const struct wire_field *scope, leaf_fn leaf) {
        struct wire at = { .next = scope->data, .end = scope->data + scope->len };
        struct wire_field f;
        int r;

        while ((r = next_message(w, &at, SCOPE_LEAF, &f)) > 0) {
                r = leaf(w, f.data, f.len);
                if (r < 0)
                        return r;
        }
        return r;
}

/* The resource may stand behind its scopes: it is looked for first. */
static int find_resource(struct walk *w, const struct wire_field *group, struct ingest_resource *ret) {
        struct wire at = { .next = group->data, .end = group->data + group->len };
        struct wire_field f;
        unsigned found = 0;
        int r;

        while ((r = next_message(w, &at, GROUP_RESOURCE, &f)) > 0) {
                if (found++ > 0)
                        return walk_fail(w, -EBADMSG, "byte %zu: a second resource",
                                         (size_t) (f.data - w->start));
                r = leaf_resource(w, f.data, f.len, ret);
                if (r < 0)
                        return r;
        }
        return r;
}

static int walk_group(struct walk *w, const struct wire_field *group, leaf_fn leaf) {
        struct wire at = { .next = group->data, .end = group->data + group->len };
        struct ingest_resource resource = { .worker_id = -1 };
        struct wire_field f;
        int r;

        r = find_resource(w, group, &resource);
        if (r < 0)
                return r;
        w->resource = &resource;
        r = w->visitor->resource(&resource, w->visitor->userdata);
        if (r < 0)
                return r;
        while ((r = next_message(w, &at, GROUP_SCOPE, &f)) > 0) {
                r = walk_scope(w, &f, leaf);
                if (r < 0)
                        return r;
        }
        return r < 0 ? r : w->visitor->done(w->visitor->userdata);
}

int ingest_request(enum ingest_kind kind, const void *data, size_t len, const struct ingest_visitor *v,
                   struct ingest_result *ret) {
        struct walk w = { .visitor = v, .result = ret, .start = data };
        struct wire at = { .next = data };
        leaf_fn leaf = kind == INGEST_METRICS ? leaf_metric : leaf_log;
        struct wire_field f;
        unsigned groups = 0;
        int r;

        *ret = (struct ingest_result) { 0 };
        if (len == 0)
                return 0;       /* an empty request is a valid one */
        at.end = w.start + len; /* not before: data may be NULL when there is nothing */
        unpack_memory_init(&w.memory, INGEST_MEMORY_MAX);
        while ((r = next_message(&w, &at, REQUEST_GROUP, &f)) > 0) {
                if (groups++ >= INGEST_GROUPS_MAX)
                        r = walk_fail(&w, -E2BIG, "more than %d resources in one request",
                                      INGEST_GROUPS_MAX);
                else
                        r = walk_group(&w, &f, leaf);
                if (r < 0)
                        break;
        }
        unpack_memory_clear(&w.memory);
        return r;
}
