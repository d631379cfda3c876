/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One function, for there is one configuration: collectord.conf, sections [Collector], [Control],
 * [Telemetry] and [RemoteWrite], then the command line. Without certificates nobody is asked who he is, and
 * an address that is not loopback is refused unless InsecureListen says so in words.
 */
#include "client.h"
#include "remote_write.h"
#include "tcp_address.h"
#include "registry.h"
#include "store.h"
#include "server_certificate.h"
#include "slot_from.h"
#include "tls_peer.h"

struct collector_settings {
        char otlp[64], api[64], database[256], page[256]; /* as written */
        struct tcp_address otlp_address, api_address;
        char diagnose[64]; /* an episode: that is all that is done; empty: none */
        bool insecure;
        struct store_retention retention;
        char certificate[256], key[256], client_ca[256]; /* paths; empty: no TLS */
        char allow_agents[256], allow_readers[256], allow_actors[256], deny[256], crl[256];
        char proxies[256], proxy_header[64]; /* the header counts of who is in people.proxies alone */
        char host_from[256], slot_from[256], token_keys[256], token_audience[256];
        bool trust_all, tls12;
        struct {
                bool enabled, etcd; /* etcd: Store=etcd */
                usec_t lease; /* of the registry's members, and of the leader */
                bool preflight_pairs;
                char tenant[64], agents_url[256], people_url[256];
                struct etcd_access access;
        } control;
        struct {
                bool enabled;
                char elsewhere[256]; /* a URL, for people; empty: nowhere */
        } telemetry;
        struct remote_target remote; /* url empty: nothing is handed on */
        usec_t patience; /* with hosts that are asked for their stacks */
        struct server_certificate *tls; /* NULL: no TLS; to be freed after the servers, as are: */
        struct tls_callers agents, people;
        struct slot_from *slots; /* NULL: the site does not say whose a worker slot is */
};

/*
 * 1: go on; 0: nothing is to be run (--help, --show-config …), *ret_exit is the exit code; errors are logged
 * and end alike.
 */
int collector_settings_load(int argc, char *argv[], struct collector_settings *ret, int *ret_exit);
