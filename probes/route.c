/* SPDX-License-Identifier: Apache-2.0 */
/* The least retransmission time of every data-centre route, where the routes are what carries it. */
#include "emit.h"
#include "paths.h"
#include "plan.h"

static void say(struct sink *s, enum verdict verdict, const char *found, const char *reason,
                const char *remedy) {
        struct finding f;

        finding_init(&f, op_check(OP_ROUTE), NULL);
        f.verdict = verdict;
        finding_set(f.found, "%s", found);
        finding_set(f.reason, "%s", reason);
        finding_set(f.remedy, "%s", remedy);
        s->finding(s, &f);
}

static int judge(const struct host *h, const struct intent *i, struct found *f, struct sink *s) {
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;
        int r;

        r = links_read(h, &f->links);
        if (r < 0)
                return r;
        f->routes_error = routes_read(h, &f->routes);
        r = plan_judge_routes(i, f, &list); /* the same words as tpu-netcfg's */
        for (size_t k = 0; r == 0 && k < list.n; k++) {
                (void) make_printable(list.items[k].subject);
                s->finding(s, &list.items[k]);
        }
        return r;
}

static int run(const struct host *h, const struct probe_context *c, struct sink *s) {
        _cleanup_found_ struct found f = FOUND_NULL;

        if (!c->intent)
                say(s, VERDICT_UNKNOWN, "", "no profile could be read, so it is not known what is wanted",
                    "ls -l " PATH_PROFILES);
        else if (c->intent->rto_min == 0)
                say(s, VERDICT_OK, "nothing is wanted of routes",
                    "the profile wants none, or net.ipv4.tcp_rto_min_us stands for all routes", "");
        else
                return judge(h, c->intent, &f, s);
        return 0;
}

const struct probe probe_route = {
        .name = "route",
        .summary = "data-centre routes: least retransmission time",
        .group = GROUP_NETWORK,
        .interval = 30 * USEC_PER_SEC,
        .timeout = 2 * USEC_PER_SEC,
        .run = run,
};
