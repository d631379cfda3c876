/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse-path filters: with several data-centre NICs a strict one drops packets. */
#include "plan.h"
#include "words.h"

static int judge_filters(const struct host *h, const struct intent *i, struct found *f, struct sink *s) {
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;
        int r = links_read(h, &f->links);

        if (r < 0)
                return r;
        plan_read_rp_filters(h, i, f);
        r = plan_judge_rp_filters(i, f, &list); /* the same words as tpu-netcfg's */
        if (r == 0)
                probe_tell_all(h, s, &list);
        if (r == 0 && list.n == 0)
                probe_tell(s, WORDS_RP_FILTER_ANY, "rp_filter", NULL, "any will do");
        return r;
}

int probe_rp_filter(const struct host *h, const struct probe_context *c, struct sink *s) {
        _cleanup_found_ struct found f = FOUND_NULL;

        if (c->intent)
                return judge_filters(h, c->intent, &f, s);
        probe_tell(s, WORDS_SYSCTL_NO_PROFILE, "rp_filter", NULL, "%s", "");
        return 0;
}
