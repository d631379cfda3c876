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
        report->n_results += k == 0;
        return k;
}

/* --- The fields of a result, both ways -------------------------------------------------------------- */

enum kind {
        TEXT,    /* char[size]: letters, digits and marks */
        ADDRESS, /* union path_address */
        NUMBER,  /* uint32_t up to size */
        WORD,    /* an enum of size values */
        FLAG,    /* bool */
};

static const char *const answers[] = {
        [PROOF_OPEN] = "open",       [PROOF_PASSES] = "passes", [PROOF_PIECES] = "pieces",
        [PROOF_SMALLER] = "smaller", [PROOF_SILENT] = "silent", [PROOF_REFUSED] = "refused",
};

static const char *const directions[] = {
        [PROOF_DIRECTION_UNKNOWN] = "unknown",
        [PROOF_THERE] = "there",
        [PROOF_BACK] = "back",
};

static const struct field {
        const char *name;
        enum kind kind;
        size_t at, size;
        const char *marks;
        const char *const *words;
} fields[] = {
#define AT(member) offsetof(struct path_result, member)
        { "nic", TEXT, AT(nic), IF_NAMESIZE, ".-_@", NULL },
        { "peer", TEXT, AT(peer), PATH_NAME_MAX, ".-_:", NULL },
        { "from", ADDRESS, AT(from), 0, NULL, NULL },
        { "to", ADDRESS, AT(to), 0, NULL, NULL },
        { "mtu", NUMBER, AT(mtu), UINT16_MAX, NULL, NULL },
        { "answer", WORD, AT(proof.answer), ELEMENTSOF(answers), NULL, answers },
        { "direction", WORD, AT(proof.direction), ELEMENTSOF(directions), NULL, directions },
        { "exact", FLAG, AT(proof.exact), 0, NULL, NULL },
        { "passes", NUMBER, AT(proof.passes), UINT16_MAX, NULL, NULL },
#undef AT
};
_Static_assert(sizeof(enum proof_answer) == sizeof(unsigned) &&
                       sizeof(enum proof_direction) == sizeof(unsigned),
               "words are read and written as numbers");

static json_t *field_to_json(const struct field *f, const struct path_result *r) {
        const void *at = (const char *) r + f->at;
        char text[ADDRESS_TEXT_MAX];

        switch (f->kind) {
        case TEXT:
                return json_string(at);
        case ADDRESS:
                return json_string(address_text(at, text));
        case NUMBER:
                return json_integer(*(const uint32_t *) at);
        case WORD:
                return json_string(f->words[*(const unsigned *) at]);
        case FLAG:
                return json_boolean(*(const bool *) at);
        }
        return NULL;
}

static json_t *result_to_json(const struct path_result *r) {
        json_t *o = json_pack("{s:I}", "error", (json_int_t) -r->proof.error);

        for (size_t i = 0; o && i < ELEMENTSOF(fields); i++)
                if (json_object_set_new(o, fields[i].name, field_to_json(&fields[i], r)) < 0) {
                        json_decref(o);
                        return NULL;
                }
        return o;
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

static int take_text(const struct reader *r, const json_t *o, const char *field, const char *marks,
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
                       uint32_t *ret) {
        const json_t *v = json_object_get(o, field);

        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > most)
                return bad(r, field, "not a number in its bounds");
        *ret = (uint32_t) json_integer_value(v);
        return 0;
}

static int take_field(const struct reader *r, const json_t *o, const struct field *f,
                      struct path_result *ret) {
        const json_t *v = json_object_get(o, f->name);
        const char *s = json_string_value(v);
        void *at = (char *) ret + f->at;

        switch (f->kind) {
        case TEXT:
                return take_text(r, o, f->name, f->marks, at, f->size);
        case ADDRESS:
                return s && address_parse(s, at) == 0 ? 0 : bad(r, f->name, "not an IP address");
        case NUMBER:
                return take_number(r, o, f->name, (json_int_t) f->size, at);
        case WORD:
                for (unsigned i = 0; s && i < f->size; i++)
                        if (streq(f->words[i], s)) {
                                *(unsigned *) at = i;
                                return 0;
                        }
                return bad(r, f->name, "not a word of this version");
        case FLAG:
                *(bool *) at = json_is_true(v);
                return json_is_boolean(v) ? 0 : bad(r, f->name, "neither true nor false");
        }
        return -EBADMSG;
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

static int take_results(struct reader r, const json_t *list, struct path_report *ret) {
        const json_t *o;

        if (!json_is_array(list))
                return bad(&r, "results", "no list: it is no report of 'tpuctl check path --json'");
        if (json_array_size(list) > PROOF_TARGETS_MAX)
                return bad(&r, "results", "more than any proof has");
        ret->results = calloc(json_array_size(list) + 1, sizeof(*ret->results));
        if (!ret->results)
                return -ENOMEM;
        r.list = "results";
        json_array_foreach (list, r.index, o) {
                struct path_result x = { 0 };
                uint32_t error = 0;
                int k = 0;

                for (size_t i = 0; k == 0 && i < ELEMENTSOF(fields); i++)
                        k = take_field(&r, o, &fields[i], &x);
                if (k == 0)
                        k = take_number(&r, o, "error", 4095, &error); /* MAX_ERRNO of the kernel */
                x.proof.error = -(int) error;
                if (k == 0)
                        k = check_result(&r, &x);
                if (k == 0)
                        k = path_report_add(ret, &x);
                if (k < 0)
                        return k;
        }
        return 0;
}

static void one_line(char *s) {
        for (char *c = s; *c; c++)
                if (*c == '\n' || *c == '\t')
                        *c = ' ';
}

static bool is_result(const struct path_report *report, const char *subject) {
        for (size_t i = 0; i < report->n_results; i++)
                if (streq(report->findings.items[report->results[i].finding].subject, subject))
                        return true;
        return false;
}

/* What was not tried is in no result, but must not be lost: its texts are cut at their size, on one line. */
static int take_checks(struct reader r, const json_t *list, struct path_report *ret) {
        const json_t *o;

        if (!json_is_array(list))
                return bad(&r, "checks", "no list");
        if (json_array_size(list) > FINDING_LIST_MAX)
                return bad(&r, "checks", "more than any report has");
        r.list = "checks";
        json_array_foreach (list, r.index, o) {
                const char *verdict = json_string_value(json_object_get(o, "verdict"));
                struct finding f;
                int k;
                const struct {
                        const char *field;
                        char *buf;
                        size_t size;
                } texts[] = {
                        { "subject", f.subject, sizeof(f.subject) },
                        { "found", f.found, sizeof(f.found) },
                        { "wanted", f.wanted, sizeof(f.wanted) },
                        { "source", f.source, sizeof(f.source) },
                        { "reason", f.reason, sizeof(f.reason) },
                        { "remedy", f.remedy, sizeof(f.remedy) },
                };

                finding_init(&f, PATH_CHECK, NULL);
                if (!verdict || verdict_parse(verdict, &f.verdict) < 0)
                        return bad(&r, "verdict", "no verdict");
                for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                        utf8_copy(texts[i].buf, texts[i].size,
                                  json_string_value(json_object_get(o, texts[i].field)));
                        one_line(texts[i].buf);
                }
                k = is_result(ret, f.subject) ? 0 : finding_list_add(&ret->findings, &f);
                if (k < 0)
                        return k;
        }
        return 0;
}

static int take_report(const json_t *o, struct path_report *ret, char *why) {
        const struct reader r = { .why = why };
        uint32_t packets = 0;
        double seconds = json_number_value(json_object_get(o, "seconds"));
        int k = take_results(r, json_object_get(o, "results"), ret);

        if (k == 0)
                k = take_checks(r, json_object_get(o, "checks"), ret);
        if (k == 0)
                k = take_text(&r, o, "host", ".-_", ret->host, sizeof(ret->host));
        if (k == 0)
                k = take_text(&r, o, "time", ":.+-", ret->time, sizeof(ret->time));
        if (k == 0)
                k = take_number(&r, o, "packets", UINT32_MAX, &packets);
        if (k == 0 && !(seconds >= 0 && seconds < 3600))
                k = bad(&r, "seconds", "not a number in its bounds");
        if (k < 0)
                return k;
        ret->packets = packets;
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
