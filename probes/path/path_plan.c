/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if_arp.h>

#include "check_words.h"
#include "addresses.h"
#include "netlink.h"
#include "path_plan.h"

void path_plan_clear(struct path_plan *p) {
        free(p->paths);
        *p = PATH_PLAN_NULL;
}

/* --- Names --------------------------------------------------------------------------------------------- */

static bool usable_nic(const struct intent *i, const struct link *l) {
        return intent_is_data_nic(i, l) && l->up;
}

static size_t count_nics(const struct intent *intent, const struct link_table *links) {
        size_t n = 0;

        for (size_t i = 0; i < links->n; i++)
                n += usable_nic(intent, &links->links[i]);
        return n;
}

static void add_path(struct path_plan *p, const char *nic, const char *name, const char *suffix,
                     size_t origin) {
        struct path *x = &p->paths[p->n];

        *x = (struct path){ .derived = suffix != NULL, .origin = origin };
        (void) snprintf(x->what.nic, sizeof(x->what.nic), "%s", nic);
        if (snprintf(x->what.peer, sizeof(x->what.peer), "%s%s%s", name, suffix ? "-" : "",
                     suffix ? suffix : "") < (int) sizeof(x->what.peer))
                p->n++; /* too long a name exists nowhere */
}

int path_plan_make(const struct link_table *links, const struct intent *intent,
                   const struct path_peers *peers, struct path_plan *ret) {
        size_t size = peers->n * (count_nics(intent, links) + 1);
        struct path_plan p = { .intent = intent };
        union path_address numeric;

        if (size + links->n > FINDING_LIST_MAX) /* each may become a finding */
                return -E2BIG;
        p.paths = calloc(size + 1, sizeof(*p.paths));
        if (!p.paths)
                return -ENOMEM;
        for (size_t i = 0; i < peers->n; i++) {
                const struct path_peer *peer = &peers->items[i];
                size_t origin = p.n;

                add_path(&p, peer->nic, peer->name, NULL, origin);
                if (peer->nic[0] || address_parse(peer->name, &numeric) == 0)
                        continue;
                for (size_t k = 0; k < links->n; k++)
                        if (usable_nic(intent, &links->links[k]))
                                add_path(&p, links->links[k].name, peer->name, links->links[k].name, origin);
        }
        *ret = p;
        return 0;
}

/* --- Routes -------------------------------------------------------------------------------------------- */

struct routing {
        struct path_viewer viewer;
        struct address_table addresses;
        const struct link_table *links;
        const struct intent *intent;
        struct finding_list *findings;
};

/* One UNKNOWN of a path that cannot be tried. */
static int report_untried(struct finding_list *l, const struct path *p, const char *found,
                          enum check_words w, const char *reason) {
        char from[ADDRESS_TEXT_MAX] = "", to[ADDRESS_TEXT_MAX] = "";
        struct finding f;

        path_finding_init(&f, &p->what);
        finding_set(f.found, "%s", found);
        if (p->what.to.sa.sa_family != 0)
                (void) address_text(&p->what.to, to);
        if (p->what.from.sa.sa_family != 0)
                (void) address_text(&p->what.from, from);
        check_say(&f, w, reason, p->what.peer, to, from);
        return finding_list_add(l, &f);
}

static int not_resolved(struct finding_list *l, const struct path *p) {
        return report_untried(l, p, "not tried: the name has no address", WORDS_PATH_NO_ADDRESS,
                      p->error == -ENOENT      ? "no such name"
                      : p->error == -ETIMEDOUT ? "the resolver gave no answer within 1 s"
                                               : "the resolver is in trouble");
}

/* What the kernel's own view says of a path that it does not take. 1: nothing. */
static int report_view(struct routing *r, const struct path *p) {
        const struct path_view *v = &p->what.view;
        struct finding f;

        path_finding_init(&f, &p->what);
        if (!path_view_say(v, p->what.nic, &p->what.to, &f))
                return 1;
        return finding_list_add(r->findings, &f);
}

static int wrong_way(struct routing *r, const struct path *p) {
        const struct path_view *v = &p->what.view;
        char found[96], reason[ROUTE_WORDS_MAX + 200], words[ROUTE_WORDS_MAX];
        int k = report_view(r, p);

        if (k <= 0)
                return k;
        if (v->error < 0) {
                (void) snprintf(found, sizeof(found), "not tried: no route (%s)", strerror(-v->error));
                return report_untried(r->findings, p, found, WORDS_PATH_NO_ROUTE,
                              "the kernel has no route there from this NIC's address");
        }
        (void) snprintf(found, sizeof(found), "not tried: leaves by %s", v->by);
        (void) snprintf(reason, sizeof(reason),
                        "packets from this NIC's address take another NIC (%s): there is no source routing "
                        "for it, and what they show is not this path",
                        v->matched ? route_words(&v->route, v->by, words) : "of a route without a name");
        return report_untried(r->findings, p, found, WORDS_PATH_NO_ROUTE, reason);
}

static bool is_in_data_subnet(const struct routing *r, const union path_address *to) {
        char subnet[ROUTE_WORDS_MAX];

        for (size_t i = 0; i < r->links->n; i++)
                if (usable_nic(r->intent, &r->links->links[i]) &&
                    path_view_in_subnet(&r->viewer, &r->links->links[i], to, subnet))
                        return true;
        return false;
}

/*
 * Where this host's own address was meant. One of a NIC that carries nothing is nobody's own name, and
 * neither is one out of a data-centre NIC's subnet that another kind of interface has.
 */
static bool is_own_name(const struct routing *r, const struct path_view *v, const union path_address *to) {
        const struct link *l = v->owner[0] ? link_by_name(r->links, v->owner) : NULL;

        if (!v->local || !l)
                return v->local && v->matched && v->route.protocol == RTPROT_KERNEL;
        return usable_nic(r->intent, l) || (l->arp_type != ARPHRD_LOOPBACK && !streq(l->kind, "dummy") &&
                                            !is_in_data_subnet(r, to));
}

/* The NIC of a plain name is the one that the kernel takes. 1: known; 0: not to be tried. */
static int choose_nic(struct routing *r, struct path *p) {
        struct path_view *v = &p->what.view;
        const struct link *l;

        path_view_read(&r->viewer, NULL, NULL, &p->what.to, v);
        if (is_own_name(r, v, &p->what.to)) {
                p->self = true;
                return 0;
        }
        if (v->error < 0 || v->local)
                return wrong_way(r, p);
        l = link_by_name(r->links, v->by);
        if (!l || !usable_nic(r->intent, l))
                return report_untried(r->findings, p, "not tried: no data-centre NIC leads there",
                                      WORDS_PATH_ASIDE, "the route to it takes another kind of interface");
        (void) snprintf(p->what.nic, sizeof(p->what.nic), "%s", l->name);
        return 1;
}

static int use_path(struct routing *r, struct path *p) {
        const struct link *l = link_by_name(r->links, p->what.nic);
        struct path_view *v = &p->what.view, unbound;
        int k;

        if (!l || !usable_nic(r->intent, l))
                return report_untried(r->findings, p,
                              "not tried: this host has no such data-centre NIC, or it is down",
                              WORDS_PATH_NO_NIC, "");
        p->what.mtu = l->mtu;
        k = nic_address(&r->addresses, l->index, p->what.to.sa.sa_family, &p->what.from);
        if (k < 0 && nic_address(&r->addresses, l->index, p->other.sa.sa_family, &p->what.from) == 0) {
                p->what.to = p->other;
                k = 0;
        }
        if (k < 0)
                return report_untried(r->findings, p, "not tried: this NIC has no address of that family",
                              WORDS_PATH_NIC_BARE, "");
        path_view_read(&r->viewer, l, &p->what.from, &p->what.to, v);
        if (is_own_name(r, v, &p->what.to))
                return 0;
        if (v->error < 0 || v->local || !streq(v->by, l->name))
                return wrong_way(r, p);
        /* A program that binds no address has the main table's route. */
        path_view_read(&r->viewer, l, NULL, &p->what.to, &unbound);
        if (unbound.diverted || (unbound.error < 0 && unbound.matched)) {
                *v = unbound;
                return wrong_way(r, p);
        }
        if (l->mtu <= PROOF_SMALL || l->mtu > UINT16_MAX)
                return report_untried(r->findings, p, "not tried: the NIC's MTU is out of all bounds",
                              WORDS_PATH_NIC_MTU, "");
        p->usable = true;
        return 0;
}

static int route_one(struct path_plan *plan, size_t i, struct routing *r) {
        struct path *p = &plan->paths[i];
        int k;

        if (p->error < 0) /* what is derived need not exist: judged at the end */
                return p->derived ? 0 : not_resolved(r->findings, p);
        /* What the plain name covers is not tried twice under its long name (h3 and h3-eth0). */
        if (p->derived && streq(plan->paths[p->origin].what.nic, p->what.nic))
                return 0;
        if (!p->what.nic[0]) {
                k = choose_nic(r, p);
                if (k <= 0)
                        return k;
        }
        return use_path(r, p);
}

/* --- What is left over --------------------------------------------------------------------------------- */

static bool has_path(const struct path_plan *p, const char *nic) {
        for (size_t i = 0; i < p->n; i++)
                if (p->paths[i].usable && streq(p->paths[i].what.nic, nic))
                        return true;
        return false;
}

static bool is_mentioned(const struct finding_list *l, const char *nic) {
        size_t len = strlen(nic);

        for (size_t i = 0; i < l->n; i++)
                if (startswith(l->items[i].subject, nic) && startswith(l->items[i].subject + len, "→"))
                        return true;
        return false;
}

/* Where some peers have a name on a NIC, a peer without one stands out. */
static int names_missing(const struct path_plan *p, struct finding_list *findings) {
        int r = 0;

        for (size_t i = 0; i < p->n && r == 0; i++) {
                const struct path *x = &p->paths[i], *plain = &p->paths[x->origin];

                if (x->derived && x->error < 0 && plain->error == 0 && !plain->self &&
                    !streq(plain->what.nic, x->what.nic) && has_path(p, x->what.nic))
                        r = not_resolved(findings, x);
        }
        return r;
}

/* A NIC towards which no peer has an address is not proven: that must not go unsaid. */
static int nics_without_peer(const struct path_plan *p, const struct link_table *links, bool asked_for,
                             struct finding_list *findings) {
        bool anything = false, derived = false;
        int r = 0;

        for (size_t i = 0; i < p->n; i++) {
                anything |= p->paths[i].usable;
                derived |= p->paths[i].derived;
        }
        if (!anything || (asked_for && !derived))
                return 0;
        for (size_t i = 0; i < links->n && r == 0; i++) {
                const struct link *l = &links->links[i];
                struct finding f;

                if (!usable_nic(p->intent, l) || has_path(p, l->name) || is_mentioned(findings, l->name))
                        continue;
                check_tell(&f, WORDS_PATH_NIC_ALONE, l->name);
                finding_set(f.found, "not tried: no peer's address on this NIC is known");
                r = finding_list_add(findings, &f);
        }
        return r;
}

int path_plan_route(struct path_plan *p, const struct host *h, const struct link_table *links,
                    bool asked_for, struct finding_list *findings) {
        struct routing r = { .links = links, .intent = p->intent, .findings = findings };
        size_t kept = 0;
        int k = netlink_open(NETLINK_ROUTE, &r.viewer.kernel);

        if (k < 0)
                return k;
        r.viewer.host = h;
        r.viewer.links = links;
        r.viewer.addresses = &r.addresses;
        k = addresses_read(h, &r.addresses);
        for (size_t i = 0; i < p->n && k == 0; i++)
                k = route_one(p, i, &r);
        if (k == 0)
                k = names_missing(p, findings);
        if (k == 0)
                k = nics_without_peer(p, links, asked_for, findings);
        for (size_t i = 0; i < p->n && k == 0; i++)
                if (p->paths[i].usable)
                        p->paths[kept++] = p->paths[i];
        p->n = kept;
        address_table_clear(&r.addresses);
        nl_socket_free(r.viewer.kernel);
        path_viewer_clear(&r.viewer);
        return k;
}
