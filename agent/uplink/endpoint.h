/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside of the uplink: where records go. One endpoint is a base URL, the URL of each class below it, and
 * the addresses of its host.
 */
#include "lookup.h"
#include "uplink.h"

struct endpoint {
        struct uplink *uplink;
        char *base;                    /* without the last '/' */
        char *urls[_UPLINK_CLASS_MAX];
        bool https;
        struct lookup *lookup;     /* NULL: the URL (or the proxy's) has an address */
        char dns_error[160];           /* the last look-up failed; empty: it did not */
};

/* proxy: its URL, or NULL: then its name is the one to look up. -EINVAL: no URL, or it holds a password. */
int endpoint_init(struct endpoint *p, sd_event *e, const char *base, const char *proxy,
                  void (*resolved)(const char *error, void *userdata));
void endpoint_clear(struct endpoint *p);
/* For CURLOPT_RESOLVE. 1: go on with *ret (NULL: none is needed); 0: a look-up is at work; -errno. */
int endpoint_addresses(struct endpoint *p, const char **ret);
/* Asks again, in the background, unless what is known is younger than least. */
void endpoint_refresh(struct endpoint *p, usec_t now, usec_t least);
