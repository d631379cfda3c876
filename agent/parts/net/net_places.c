/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a socket is: its run by its control group, its NIC by its own address, its peer by what is known of
 * the slice. */
#include <arpa/inet.h>

#include "addresses.h"
#include "cgroup_files.h"
#include "flow_words.h"
#include "json_text.h"
#include "links.h"
#include "log.h"
#include "member.h"
#include "net_state.h"
#include "netlink.h"
#include "path_address.h"

#define GROUPS_MAX 512 /* control groups of all runs */
#define ROUTES_A_TICK 64

struct net_group {
        uint64_t id;
        uint8_t run;
};

struct net_places {
        struct bus *bus;
        struct flows *flows;
        struct net_group groups[GROUPS_MAX];
        size_t n_groups;
        bool groups_known; /* walked since the last dump began */
        struct address_table addresses;
        struct link_table links;
        bool addresses_known;
        struct nl_sock *kernel; /* is asked for routes; NULL: nobody can be */
};

/* --- Runs --------------------------------------------------------------------------------------------- */

struct walk {
        struct net_places *places;
        uint8_t run;
};

static int take_group(const char *path, uint64_t id, void *userdata) {
        const struct walk *w = userdata;
        struct net_places *p = w->places;

        (void) path;
        if (p->n_groups < GROUPS_MAX)
                p->groups[p->n_groups++] = (struct net_group){ id, w->run };
        return 0;
}

static void walk_runs(struct net_places *p) {
        const char *base = cgroup_base(p->bus->host);

        p->groups_known = true;
        p->n_groups = 0;
        for (uint8_t run = 1; base && run < FLOW_RUNS_MAX; run++) {
                struct walk w = { .places = p, .run = run };
                char group[CGROUP_PATH_MAX], path[CGROUP_PATH_MAX + 32];

                if (!p->flows->runs[run][0] ||
                    run_group_path(p->flows->runs[run], host_runs_group(p->bus->runs, p->flows->runs[run]),
                                   group, sizeof(group)) < 0)
                        continue;
                (void) snprintf(path, sizeof(path), "%s%s", base, group);
                (void) cgroup_walk(p->bus->host, path, take_group, &w);
        }
}

static uint8_t find_group(const struct net_places *p, uint64_t id) {
        for (size_t i = 0; i < p->n_groups; i++)
                if (p->groups[i].id == id)
                        return p->groups[i].run;
        return FLOW_NOBODY;
}

static uint8_t run_of(struct net_places *p, uint64_t group) {
        uint8_t run = group == 0 ? FLOW_NOBODY : find_group(p, group);

        if (run == FLOW_NOBODY && group != 0 && !p->groups_known) {
                walk_runs(p); /* it may be a container's that is new */
                run = find_group(p, group);
        }
        return run;
}

static bool lives(const struct host_run *run) {
        return run && host_run_lives(run);
}

bool net_places_take_runs(struct net_places *p, bool was) {
        const struct host_runs *l = p->bus->runs;
        bool any = false;

        if (!l->known)
                return was; /* tpu-launchd is away for a moment: they go on */
        for (uint8_t run = 1; run < FLOW_RUNS_MAX; run++)
                if (p->flows->runs[run][0] && !lives(host_runs_find(p->bus->runs, p->flows->runs[run])))
                        flows_forget_run(p->flows, run);
        for (size_t i = 0; i < l->n; i++)
                if (lives(&l->runs[i]))
                        any |= flows_run(p->flows, l->runs[i].name) != FLOW_NOBODY;
        return any;
}

/* --- NICs --------------------------------------------------------------------------------------------- */

static void read_addresses(struct net_places *p) {
        struct address_table addresses = ADDRESS_TABLE_NULL;
        struct link_table links = LINK_TABLE_NULL;

        p->addresses_known = true;
        if (addresses_read(p->bus->host, &addresses) < 0)
                return; /* what was known stays */
        if (links_read(p->bus->host, &links) < 0) {
                address_table_clear(&addresses);
                return;
        }
        address_table_clear(&p->addresses);
        link_table_clear(&p->links);
        p->addresses = addresses;
        p->links = links;
}

static int nic_index(const struct net_places *p, int family, const uint8_t *address) {
        const struct address *a = address_find(&p->addresses, 0, family, address);

        return a ? a->index : 0;
}

static uint8_t nic_of(struct net_places *p, int index) {
        const struct link *l = link_by_index(&p->links, index);

        return l ? flows_nic(p->flows, index, l->name) : FLOW_NOBODY;
}

bool net_is_loopback(int family, const uint8_t *address) {
        static const uint8_t one[16] = { [15] = 1 };

        return family == AF_INET ? address[0] == 127 : memcmp(address, one, sizeof(one)) == 0;
}

static uint8_t nic_of_socket(struct net_places *p, const struct tcp_connection *s) {
        int index = s->interface <= INT32_MAX ? (int) s->interface : 0;

        if (!index)
                index = nic_index(p, s->family, s->local);
        if (!index && !p->addresses_known) {
                read_addresses(p);
                index = nic_index(p, s->family, s->local);
        }
        return index > 0 ? nic_of(p, index) : FLOW_NOBODY;
}

/* --- Peers -------------------------------------------------------------------------------------------- */

/* Of a list of hosts as the registry has them; slice: NULL for one's own. */
static bool find_host(const json_t *hosts, const char *slice, const char *address,
                      char name[static FLOW_NAME_MAX]) {
        const json_t *host;
        size_t i;

        json_array_foreach (hosts, i, host)
                if (json_list_has(json_object_get(host, "address"), address)) {
                        (void) snprintf(name, FLOW_NAME_MAX, "worker %lld%s%s",
                                        (long long) json_integer_value(json_object_get(host, "worker")),
                                        slice ? " of " : "", slice ? slice : "");
                        return true;
                }
        return false;
}

static bool find_in_run(const struct bus *b, const char *run, const char *address,
                        char name[static FLOW_NAME_MAX]) {
        const json_t *record = member_run_record(b, run), *slice;
        size_t i;

        json_array_foreach (json_object_get(record, "slices"), i, slice) {
                const char *of = json_text_of(slice, "slice");

                if (find_host(json_object_get(slice, "hosts"), streq(of, member_of(b)->slice) ? NULL : of,
                              address,
                              name))
                        return true;
        }
        return false;
}

/* "10.0.0.3,10.0.0.4": worker 0, worker 1. */
static bool find_in_identity(const struct bus *b, const char *address, char name[static FLOW_NAME_MAX]) {
        const char *list = identity_get(&b->identity, identity_workers(&b->identity));
        size_t len = strlen(address);

        for (unsigned i = 0; list; i++) {
                size_t n = strcspn(list, ",");

                if (n == len && memcmp(list, address, len) == 0) {
                        (void) snprintf(name, FLOW_NAME_MAX, "worker %u", i);
                        return true;
                }
                list = list[n] ? list + n + 1 : NULL;
        }
        return false;
}

static bool name_peer(const struct bus *b, const char *run, const char *address,
                      char name[static FLOW_NAME_MAX]) {
        name[0] = '\0';
        return find_host(json_object_get(member_slice_record(b), "roster"), NULL, address, name) ||
               (run[0] && find_in_run(b, run, address, name)) || find_in_identity(b, address, name);
}

/* --- Places ------------------------------------------------------------------------------------------- */

struct flow_place net_place_of(const struct tcp_connection *s, void *userdata) {
        static const struct flow_place nowhere = { .leave_out = true };
        char address[FLOW_NAME_MAX], name[FLOW_NAME_MAX];
        struct net_places *p = userdata;
        struct flow_place place = { .bound = s->interface > 0 };

        if (net_is_loopback(s->family, s->peer) || memcmp(s->local, s->peer, sizeof(s->local)) == 0)
                return nowhere;
        place.run = run_of(p, s->cgroup);
        if (place.run == FLOW_NOBODY &&
            !name_peer(p->bus, "", flow_address_text((uint8_t) s->family, s->peer, address), name))
                return nowhere;
        place.nic = nic_of_socket(p, s);
        return nic_index(p, s->family, s->peer) > 0 ? nowhere : place; /* one's own, by another address */
}

/* BPF counts for everybody. */
struct flow_place net_place_of_entry(const struct tcp_connection *s, void *userdata) {
        struct net_places *p = userdata;

        return (struct flow_place){ .run = run_of(p, s->cgroup), .nic = nic_of_socket(p, s) };
}

/* The NIC that the kernel's routes choose for what comes from that address; 0: its own, or not known. */
static uint8_t wrong_nic_of(struct net_places *p, const struct flow_link *l) {
        const struct link *own = link_by_index(&p->links, p->flows->nics[l->nic].index);
        union path_address local, peer;
        struct path_route route;

        if (!p->kernel || l->nic == FLOW_NOBODY || l->bound || l->connections == 0 || !own ||
            !link_is_ethernet(own))
                return 0;
        address_fill(&local, l->family, l->local);
        address_fill(&peer, l->family, l->peer);
        if (path_route_ask(p->kernel, &local, &peer, &route) < 0 || route.local || route.nic == own->index)
                return 0;
        return nic_of(p, route.nic);
}

void net_places_settle(struct net_places *p) {
        struct flow_link *l;

        for (unsigned i = 0; i < ROUTES_A_TICK && (l = flows_next_unasked(p->flows)); i++) {
                char address[FLOW_NAME_MAX];

                l->asked = true;
                l->is_worker = name_peer(p->bus, p->flows->runs[l->run],
                                         flow_address_text(l->family, l->peer, address), l->name);
                l->wrong_nic = wrong_nic_of(p, l);
        }
}

void net_places_begin(struct net_places *p, bool all) {
        p->groups_known = false;
        p->addresses_known &= !all;
        if (all)
                read_addresses(p);
}

/* --- Life --------------------------------------------------------------------------------------------- */

int net_places_new(struct bus *b, struct flows *f, struct net_places **ret) {
        struct net_places *p = calloc(1, sizeof(*p));

        if (!p)
                return -ENOMEM;
        p->bus = b;
        p->flows = f;
        if (!b->host->real_root || netlink_open(NETLINK_ROUTE, &p->kernel) < 0)
                log_debug("routes cannot be asked for: that connections leave by another NIC is not seen");
        *ret = p;
        return 0;
}

struct net_places *net_places_free(struct net_places *p) {
        if (!p)
                return NULL;
        address_table_clear(&p->addresses);
        link_table_clear(&p->links);
        if (p->kernel)
                nl_socket_free(p->kernel);
        free(p);
        return NULL;
}
