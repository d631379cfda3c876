/* SPDX-License-Identifier: Apache-2.0 */
#include "path_report.h"
#include "report.h"
#include "utf8.h"
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

        return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:b, s:I, s:i, s:i, s:i, s:o}", "nic", r->nic,
                         "peer", r->peer, "from", address_text(&r->from, from), "to",
                         address_text(&r->to, to), "mtu", (json_int_t) r->mtu, "answer",
                         answers[r->proof.answer], "direction",
                         directions[r->proof.direction], "exact", r->proof.exact, "passes",
                         (json_int_t) r->proof.passes, "error", -r->proof.error, "echoes",
                         (int) r->proof.echoes, "lost", (int) r->proof.lost, "kernel",
                         view_to_json(&r->view));
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

/* --- Reading: nothing is believed unseen ------------------------------------------------------------ */

static int find_word(const char *const *words, size_t n, const char *word) {
        for (size_t i = 0; i < n; i++)
                if (streq(words[i], word))
                        return (int) i;
        return -1;
}

/* What is wrong with one result, or NULL: its numbers must be such as can have come of one proof. */
static const char *check_numbers(json_int_t mtu, json_int_t passes, const struct path_result *x) {
        const struct proof_result *p = &x->proof;

        if (x->from.sa.sa_family != x->to.sa.sa_family)
                return "\"from\" and \"to\" are of two families";
        if (mtu <= PROOF_SMALL || mtu > UINT16_MAX)
                return "\"mtu\" is no NIC's";
        if (passes < 0 || passes > mtu || (p->answer == PROOF_PASSES && passes != mtu) ||
            (p->answer == PROOF_SMALLER && (passes == 0 || passes == mtu)))
                return "\"passes\" does not go with \"answer\" and \"mtu\"";
        if (p->direction != PROOF_DIRECTION_UNKNOWN && p->answer != PROOF_SMALLER)
                return "\"direction\" does not go with \"answer\"";
        return NULL;
}

static const char *take_result(json_t *o, json_error_t *e, struct path_result *ret) {
        const char *nic, *peer, *from, *to, *answer, *direction;
        struct path_result x = { 0 };
        json_int_t mtu, passes, error;
        struct path_peer named;
        char why[96], word[IF_NAMESIZE + PATH_NAME_MAX];
        int exact, a, d, n;

        if (json_unpack_ex(o, e, 0, "{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:b, s:I, s:I}", "nic", &nic,
                           "peer", &peer, "from", &from, "to", &to, "mtu", &mtu, "answer", &answer,
                           "direction", &direction, "exact", &exact, "passes", &passes, "error", &error) < 0)
                return e->text;
        n = snprintf(word, sizeof(word), "%s=%s", nic, peer);
        if (n < 0 || (size_t) n >= sizeof(word) || path_peer_parse(word, (size_t) n, &named, why) < 0)
                return "\"nic\" or \"peer\" can be no name";
        memcpy(x.nic, named.nic, sizeof(x.nic));
        memcpy(x.peer, named.name, sizeof(x.peer));
        a = find_word(answers, ELEMENTSOF(answers), answer);
        d = find_word(directions, ELEMENTSOF(directions), direction);
        if (address_parse(from, &x.from) < 0 || address_parse(to, &x.to) < 0)
                return "\"from\" or \"to\" is no IP address";
        if (a < 0 || d < 0)
                return "\"answer\" or \"direction\" is no word of this version";
        if (error < 0 || error > 4095) /* MAX_ERRNO of the kernel */
                return "\"error\" is none";
        x.mtu = (uint32_t) mtu;
        x.proof = (struct proof_result){ .answer = (enum proof_answer) a,
                                         .direction = (enum proof_direction) d,
                                         .passes = (uint32_t) passes,
                                         .exact = exact,
                                         .error = (int) -error };
        *ret = x;
        return check_numbers(mtu, passes, &x);
}

static int take_results(json_t *list, struct path_report *ret, char *why) {
        json_error_t e;
        size_t i;
        json_t *o;

        ret->results = calloc(json_array_size(list) + 1, sizeof(*ret->results));
        if (!ret->results)
                return -ENOMEM;
        json_array_foreach (list, i, o) {
                struct path_result x;
                const char *wrong = take_result(o, &e, &x);
                int r;

                if (wrong) {
                        (void) snprintf(why, PATH_REPORT_WHY_MAX, "results[%zu]: %.120s", i, wrong);
                        return -EBADMSG;
                }
                r = path_report_add(ret, &x);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int take_report(json_t *o, struct path_report *ret, char *why) {
        const char *host, *time;
        json_error_t e;
        json_t *list;

        if (json_unpack_ex(o, &e, 0, "{s:s, s:s, s:o}", "host", &host, "time", &time, "results",
                           &list) < 0 ||
            !json_is_array(list) || json_array_size(list) > PROOF_TARGETS_MAX) {
                (void) snprintf(why, PATH_REPORT_WHY_MAX, "it is no report of 'tpuctl check path --json'");
                return -EBADMSG;
        }
        utf8_copy_line(ret->host, sizeof(ret->host), host);
        utf8_copy_line(ret->time, sizeof(ret->time), time);
        return take_results(list, ret, why);
}

int path_report_parse(const char *text, size_t len, struct path_report *ret, size_t *ret_used,
                      char why[static PATH_REPORT_WHY_MAX]) {
        _cleanup_path_report_ struct path_report report = PATH_REPORT_NULL;
        size_t flags = JSON_REJECT_DUPLICATES | (ret_used ? JSON_DISABLE_EOF_CHECK : 0);
        char line[PATH_REPORT_WHY_MAX];
        json_error_t error;
        json_t *o;
        int k;

        if (len > PATH_REPORT_BYTES_MAX) {
                (void) snprintf(why, PATH_REPORT_WHY_MAX, "larger than any report");
                return -E2BIG;
        }
        o = json_loadb(text, len, flags, &error);
        if (!o) {
                (void) snprintf(line, sizeof(line), "line %d: %.100s", error.line, error.text);
                utf8_copy_line(why, PATH_REPORT_WHY_MAX, line);
                return -EBADMSG;
        }
        k = take_report(o, &report, why);
        json_decref(o);
        if (k == -ENOMEM || k == -E2BIG)
                (void) snprintf(why, PATH_REPORT_WHY_MAX, "%s", strerror(-k));
        if (k < 0)
                return k;
        if (ret_used)
                *ret_used = (size_t) error.position;
        *ret = report;
        report = PATH_REPORT_NULL;
        return 0;
}
