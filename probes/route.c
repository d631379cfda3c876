/* SPDX-License-Identifier: Apache-2.0 */
/* Data-centre routes: their least retransmission time, where the routes are what carries it, and whether
 * each NIC's traffic leaves by that NIC. */
#include "foreign.h"
#include "plan.h"
#include "source.h"
#include "words.h"

/* In the same words as tpu-netcfg's. */
static int judge_both(const struct intent *i, const struct found *f, struct finding_list *l,
                      struct sink *s) {
        size_t before;
        int r = 0;

        if (i->rto_min > 0)
                r = plan_judge_routes(i, f, l);
        else
                probe_tell(s, WORDS_ROUTE_UNWANTED, NULL, NULL, "nothing is wanted of routes");
        before = l->n;
        if (r == 0)
                r = plan_judge_source(i, f, l);
        if (r == 0 && l->n == before)
                probe_tell(s, WORDS_RULE_UNWANTED, NULL, NULL, "nothing is wanted of rules");
        return r < 0 ? r : plan_judge_others(i, f, l);
}

static int judge_routes(const struct host *h, const struct intent *i, struct found *f, struct sink *s) {
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;
        int r = links_read(h, &f->links);

        if (r < 0)
                return r;
        f->routes_error = routes_read(h, &f->routes);
        f->rules_error = rules_read(h, &f->rules);
        f->addresses_error = addresses_read(h, &f->addresses);
        r = judge_both(i, f, &list, s);
        if (r == 0)
                probe_tell_all(h, s, &list);
        return r;
}

int probe_route(const struct host *h, const struct probe_context *c, struct sink *s) {
        _cleanup_found_ struct found f = FOUND_NULL;

        if (c->intent)
                return judge_routes(h, c->intent, &f, s);
        probe_tell(s, WORDS_ROUTE_NO_PROFILE, NULL, NULL, "%s", "");
        return 0;
}
