/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Requests that wait for the disk: those that come within GROUP_DELAY are one transaction, because a commit
 * costs as much as storing hundreds of points. Each is a part of its own in it: a malformed one is undone
 * alone. 200 is answered when the commit is on the disk; when it fails, all are asked to come again. One
 * turn of the loop commits at most GROUP_REQUESTS or about GROUP_BYTES, so that others are served between.
 */
#include "control_port.h"
#include "clock.h"
#include "database.h"
#include "push.h"

#define GROUP_DELAY        (10 * USEC_PER_MSEC)
#define GROUP_REQUESTS     128
#define GROUP_BYTES        ((size_t) 2 * 1024 * 1024)  /* of bodies as sent; one alone may have more */
#define GROUP_INFLATED_MAX ((size_t) 16 * 1024 * 1024) /* of one body, decompressed */

struct group_item {
        struct group_item *next; /* the group's */
        struct http_call *call;
        bool gzip;
        const uint8_t *body; /* the call's */
        size_t len;
        char peer[TCP_ADDRESS_TEXT_MAX];
        bool is_proved;
        char proved[HOST_FROM_MAX], caller[TLS_NAME_MAX]; /* is_proved: which host it is, by which name */
        bool is_capture;
        struct capture_words capture; /* of one; the body is stored as it is */
        struct push push; /* else: kind and record are set; the body becomes its data */
        /* The group's: */
        struct ingest_result result;
        bool repeated; /* was stored before */
        struct http_reply reply;
};

struct group;
/* d, speakers and clock are borrowed. events: events or lines were committed; captures: captures were. */
int group_new(const struct damage *d, struct speakers *speakers, const struct clock *clock,
              void (*events)(void *userdata), void (*captures)(void *userdata), void *userdata,
              struct group **ret);
/* Answers all that wait with 503. */
struct group *group_free(struct group *g);
DEFINE_CLEANUP(struct group *, group_free)

/* Copies *item; its call is answered by the group from now on. -ENOMEM. */
int group_add(struct group *g, const struct group_item *item);
