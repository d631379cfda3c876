/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is said to etcd's JSON gateway and what it answers (etcd 3.4 and later, POST /v3/…): keys and values
 * are base64, numbers of 64 bits are text, and a member that is 0 or false is left out. Pure and bounded: an
 * answer is foreign input.
 */
#include <jansson.h>

#include "base.h"

#define GATEWAY_KEY_MAX 320
#define GATEWAY_VALUE_MAX ((size_t) 1536 * 1024) /* etcd's own bound of a request is 1.5 MiB */
#define GATEWAY_PACKED ((size_t) 128 * 1024) /* a text that is longer stands there as gzip (RFC 1952) */
#define GATEWAY_TEXT_MAX ((size_t) 32 * 1024 * 1024) /* of a value that was packed */
#define GATEWAY_ANSWER_MAX ((size_t) 176 * 1024 * 1024) /* a page of the largest records (keep.c) */

/* Parts of requests; a caller adds what it needs. NULL: out of memory, as with json_pack(). */
json_t *gateway_bytes(const char *data, size_t len);
json_t *gateway_number(int64_t n);
/*
 * {"key":…}: of one key; and of all that begin so, in their order. revision 0: as of now; behind: the key
 * that was last, "" none.
 */
json_t *gateway_range(const char *key);
json_t *gateway_range_prefix(const char *prefix, const char *behind, unsigned limit, int64_t revision);
/* *ret_len, which may be NULL: the bytes of the value, as etcd counts them. */
json_t *gateway_put(const char *key, const char *value, int64_t lease, size_t *ret_len);
json_t *gateway_delete(const char *key);
/* A condition: the key's create or mod revision is this; 0: it does not exist. what: "CREATE", "MOD". */
json_t *gateway_compare(const char *key, const char *what, int64_t revision);

struct gateway_answer {
        /*
         * 0; -EAGAIN: nobody answered, or etcd is not able to now; else it was refused: see gateway_parse()
         */
        int error;
        char why[200];
        bool about_token; /* refused: the token is missing, old or unknown */
        json_t *body; /* NULL with an error */
        int64_t revision; /* of the header */
        char cluster[24];
};
#define GATEWAY_ANSWER_NULL ((struct gateway_answer){ 0 })

/*
 * status: of HTTP. Sets error: -ENOENT (no such lease), -ENOSPC (etcd has no room), -EACCES (not permitted),
 * -EBADMSG (malformed, too large), -EAGAIN. Never fails: an answer that cannot be understood is -EAGAIN, for
 * another member may say it better.
 */
void gateway_parse(const char *text, size_t len, long status, struct gateway_answer *ret);
/* No answer at all. */
void gateway_fail(const char *why, struct gateway_answer *ret);
void gateway_answer_clear(struct gateway_answer *a);
#define _cleanup_gateway_answer_ _cleanup_(gateway_answer_clear)

/* A number of 64 bits; 0 when it is left out, or none. */
int64_t gateway_int(const json_t *object, const char *key);

struct gateway_kv {
        char key[GATEWAY_KEY_MAX];
        int64_t created, modified, lease;
        const json_t *value; /* still base64 */
};
/* Of a list "kvs". -ENOENT: there are no more; -EBADMSG: it is none, or its key is too long. */
int gateway_kv(const json_t *kvs, size_t i, struct gateway_kv *ret);
/* The value as a JSON object, unpacked; NULL: it is none. */
json_t *gateway_value_json(const struct gateway_kv *kv);
/* The kvs of the i-th answer in a transaction's, of a range. NULL: there are none. */
const json_t *gateway_txn_kvs(const struct gateway_answer *a, size_t i);

/*
 * A stream's lines: what came is put together to lines, and each is looked at. 1: something happened to what
 * is watched; 0: not yet; -errno: the stream is of no use any more (-EPIPE: etcd ended it; -E2BIG: a line is
 * too long).
 */
#define GATEWAY_LINE_MAX 65536
struct gateway_lines {
        char *line;
        size_t len;
};
int gateway_lines(struct gateway_lines *l, const char *data, size_t len);
void gateway_lines_clear(struct gateway_lines *l);

/*
 * Access to etcd, so that who leads and what is written can be decided without a network (a test has its own
 * etcd). One call a lane at a time: renewing the lease never waits for a large write.
 */
enum etcd_lane { ETCD_LANE_LEASE, ETCD_LANE_RECORDS, _ETCD_LANE_MAX };

struct etcd_port {
        /*
         * body is taken over. done has the answer within patience, not from inside; it may make the lane's
         * next call. -EBUSY: the lane's last call has not ended; -ENOMEM; -EIO: then done is not called.
         */
        int (*call)(void *link, enum etcd_lane lane, const char *path, json_t *body, usec_t patience,
                    void (*done)(const struct gateway_answer *a, void *userdata), void *userdata);
        /* The lane's call ends without done; what it asked for may happen all the same. */
        void (*cancel)(void *link, enum etcd_lane lane);
        void *link;
};
