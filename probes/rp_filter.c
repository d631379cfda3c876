/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse-path filters: with several data-centre NICs a strict one drops packets. */
#include "probe.h"
#include "paths.h"
#include "plan.h"

static void say(struct sink *s, enum verdict verdict, const char *found, const char *reason,
                const char *remedy) {
        struct finding f;

        finding_init(&f, "sysctl", "rp_filter");
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
        plan_read_rp_filters(h, i, f);
        r = plan_judge_rp_filters(i, f, &list); /* the same words as tpu-netcfg's */
        for (size_t k = 0; r == 0 && k < list.n; k++) {
                (void) make_printable(list.items[k].subject);
                s->finding(s, &list.items[k]);
        }
        if (r == 0 && list.n == 0)
                say(s, VERDICT_OK, "any will do", "fewer than two data-centre NICs", "");
        return r;
}

int probe_rp_filter(const struct host *h, const struct probe_context *c, struct sink *s) {
        _cleanup_found_ struct found f = FOUND_NULL;

        if (c->intent)
                return judge(h, c->intent, &f, s);
        say(s, VERDICT_UNKNOWN, "", "no profile could be read, so it is not known what is wanted",
            "ls -l " PATH_PROFILES);
        return 0;
}
