/* SPDX-License-Identifier: Apache-2.0 */
#include "path_report.h"
#include "json_text.h"
#include "report.h"
#include "verdict.h"

void path_report_clear(struct path_report *r) {
        finding_list_clear(&r->findings);
        free(r->results);
        *r = PATH_REPORT_NULL;
}

int path_report_add(struct path_report *report, const struct path_result *r) {
        struct path_result *x = &report->results[report->n_results];
        struct finding f;
        int k;

        *x = *r;
        x->finding = report->findings.n;
        path_judge(r, &f);
        k = finding_list_add(&report->findings, &f);
        if (k == 0 && path_judge_loss(r, &f))
                k = finding_list_add(&report->findings, &f);
        if (k == 0 && path_judge_port(r, &f))
                k = finding_list_add(&report->findings, &f);
        report->n_results += k == 0;
        return k;
}

/* --- As JSON ------------------------------------------------------------------------------------------- */

static const char *const answers[] = {
        [PROOF_OPEN] = "open",       [PROOF_PASSES] = "passes", [PROOF_PIECES] = "pieces",
        [PROOF_SMALLER] = "smaller", [PROOF_SILENT] = "silent", [PROOF_REFUSED] = "refused",
};
static const char *const directions[] = {
        [PROOF_DIRECTION_UNKNOWN] = "unknown",
        [PROOF_THERE] = "there",
        [PROOF_BACK] = "back",
};

static const char *port_text(const struct path_port *p) {
        static const char *const words[_PORT_ANSWER_MAX] = {
                [PORT_ANSWERS] = "answers",   [PORT_REFUSES] = "refuses", [PORT_SILENT] = "silent",
                [PORT_REJECTED] = "rejected", [PORT_NO_WAY] = "no way",
        };

        return p->tried ? words[p->answer] : "";
}

/* What the kernel would do: empty or 0 for what it did not say. */
static json_t *view_to_json(const struct path_view *v) {
        char words[ROUTE_WORDS_MAX];

        return json_pack("{s:s, s:I, s:b, s:I, s:I, s:s, s:I}", "route",
                         v->matched ? route_words(&v->route, v->by, words) : "", "route_mtu",
                         (json_int_t) (v->mtu > 0 ? v->mtu : v->nic_mtu), "connected", v->connected, "pmtu",
                         (json_int_t) v->pmtu, "mss", (json_int_t) v->mss, "qdisc", v->qdisc, "dropped",
                         (json_int_t) v->dropped);
}

static json_t *result_to_json(const struct path_result *r) {
        char from[ADDRESS_TEXT_MAX], to[ADDRESS_TEXT_MAX];

        return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:b, s:I, s:i, s:i, s:i, s:s, s:o}",
                         "nic", r->nic,
                         "peer", r->peer, "from", address_text(&r->from, from), "to",
                         address_text(&r->to, to), "mtu", (json_int_t) r->mtu, "answer",
                         answers[r->proof.answer], "direction",
                         directions[r->proof.direction], "exact", r->proof.exact, "passes",
                         (json_int_t) r->proof.passes, "error", -r->proof.error, "echoes",
                         (int) r->proof.echoes, "lost", (int) r->proof.lost, "tcp",
                         port_text(&r->port), "kernel",
                         view_to_json(&r->view));
}

json_t *path_report_to_json(const struct path_report *r) {
        json_t *results = json_array();

        for (size_t i = 0; i < r->n_results; i++)
                results = json_list_add(results, result_to_json(&r->results[i]));
        /* NULL among the values drops the others. */
        return json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:f}", "host", r->host, "time", r->time,
                         "verdict", verdict_name(finding_list_worst(&r->findings)), "checks",
                         finding_list_to_json(&r->findings), "results", results, "paths",
                         (json_int_t) r->n_results, "packets", (json_int_t) r->packets, "seconds",
                         (double) r->duration / (double) USEC_PER_SEC);
}
