/* SPDX-License-Identifier: Apache-2.0 */
#include "pass_lines.h"

#include "log.h"

const char *pass_label(enum op_kind kind) {
        static const char *const labels[] = {
                [OP_SYSCTL] = "",
                [OP_PARAMETER] = "parameter ",
                [OP_MTU] = "MTU of ",
                [OP_ROUTE] = "least RTO of ",
                [OP_RULE] = "rule ",
                [OP_SOURCE_ROUTE] = "route ",
                [OP_MAIN_RULE] = "rule ",
                [OP_NIC_SETTING + NIC_FEATURE] = "feature of ",
                [OP_NIC_SETTING + NIC_PRIVATE_FLAG] = "private_flag of ",
        };

        _Static_assert(ELEMENTSOF(labels) == _OP_KIND_MAX, "every kind has a label");
        return labels[kind];
}

#define LINES_BURST 6u /* and 4 more in a minute: 10 */
#define LINE_EVERY (15 * USEC_PER_SEC)

static void fill_lines(struct netcfg *n) {
        struct line_budget *b = &n->lines;
        usec_t now = host_now(&n->host);
        usec_t fresh = (now - b->filled) / LINE_EVERY;

        if (b->filled == 0 || fresh >= LINES_BURST)
                *b = (struct line_budget) { b->counted, LINES_BURST, b->kept, now };
        else {
                b->tokens = (unsigned) MIN(b->tokens + fresh, (usec_t) LINES_BURST);
                b->filled += fresh * LINE_EVERY;
        }
}

void pass_log_kept(struct netcfg *n) {
        fill_lines(n);
        if (n->lines.kept == 0 || n->lines.tokens < LINES_BURST / 2)
                return;
        log_notice("%u lines about changed settings were left out: there were more than 10 in a minute",
                   n->lines.kept);
        n->lines.kept = 0;
        n->lines.tokens--;
}

bool pass_may_log(struct netcfg *n, bool important) {
        if (!n->lines.counted)
                return true;
        fill_lines(n);
        if (n->lines.tokens <= (important ? 0U : 1U)) {
                n->lines.kept++;
                return false;
        }
        n->lines.tokens--;
        return true;
}
