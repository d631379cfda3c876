/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * etcd over several of its members, by HTTP in the loop: what one does not answer in time is asked of the
 * next; a member that answered is kept. With a user and password each call carries a token, which is asked
 * for again when etcd refuses it. Certificate files are read again when they change.
 */
#include <systemd/sd-event.h>

#include "gateway.h"
#include "tls_files.h"

#define ETCD_MEMBERS_MAX 8
#define ETCD_URL_MAX 192

struct etcd_access {
        char members[256]; /* URLs, by commas or blanks */
        char user[64], password_file[256]; /* empty: none */
        /* files; empty: the system's authorities, none */
        char ca[256], certificate[256], key[256], crl[256];
};

struct etcd_client;
struct etcd_client_options {
        sd_event *event;
        const struct etcd_access *access; /* borrowed */
        const char *user_agent;
        /* how long one member has for one answer; twice that after each failure, up to etcd's own 8 s */
        usec_t try_first;
        void (*turned)(void *userdata); /* a call has ended, and its done was called */
        void *userdata;
};

/* -EINVAL with why: the members cannot be understood. */
int etcd_client_new(const struct etcd_client_options *o, struct etcd_client **ret, char why[static 256]);
/* done of calls in progress is not called. */
struct etcd_client *etcd_client_free(struct etcd_client *c);
DEFINE_CLEANUP(struct etcd_client *, etcd_client_free)
struct etcd_port etcd_client_port(struct etcd_client *c);

/* Tells of every change of a key from revision on, until the stream ends (another may be started then, not
 * from inside of news). -EBUSY: one is in progress. */
int etcd_client_watch(struct etcd_client *c, const char *key, int64_t revision, void (*news)(void *userdata),
                      void *userdata);
