/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * etcd's answers as structs: taken apart within a bound of memory, and checked for what a reader would
 * otherwise rely on blindly. Pure. proto/etcd.proto says where the numbers are from.
 */
#include "base.h"
#include "etcd.pb-c.h"

#define ETCD_UNPACKED_MAX                                                                                   \
        (64 * 1024 * 1024) /* of one answer: two bytes on the wire can be a struct of eighty */

enum etcd_method {
        ETCD_RANGE,
        ETCD_TXN,
        ETCD_LEASE_GRANT,
        ETCD_LEASE_REVOKE,
        ETCD_LEASE_KEEP,
        ETCD_WATCH,
        _ETCD_METHOD_MAX,
};
/* "/etcdserverpb.KV/Range" */
const char *etcd_method_path(enum etcd_method m);

/* One answer; the method's own member is set, and has a header. */
struct etcd_message {
        enum etcd_method method;
        Etcd__RangeResponse *range;
        Etcd__TxnResponse *txn;
        Etcd__LeaseGrantResponse *grant;
        Etcd__LeaseRevokeResponse *revoke;
        Etcd__LeaseKeepAliveResponse *keep;
        Etcd__WatchResponse *watch;
        int64_t revision; /* of the store, as the header says */
        size_t used;      /* memory */
};

/*
 * -EBADMSG: no such answer, or one without a header, or with an event or a part that is empty; -E2BIG: it
 * would take more than ETCD_UNPACKED_MAX. *ret is then empty.
 */
int etcd_message_take(enum etcd_method m, const uint8_t *data, size_t len, struct etcd_message *ret);
void etcd_message_clear(struct etcd_message *m);

/* What of a key comes behind a prefix. NULL: it does not begin so, or holds a NUL. */
const char *etcd_key_behind(const ProtobufCBinaryData *key, const char *prefix, size_t *ret_len);
/*
 * The end of the range that a key stands for (etcd.h), made in buf, which holds the key and a NUL: empty for
 * one key, else the key behind all that begin with it.
 */
ProtobufCBinaryData etcd_range_end(const char *key, char *buf);
/* A text as protobuf-c's bytes, borrowed: it only reads what it packs. */
ProtobufCBinaryData etcd_bytes(const char *text);
