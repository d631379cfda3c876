/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who leads: the collector that has the leased key ctl/leader in etcd. Its create_revision is the term.
 *
 * The leader's own deadline is 9/10 of the lease on CLOCK_BOOTTIME, counted from before the last renewal
 * that succeeded was sent: etcd cannot have given the key to anybody else by then, however long an answer
 * took and however long this process was stopped. Who is past it leads no more, whatever a late
 * answer says.
 *
 * No loop and no clock of its own: the owner calls election_step() when it is due, and after every answer.
 */
#include "clock.h"
#include "gateway.h"

struct election_options {
        struct etcd_port port;
        const struct clock *clock;
        usec_t lease;
        const char *key; /* borrowed */
        const json_t *value; /* of the key while this one leads; has "incarnation". Borrowed */
        void (*won)(uint64_t term, const char *cluster, void *userdata);
        void (*lost)(const char *why, void *userdata);
        /*
         * Another leads: the key's value; NULL: nobody, or it is not known. revision: of etcd, when it was
         * so.
         */
        void (*other)(const json_t *value, int64_t revision, void *userdata);
        void (*resigned)(void *userdata);
        void *userdata;
};

struct election {
        struct election_options o;
        bool leads, busy, unwanted, resigning; /* unwanted: the lease is to be given back */
        bool failing; /* etcd does not answer: said once */
        int64_t lease; /* 0: none */
        usec_t sent, deadline, next, heard; /* boot clock; sent: the call in progress; heard: etcd, last */
};

void election_init(struct election *e, const struct election_options *o);
/* Does what is due; returns when to call again at the latest. */
usec_t election_step(struct election *e);
/* Whether this very moment belongs to the term. */
bool election_leads(const struct election *e);
/* Something happened to the key: looked at with the next step. */
void election_look(struct election *e);
/* A transaction found the key to be another's. */
void election_depose(struct election *e, const char *why);
/* Gives it up: resigned() follows, after steps. */
void election_resign(struct election *e);
