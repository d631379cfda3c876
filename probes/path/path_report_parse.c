/* SPDX-License-Identifier: Apache-2.0 */
#include "path_report.h"
#include "proof_words.h"
#include "utf8.h"
#include "verdict.h"

/* Where the reader stands, for what it says. */
struct reader {
        char *why;
        const char *list; /* "results", "checks"; NULL: the report itself */
        size_t index;
};

static int bad(const struct reader *r, const char *field, const char *what) {
        if (r->list)
                (void) snprintf(r->why, PATH_REPORT_WHY_MAX, "%s[%zu].%s: %s", r->list, r->index, field,
                                what);
        else
                (void) snprintf(r->why, PATH_REPORT_WHY_MAX, "%s: %s", field, what);
        return -EBADMSG;
}

/* A text of letters, digits and the given marks. */
static int take_word(const struct reader *r, const json_t *o, const char *field, const char *marks,
                     char *buf, size_t size) {
        const char *s = json_string_value(json_object_get(o, field));

        if (!s)
                return bad(r, field, "no text");
        if (strlen(s) >= size)
                return bad(r, field, "too long");
        for (const char *c = s; *c; c++)
                if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                      strchr(marks, *c)))
                        return bad(r, field, "holds what does not belong there");
        (void) snprintf(buf, size, "%s", s);
        return 0;
}

static int take_number(const struct reader *r, const json_t *o, const char *field, json_int_t most,
                       json_int_t *ret) {
        const json_t *v = json_object_get(o, field);

        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > most)
                return bad(r, field, "not a number in its bounds");
        *ret = json_integer_value(v);
        return 0;
}

static int take_address(const struct reader *r, const json_t *o, const char *field, union path_address *ret) {
        const char *s = json_string_value(json_object_get(o, field));

        return s && address_parse(s, ret) == 0 ? 0 : bad(r, field, "not an IP address");
}

/* Numbers that cannot have come of one proof. */
static int check_result(const struct reader *r, const struct path_result *x) {
        const struct proof_result *p = &x->proof;

        if (x->from.sa.sa_family != x->to.sa.sa_family)
                return bad(r, "to", "not of the family of \"from\"");
        if (x->mtu <= PROOF_SMALL)
                return bad(r, "mtu", "smaller than any NIC's");
        if (p->passes > x->mtu || (p->answer == PROOF_PASSES && p->passes != x->mtu) ||
            (p->answer == PROOF_SMALLER && (p->passes == 0 || p->passes == x->mtu)))
                return bad(r, "passes", "does not go with \"answer\" and \"mtu\"");
        if (p->direction != PROOF_DIRECTION_UNKNOWN && p->answer != PROOF_SMALLER)
                return bad(r, "direction", "does not go with \"answer\"");
        return 0;
}

static int take_proof(const struct reader *r, const json_t *o, struct proof_result *ret) {
        const char *answer = json_string_value(json_object_get(o, "answer"));
        const char *direction = json_string_value(json_object_get(o, "direction"));
        const json_t *exact = json_object_get(o, "exact");
        json_int_t passes, error;
        int k;

        if (!answer || proof_answer_parse(answer, &ret->answer) < 0)
                return bad(r, "answer", "not a word of this version");
        if (!direction || proof_direction_parse(direction, &ret->direction) < 0)
                return bad(r, "direction", "not a word of this version");
        if (!json_is_boolean(exact))
                return bad(r, "exact", "neither true nor false");
        ret->exact = json_is_true(exact);
        k = take_number(r, o, "passes", UINT16_MAX, &passes);
        if (k == 0)
                k = take_number(r, o, "error", 4095, &error); /* MAX_ERRNO of the kernel */
        if (k < 0)
                return k;
        ret->passes = (uint32_t) passes;
        ret->error = -(int) error;
        return 0;
}

static int take_result(const struct reader *r, const json_t *o, struct path_result *ret) {
        struct path_result x = { 0 };
        json_int_t mtu = 0;
        int k;

        k = take_word(r, o, "nic", ".-_@", x.nic, sizeof(x.nic));
        if (k == 0)
                k = take_word(r, o, "peer", ".-_:", x.peer, sizeof(x.peer));
        if (k == 0)
                k = take_address(r, o, "from", &x.from);
        if (k == 0)
                k = take_address(r, o, "to", &x.to);
        if (k == 0)
                k = take_number(r, o, "mtu", UINT16_MAX, &mtu);
        if (k == 0)
                k = take_proof(r, o, &x.proof);
        x.mtu = (uint32_t) mtu;
        if (k == 0)
                k = check_result(r, &x);
        if (k == 0)
                *ret = x;
        return k;
}

static int add(struct path_report *report, const struct finding *f) {
        return finding_list_add(&report->findings, f);
}

static int take_results(struct reader r, const json_t *list, struct path_report *ret) {
        struct finding f;
        const json_t *o;
        int k = 0;

        if (!json_is_array(list))
                return bad(&r, "results", "no list: it is no report of 'tpuctl check path --json'");
        if (json_array_size(list) > PROOF_TARGETS_MAX)
                return bad(&r, "results", "more than any proof has");
        ret->results = calloc(json_array_size(list) + 1, sizeof(*ret->results));
        if (!ret->results)
                return -ENOMEM;
        r.list = "results";
        json_array_foreach (list, r.index, o) {
                struct path_result *x = &ret->results[ret->n_results];
                struct path_facts facts;

                k = take_result(&r, o, x);
                if (k < 0)
                        return k;
                x->finding = ret->findings.n;
                facts = path_result_facts(x);
                path_judge(&facts, &x->proof, &f);
                k = add(ret, &f);
                if (k < 0)
                        return k;
                ret->n_results++;
        }
        return 0;
}

static void one_line(char *s) {
        for (char *c = s; *c; c++)
                if (*c == '\n' || *c == '\t')
                        *c = ' ';
}

/* Cut at its size, on one line. */
static void take_text(const json_t *o, const char *field, char *buf, size_t size) {
        utf8_copy(buf, size, json_string_value(json_object_get(o, field)));
        one_line(buf);
}

static bool is_result(const struct path_report *report, const char *subject) {
        for (size_t i = 0; i < report->n_results; i++)
                if (streq(report->findings.items[report->results[i].finding].subject, subject))
                        return true;
        return false;
}

/* What was not tried is in no result, but must not be lost. */
static int take_checks(struct reader r, const json_t *list, struct path_report *ret) {
        struct finding f;
        const json_t *o;

        if (!json_is_array(list))
                return bad(&r, "checks", "no list");
        if (json_array_size(list) > FINDING_LIST_MAX)
                return bad(&r, "checks", "more than any report has");
        r.list = "checks";
        json_array_foreach (list, r.index, o) {
                const char *verdict = json_string_value(json_object_get(o, "verdict"));
                int k;

                finding_init(&f, PATH_CHECK, NULL);
                if (!verdict || verdict_parse(verdict, &f.verdict) < 0)
                        return bad(&r, "verdict", "no verdict");
                take_text(o, "subject", f.subject, sizeof(f.subject));
                if (is_result(ret, f.subject))
                        continue;
                take_text(o, "found", f.found, sizeof(f.found));
                take_text(o, "wanted", f.wanted, sizeof(f.wanted));
                take_text(o, "source", f.source, sizeof(f.source));
                take_text(o, "reason", f.reason, sizeof(f.reason));
                take_text(o, "remedy", f.remedy, sizeof(f.remedy));
                k = add(ret, &f);
                if (k < 0)
                        return k;
        }
        return 0;
}

static int take_report(const json_t *o, struct path_report *ret, char *why) {
        const struct reader r = { .why = why };
        json_int_t packets = 0;
        double seconds;
        int k;

        k = take_results(r, json_object_get(o, "results"), ret);
        if (k == 0)
                k = take_checks(r, json_object_get(o, "checks"), ret);
        if (k == 0)
                k = take_word(&r, o, "host", ".-_", ret->host, sizeof(ret->host));
        if (k == 0)
                k = take_word(&r, o, "time", ":.+-", ret->time, sizeof(ret->time));
        if (k == 0)
                k = take_number(&r, o, "packets", UINT32_MAX, &packets);
        seconds = json_number_value(json_object_get(o, "seconds"));
        if (k == 0 && !(seconds >= 0 && seconds < 3600))
                k = bad(&r, "seconds", "not a number in its bounds");
        if (k < 0)
                return k;
        ret->packets = (size_t) packets;
        ret->duration = (usec_t) (seconds * (double) USEC_PER_SEC);
        return 0;
}

int path_report_parse(const char *text, size_t len, struct path_report *ret, size_t *ret_used,
                      char why[static PATH_REPORT_WHY_MAX]) {
        _cleanup_path_report_ struct path_report report = PATH_REPORT_NULL;
        size_t flags = JSON_REJECT_DUPLICATES | (ret_used ? JSON_DISABLE_EOF_CHECK : 0);
        json_error_t error;
        json_t *o;
        int k;

        if (len > PATH_REPORT_BYTES_MAX) {
                (void) snprintf(why, PATH_REPORT_WHY_MAX, "larger than any report");
                return -E2BIG;
        }
        o = json_loadb(text, len, flags, &error);
        if (!o) {
                (void) snprintf(why, PATH_REPORT_WHY_MAX, "line %d: %.100s", error.line, error.text);
                (void) utf8_scrub(why, strlen(why));
                one_line(why);
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
