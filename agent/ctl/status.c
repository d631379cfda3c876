/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl status: what tpu-hostd knows of this host. */
#include <math.h>

#include "clock.h"
#include "ctl.h"
#include "hostd.h"
#include "report.h"
#include "screen.h"
#include "table.h"
#include "words.h"

static void print_line(FILE *out, const char *label, const char *text) {
        fprintf(out, "%-9s", label);
        print_clean(out, text, false);
        fputc('\n', out);
}

void screen_order(const char *word, const json_t *order, FILE *out) {
        char text[640], n[3][FIELD_TEXT_MAX];
        const char *until = field_text(order, "until", n[0]), *reason = field_text(order, "reason", n[1]);

        if (!json_is_object(order))
                return;
        (void) snprintf(text, sizeof(text), "%s by %s%s%s%s%s", word, field_text(order, "by", n[2]),
                        until[0] ? " until " : "", until, reason[0] ? ": " : "", reason);
        print_clean(out, text, false);
        fputc('\n', out);
}

static void print_order(const char *label, const char *word, const json_t *order, FILE *out) {
        if (!json_is_object(order))
                return;
        fprintf(out, "%-9s", label);
        screen_order(word, order, out);
}

void screen_orders(const json_t *s, const char *label, FILE *out) {
        const json_t *drain = json_object_get(s, "drain"), *one;
        size_t i;

        print_order(label, "cordoned", json_object_get(s, "cordon"), out);
        print_order(label, json_is_true(json_object_get(drain, "drained")) ? "drained" : "draining", drain,
                    out);
        print_order(label, "observing", json_object_get(s, "observe"), out);
        if (json_is_true(json_object_get(s, "observe_configured"))) {
                fprintf(out, "%-9s", label);
                fputs("observing: Mode=observe of the configuration\n", out);
        }
        json_array_foreach (json_object_get(s, "silences"), i, one) {
                char word[192], n[2][FIELD_TEXT_MAX];
                const char *subject = field_text(one, "subject", n[0]);

                (void) snprintf(word, sizeof(word), "%s%s%s silenced", field_text(one, "check", n[1]),
                                subject[0] ? ":" : "", subject);
                print_order(label, word, one, out);
        }
}

static void print_who(const json_t *s, usec_t now, FILE *out) {
        const json_t *identity = json_object_get(s, "identity");
        char text[512], n[4][FIELD_TEXT_MAX], span[SPAN_TEXT_MAX];
        const char *slice = field_text(identity, "slice", n[0]),
                   *type = field_text(identity, "accelerator_type", n[1]);
        const char *worker = field_text(identity, "worker_id", n[2]);

        print_line(out, "host", field_text(s, "host", n[3]));
        (void) snprintf(text, sizeof(text), "%s, worker %s, %s", slice[0] ? slice : "not known",
                        worker[0] ? worker : "not known", type[0] ? type : "accelerator type not known");
        print_line(out, "slice", text);
        (void) snprintf(text, sizeof(text), "tpu-hostd %s, up %s", field_text(s, "version", n[0]),
                        span_text(field_age(s, "started", now), span));
        print_line(out, "agent", text);
        if (json_is_integer(json_object_get(s, "jobs")))
                (void) snprintf(text, sizeof(text), "%s running", field_text(s, "jobs", n[1]));
        else
                (void) snprintf(text, sizeof(text),
                                "not known: tpu-launchd does not answer (systemctl status tpu-launchd)");
        print_line(out, "runs", text);
}

/* "events 3 waiting, 1 dropped": what is not yet delivered, and what never will be. */
static void print_class(const char *name, const json_t *c, FILE *out) {
        static const char *const bad[] = { "dropped", "refused", "damaged" };
        char text[256], n[FIELD_TEXT_MAX];
        size_t len;

        (void) snprintf(text, sizeof(text), "%s: %s waiting", name, field_text(c, "kept", n));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                if (json_integer_value(json_object_get(c, bad[i])) > 0) {
                        len = strlen(text);
                        (void) snprintf(text + len, sizeof(text) - len, ", %s %s", field_text(c, bad[i], n),
                                        bad[i]);
                }
        print_line(out, "", text);
}

static void print_uplink(const json_t *s, usec_t now, FILE *out) {
        const json_t *u = json_object_get(s, "uplink");
        char text[768], n[3][FIELD_TEXT_MAX], span[SPAN_TEXT_MAX];
        const char *endpoint = field_text(u, "endpoint", n[0]), *error = field_text(u, "last_error", n[1]),
                   *key;
        double age = field_age(u, "last_ok", now);
        json_t *c;

        if (!endpoint[0])
                (void) snprintf(text, sizeof(text),
                                "no endpoint is configured: records are kept on this host only");
        else if (isnan(age))
                (void) snprintf(text, sizeof(text), "%s %s", endpoint,
                                json_is_true(json_object_get(u, "parked"))
                                        ? "refuses our records; one try a minute"
                                        : "has not answered yet");
        else
                (void) snprintf(
                        text, sizeof(text), "%s, last good answer %s ago%s", endpoint, span_text(age, span),
                        json_is_true(json_object_get(u, "parked")) ? "; it refuses: one try a minute" : "");
        print_line(out, "uplink", text);
        if (error[0]) {
                (void) snprintf(text, sizeof(text), "last error: %s", error);
                print_line(out, "", text);
        }
        if (json_is_false(json_object_get(u, "durable")))
                print_line(out, "", "the spool cannot be written: new records are lost");
        json_object_foreach(json_object_get(u, "classes"), key, c)
                print_class(key, c, out);
}

/* "since:  3 h, got worse 4 times, flapping, last good 3 h ago": of an agent that says so. */
static void print_history(const json_t *reason, usec_t now, FILE *out) {
        double since = field_age(reason, "since", now), good = field_age(reason, "last_good", now);
        json_int_t worsened = json_integer_value(json_object_get(reason, "worsened"));
        char span[SPAN_TEXT_MAX], good_span[SPAN_TEXT_MAX];

        if (isnan(since))
                return;
        fprintf(out, "         since:  %s", span_text(since, span));
        if (worsened > 1)
                fprintf(out, ", got worse %" JSON_INTEGER_FORMAT " times", worsened);
        if (json_is_true(json_object_get(reason, "flapping")))
                fputs(", flapping", out);
        if (isnan(good))
                fputs(", never seen good\n", out);
        else
                fprintf(out, ", last good %s ago\n", span_text(good, good_span));
}

static void print_reasons(const json_t *reasons, usec_t now, FILE *out) {
        const json_t *reason;
        size_t i;

        json_array_foreach(reasons, i, reason) {
                char text[1024], n[5][FIELD_TEXT_MAX];
                const char *subject = field_text(reason, "subject", n[0]),
                           *remedy = field_text(reason, "remedy", n[1]);

                (void) snprintf(text, sizeof(text), "%-7s  %s%s%s: %s", field_text(reason, "verdict", n[2]),
                                field_text(reason, "check", n[3]), subject[0] ? " " : "", subject,
                                field_text(reason, "reason", n[4]));
                print_clean(out, text, false);
                fputc('\n', out);
                print_history(reason, now, out);
                if (remedy[0]) {
                        (void) snprintf(text, sizeof(text), "         to do:  %s", remedy);
                        print_clean(out, text, false);
                        fputc('\n', out);
                }
        }
}

enum verdict status_verdict(const json_t *s) {
        static const struct {
                const char *state;
                enum verdict verdict;
        } states[] = { { "ready", VERDICT_OK }, { "degraded", VERDICT_WARN }, { "unfit", VERDICT_FAIL } };
        char n[FIELD_TEXT_MAX];

        for (size_t i = 0; i < ELEMENTSOF(states); i++)
                if (streq(field_text(s, "state", n), states[i].state))
                        return states[i].verdict;
        return VERDICT_UNKNOWN;
}

void screen_status(const json_t *s, usec_t now, FILE *out) {
        const json_t *reasons = json_object_get(s, "reasons");
        char n[FIELD_TEXT_MAX];
        const char *state = field_text(s, "state", n);

        print_line(out, "state", state[0] ? state : "unknown");
        screen_orders(s, "ordered", out);
        print_who(s, now, out);
        print_uplink(s, now, out);
        if (json_array_size(reasons) > 0)
                fputc('\n', out);
        print_reasons(reasons, now, out);
}

int verb_status(const struct ctl *c, int argc, char *argv[]) {
        bool json = false;
        const struct option_def defs[] = { { "json", NULL, "print JSON", NULL, &json } };
        struct options o = { .program = "tpuctl status",
                             .synopsis = "[--json]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "Asks tpu-hostd how this host is. Exit code: 0 ready, 1 degraded, 2 "
                                        "unfit, 3 unknown or no answer." };
        struct problem problem = { 0 };
        enum verdict v;
        json_t *status;
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        r = hostd_ask(o.root, "/v1/status", false, 5 * USEC_PER_SEC, &status, &problem);
        if (r < 0)
                return problem_complain(&problem);
        v = status_verdict(status);
        if (json)
                return report_print_json(stdout, status) < 0 ? EXIT_NO_ANSWER : verdict_exit_code(v);
        screen_status(status, clock_real(&clock_system), stdout);
        json_decref(status);
        return verdict_exit_code(v);
}
