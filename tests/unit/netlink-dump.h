/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A dump written by hand: what the kernel would answer. */
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "test.h"

struct dump {
        _Alignas(8) unsigned char data[4096];
        size_t len, message;
};

static inline void put(struct dump *d, const void *data, size_t len) {
        ASSERT_TRUE(d->len + NLMSG_ALIGN(len) <= sizeof(d->data));
        if (len > 0)
                memcpy(d->data + d->len, data, len);
        memset(d->data + d->len + len, 0, NLMSG_ALIGN(len) - len);
        d->len += NLMSG_ALIGN(len);
}

static inline void attribute(struct dump *d, uint16_t type, const void *data, size_t len) {
        put(d,
            &(struct rtattr){ .rta_type = type, .rta_len = (unsigned short) (sizeof(struct rtattr) + len) },
            sizeof(struct rtattr));
        put(d, data, len);
}

static inline void number(struct dump *d, uint16_t type, uint32_t v) {
        attribute(d, type, &v, sizeof(v));
}

static inline void begin(struct dump *d, uint16_t type, const void *head, size_t size) {
        d->message = d->len;
        put(d, &(struct nlmsghdr){ .nlmsg_type = type, .nlmsg_flags = NLM_F_MULTI },
            sizeof(struct nlmsghdr));
        put(d, head, size);
}

static inline void end(struct dump *d) {
        uint32_t len = (uint32_t) (d->len - d->message);

        memcpy(d->data + d->message, &len, sizeof(len));
}

static inline void done(struct dump *d) {
        d->message = d->len;
        put(d, &(struct nlmsghdr){ .nlmsg_type = NLMSG_DONE, .nlmsg_flags = NLM_F_MULTI },
            sizeof(struct nlmsghdr));
        number(d, 0, 0);
        d->len -= 4;
        end(d);
}

static inline void address(struct dump *d, int family, uint16_t type, const char *text) {
        unsigned char a[16];

        ASSERT_EQ(inet_pton(family, text, a), 1);
        attribute(d, type, a, family == AF_INET ? 4 : 16);
}
