/* SPDX-License-Identifier: Apache-2.0 */
/* Every sysctl that the profile wants: its value as the kernel has it. */
#include "plan.h"
#include "words.h"

int probe_sysctl(const struct host *h, const struct probe_context *c, struct sink *s) {
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;
        _cleanup_found_ struct found f = FOUND_NULL;
        int r = 0;

        if (!c->intent)
                probe_tell(s, WORDS_SYSCTL_NO_PROFILE, NULL, NULL, "%s", "");
        else if (c->intent->n_sysctls == 0)
                probe_tell(s, WORDS_SYSCTL_UNWANTED, NULL, NULL, "profile %s wants none",
                           c->intent->profile);
        else {
                plan_read_sysctls(h, c->intent, &f);
                r = plan_judge_sysctls(c->intent, &f, &list); /* the same words as tpu-netcfg's */
                if (r == 0)
                        probe_tell_all(h, s, &list);
        }
        return r;
}
