/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where this host's own name leads. Programs of a run ask for it to learn the address that they tell their
 * peers; of several answers they take the first.
 */
#include <arpa/inet.h>
#include <netdb.h>

#include "addresses.h"
#include "links.h"
#include "words.h"

#define ANSWER "/kernel/own-name" /* of a root other than "/": the address that it leads to, or nothing */

/* *ret: the first answer. 0, or what getaddrinfo(3) says. */
static int look_up(const struct host *h, const char *name, struct sockaddr_storage *ret) {
        const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
        const struct addrinfo numeric = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
        struct addrinfo *list = NULL;
        char text[INET6_ADDRSTRLEN];
        int r;

        if (h->real_root)
                r = getaddrinfo(name, NULL, &hints, &list);
        else if (host_read(h, ANSWER, text, sizeof(text), NULL) < 0)
                r = EAI_SYSTEM;
        else
                r = text[0] ? getaddrinfo(text, NULL, &numeric, &list) : EAI_NONAME;
        if (r != 0)
                return r;
        memcpy(ret, list->ai_addr, MIN((size_t) list->ai_addrlen, sizeof(*ret)));
        freeaddrinfo(list);
        return 0;
}

static const void *bytes_of(const struct sockaddr_storage *a) {
        return a->ss_family == AF_INET ? (const void *) &((const struct sockaddr_in *) a)->sin_addr
                                       : &((const struct sockaddr_in6 *) a)->sin6_addr;
}

static bool is_loopback(const struct sockaddr_storage *a) {
        return a->ss_family == AF_INET ? *(const uint8_t *) bytes_of(a) == IN_LOOPBACKNET
                                       : IN6_IS_ADDR_LOOPBACK((const struct in6_addr *) bytes_of(a));
}

/* Link-local ones are not among those that are read. */
static bool is_own(const struct address_table *own, const struct sockaddr_storage *a) {
        return (a->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *) bytes_of(a))) ||
               address_find(own, 0, a->ss_family, bytes_of(a));
}

static bool is_joined_to_a_nic(const struct link_table *links, const struct link *bridge) {
        for (size_t i = 0; i < links->n; i++) {
                struct link port = links->links[i];

                if (port.master != bridge->index)
                        continue;
                port.master = 0; /* what it would be alone */
                if (link_is_data_nic(&port) || streq(port.kind, "bond") || streq(port.kind, "vlan"))
                        return true;
        }
        return false;
}

/* The address is that of a bridge for containers, which each host has alike. */
static bool is_of_containers(const struct link_table *links, const struct address_table *own,
                             const struct sockaddr_storage *a) {
        const struct address *address = address_find(own, 0, a->ss_family, bytes_of(a));
        const struct link *l = address ? link_by_index(links, address->index) : NULL;

        return l && streq(l->kind, "bridge") && !is_joined_to_a_nic(links, l);
}

/* Which address it should lead to: the first of a data-centre NIC, of IPv4 if there is one. */
static bool own_address(const struct link_table *links, const struct address_table *own,
                        char ret[static INET6_ADDRSTRLEN]) {
        const struct address *best = NULL;

        for (size_t i = 0; i < own->n; i++) {
                const struct link *l = link_by_index(links, own->addresses[i].index);

                if (l && link_is_data_nic(l) &&
                    (!best || (best->family == AF_INET6 && own->addresses[i].family == AF_INET)))
                        best = &own->addresses[i];
        }
        return best && inet_ntop(best->family, best->bytes, ret, INET6_ADDRSTRLEN);
}

int probe_names(const struct host *h, const struct probe_context *c, struct sink *s) {
        _cleanup_addresses_ struct address_table own = ADDRESS_TABLE_NULL;
        _cleanup_links_ struct link_table links = LINK_TABLE_NULL;
        char name[HOST_NAME_SIZE], address[INET6_ADDRSTRLEN], found[INET6_ADDRSTRLEN] = "";
        struct sockaddr_storage a = { 0 };
        enum check_words w = WORDS_OWN_NAME;
        int r = host_name(h, name);

        (void) c;
        if (r == 0)
                r = addresses_read(h, &own);
        if (r < 0) {
                probe_tell(s, WORDS_OWN_NAME_UNKNOWN, NULL, strerror(-r), "%s", "");
                return 0;
        }
        (void) links_read(h, &links); /* without them no address is known that it should lead to */
        r = look_up(h, name, &a);
        if (r == EAI_NONAME || r == EAI_NODATA || r == EAI_AGAIN || r == EAI_FAIL)
                w = WORDS_OWN_NAME_NOBODYS;
        else if (r != 0) {
                probe_tell(s, WORDS_OWN_NAME_UNKNOWN, name, gai_strerror(r), "%s", "");
                return 0;
        } else if (!inet_ntop(a.ss_family, bytes_of(&a), found, sizeof(found)))
                return -EBADMSG;
        else if (is_loopback(&a))
                w = WORDS_OWN_NAME_LOOPBACK;
        else if (!is_own(&own, &a))
                w = WORDS_OWN_NAME_OTHERS;
        else if (is_of_containers(&links, &own, &a))
                w = WORDS_OWN_NAME_BRIDGE;
        if (w == WORDS_OWN_NAME_LOOPBACK && startswith(name, "localhost"))
                w = WORDS_OWN_NAME_LOCALHOST;
        if (w != WORDS_OWN_NAME && !own_address(&links, &own, address))
                return 0; /* no network that a run could use: nic.count says so */
        probe_tell(s, w, name, address, "%s", found[0] ? found : gai_strerror(r));
        return 0;
}
