/* SPDX-License-Identifier: Apache-2.0 */
#include "path_report.h"
#include "proof_words.h"
#include "report.h"
#include "verdict.h"

void path_report_clear(struct path_report *r) {
        finding_list_clear(&r->findings);
        free(r->results);
        *r = PATH_REPORT_NULL;
}

struct path_facts path_result_facts(const struct path_result *r) {
        return (struct path_facts){
                .nic = r->nic, .name = r->peer, .from = &r->from, .to = &r->to, .mtu = r->mtu
        };
}

static json_t *result_to_json(const struct path_result *r) {
        char from[ADDRESS_TEXT_MAX], to[ADDRESS_TEXT_MAX];

        return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:I, s:b, s:I}", "nic", r->nic, "peer", r->peer,
                         "from", address_text(&r->from, from), "to", address_text(&r->to, to), "mtu",
                         (json_int_t) r->mtu, "answer", proof_answer_word(r->proof.answer), "direction",
                         proof_direction_word(r->proof.direction), "passes", (json_int_t) r->proof.passes,
                         "exact", (int) r->proof.exact, "error", (json_int_t) -r->proof.error);
}

json_t *path_report_to_json(const struct path_report *r) {
        json_t *results = json_array();

        for (size_t i = 0; results && i < r->n_results; i++)
                if (json_array_append_new(results, result_to_json(&r->results[i])) < 0) {
                        json_decref(results);
                        return NULL;
                }
        /* NULL among the values drops the others. */
        return json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:f}", "host", r->host, "time", r->time,
                         "verdict", verdict_name(finding_list_worst(&r->findings)), "checks",
                         finding_list_to_json(&r->findings), "results", results, "paths",
                         (json_int_t) r->n_results, "packets", (json_int_t) r->packets, "seconds",
                         (double) r->duration / (double) USEC_PER_SEC);
}
