/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl identity: who this host is, and where each answer comes from. */
#include "ctl.h"
#include "identity.h"
#include "own_identity.h"
#include "report.h"
#include "table.h"
#include "words.h"

static int print_text(const struct identity *i, const struct finding_list *findings) {
        _cleanup_table_ struct table t = TABLE_NULL(3);
        int r = table_add(&t, (const char *const[]) { "FIELD", "FROM", "VALUE" });

        for (enum identity_field f = 0; f < _IDENTITY_FIELD_MAX && r == 0; f++)
                r = table_add(&t, (const char *const[]) { identity_field_name(f), i->fields[f].origin,
                                                         identity_get(i, f) });
        if (r == 0)
                r = table_print(&t, stdout);
        if (r == 0 && findings->n > 0) {
                putchar('\n');
                r = report_print_text(stdout, findings);
        }
        return r;
}

static int print_json(const struct identity *i, const struct finding_list *findings) {
        json_t *v = identity_to_json(i);

        return report_print_json(
                stdout,
                v ? json_pack("{s:o, s:o}", "identity", v, "checks", finding_list_to_json(findings)) : NULL);
}

int verb_identity(const struct ctl *c, int argc, char *argv[]) {
        _cleanup_finding_list_ struct finding_list findings = FINDING_LIST_NULL;
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        _cleanup_host_ struct host h = HOST_NULL;
        bool json = false;
        const struct option_def defs[] = { { "json", NULL, "print JSON", NULL, &json } };
        struct options o = {
                .program = "tpuctl identity",
                .synopsis = "[--json]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary = "Shows who this host is: slice, worker, peers and chips, each with where it "
                           "comes from, and what of it does not\n"
                           "fit together. --config FILE stands for identity.conf. Exit code as of a check."
        };
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        r = host_open(o.root, &h);
        if (r == 0)
                r = own_identity(&h, &o, &identity);
        if (r == 0)
                r = identity_check(&identity, &findings);
        if (r == 0)
                r = json ? print_json(&identity, &findings) : print_text(&identity, &findings);
        if (r < 0) {
                fprintf(stderr, "tpuctl identity: %s%s%s\n", o.config ? o.config : "", o.config ? ": " : "",
                        strerror(-r));
                return EXIT_NO_ANSWER;
        }
        return verdict_exit_code(finding_list_worst(&findings));
}
