/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl uplink: what waits on this host, what was sent and lost, and what the endpoints say. */
#include <math.h>

#include "clock.h"
#include "config.h"
#include "ctl.h"
#include "hostd.h"
#include "report.h"
#include "screen.h"
#include "table.h"
#include "words.h"

#define POLL (200 * USEC_PER_MSEC)
#define BYTES_TEXT_MAX 32

static uint64_t whole(const json_t *o, const char *key) {
        json_int_t n = json_integer_value(json_object_get(o, key));

        return n > 0 ? (uint64_t) n : 0;
}

static const char *bytes_text(uint64_t n, char buf[static BYTES_TEXT_MAX]) {
        if (n < 10 * 1024)
                (void) snprintf(buf, BYTES_TEXT_MAX, "%" PRIu64 " B", n);
        else if (n < 10 * 1024 * 1024)
                (void) snprintf(buf, BYTES_TEXT_MAX, "%" PRIu64 " KiB", n / 1024);
        else
                (void) snprintf(buf, BYTES_TEXT_MAX, "%" PRIu64 " MiB", n / 1024 / 1024);
        return buf;
}

/* "3 refused: 400 malformed, 1 byte limit"; "-" for none. */
static const char *dropped_text(json_t *c, char *buf, size_t size) {
        const char *why;
        size_t len = 0;
        json_t *n;

        buf[0] = '\0';
        json_object_foreach(json_object_get(c, "dropped_by"), why, n) {
                if (json_integer_value(n) <= 0 || len >= size)
                        continue;
                len += (size_t) snprintf(buf + len, size - len, "%s%" JSON_INTEGER_FORMAT " %s",
                                         len > 0 ? ", " : "", json_integer_value(n), why);
        }
        return buf[0] ? buf : "-";
}

static int print_classes(const json_t *u, usec_t now, FILE *out) {
        static const char *const heads[] = { "CLASS", "WAITING", "OLDEST",  "DISK",
                                             "SENT",  "PACKED",  "RETRIED", "DROPPED" };
        _cleanup_table_ struct table t = TABLE_NULL(ELEMENTSOF(heads));
        const char *name;
        json_t *c;
        int r;

        r = table_add(&t, heads);
        json_object_foreach(json_object_get(u, "classes"), name, c) {
                char n[3][FIELD_TEXT_MAX], span[SPAN_TEXT_MAX], disk[BYTES_TEXT_MAX], packed[BYTES_TEXT_MAX],
                        dropped[256];
                uint64_t body = whole(c, "body_bytes");
                const char *cells[] = { name,
                                        field_text(c, "kept", n[0]),
                                        span_text(field_age(c, "oldest", now), span),
                                        bytes_text(whole(c, "bytes"), disk),
                                        field_text(c, "sent", n[1]),
                                        packed,
                                        field_text(c, "retried", n[2]),
                                        dropped_text(c, dropped, sizeof(dropped)) };

                packed[0] = '\0';
                if (body > 0)
                        (void) snprintf(packed, sizeof(packed), "to %.0f %%",
                                        100.0 * (double) whole(c, "wire_bytes") / (double) body);
                if (r >= 0)
                        r = table_add(&t, cells);
        }
        return r < 0 ? r : table_print(&t, out);
}

/* "in 40 s" until something that is still to come. */
static const char *until_text(const json_t *route, usec_t now, char buf[static SPAN_TEXT_MAX + 3]) {
        char span[SPAN_TEXT_MAX];
        double left = field_left(route, "until", now);

        if (isnan(left) || left < 0)
                return "";
        (void) snprintf(buf, SPAN_TEXT_MAX + 3, "in %s", span_text(left, span));
        return buf;
}

static int add_routes(struct table *t, const json_t *endpoint, json_t *classes, usec_t now) {
        char n[4][FIELD_TEXT_MAX], until[SPAN_TEXT_MAX + 3];
        const char *name;
        json_t *c;
        int r = 0;

        json_object_foreach(classes, name, c) {
                const json_t *route = json_object_get(endpoint, name);
                const char *why = field_text(route, "why", n[0]);
                const char *cells[] = { field_text(endpoint, "url", n[1]),
                                        name,
                                        field_text(route, "state", n[2]),
                                        field_text(route, "sent", n[3]),
                                        until_text(route, now, until),
                                        why[0] ? why : field_text(endpoint, "dns_error", n[0]) };

                if (r >= 0)
                        r = table_add(t, cells);
        }
        return r;
}

static int print_endpoints(const json_t *u, usec_t now, FILE *out) {
        static const char *const heads[] = { "ENDPOINT", "CLASS", "STATE", "SENT", "NEXT TRY", "WHY" };
        _cleanup_table_ struct table t = TABLE_NULL(ELEMENTSOF(heads));
        const json_t *endpoints = json_object_get(u, "endpoints"), *endpoint;
        size_t i;
        int r;

        if (json_array_size(endpoints) == 0) {
                fprintf(out, "no endpoint is configured: records are kept on this host only\n");
                return 0;
        }
        r = table_add(&t, heads);
        json_array_foreach(endpoints, i, endpoint)
                if (r >= 0)
                        r = add_routes(&t, endpoint, json_object_get(u, "classes"), now);
        return r < 0 ? r : table_print(&t, out);
}

static void print_certificate(const json_t *u, usec_t now, FILE *out) {
        const json_t *c = json_object_get(u, "certificate");
        char text[1024], n[4][FIELD_TEXT_MAX], span[SPAN_TEXT_MAX];
        const char *error = field_text(c, "error", n[0]), *until = field_text(c, "until", n[1]);
        double left = field_left(c, "until", now);

        if (!json_is_object(c))
                return;
        if (error[0])
                (void) snprintf(text, sizeof(text), "certificate: %s", error);
        else if (!until[0])
                (void) snprintf(text, sizeof(text), "certificate: none of this host's own");
        else if (left <= 0)
                (void) snprintf(text, sizeof(text), "certificate %s: EXPIRED at %s",
                                field_text(c, "file", n[2]), until);
        else
                (void) snprintf(text, sizeof(text), "certificate %s: until %s, %s left",
                                field_text(c, "file", n[2]), until, span_text(left, span));
        print_clean(out, text, false);
        fputc('\n', out);
}

static int screen_uplink(const json_t *u, usec_t now, FILE *out) {
        char n[FIELD_TEXT_MAX];
        int r;

        r = print_endpoints(u, now, out);
        if (r < 0)
                return r;
        fputc('\n', out);
        r = print_classes(u, now, out);
        if (r < 0)
                return r;
        if (json_is_object(json_object_get(u, "certificate")))
                fputc('\n', out);
        print_certificate(u, now, out);
        if (json_is_false(json_object_get(u, "durable"))) {
                fputs("the spool cannot be written, new records are lost: ", out);
                print_clean(out, field_text(u, "spool_error", n), false);
                fputc('\n', out);
        }
        return 0;
}

/* Its "uplink": whether records go out, and the screen. */
static enum verdict uplink_verdict(const json_t *u) {
        if (json_is_true(json_object_get(u, "parked")))
                return VERDICT_FAIL;
        return json_is_false(json_object_get(u, "durable")) ? VERDICT_WARN : VERDICT_OK;
}

/* --- --drain ------------------------------------------------------------------------------------------- */

#define CLASSES_MAX 8
/* What was there when the waiting began: later records do not prolong it. */
struct goal {
        bool set;
        uint64_t next_seq[CLASSES_MAX];
};

/* How many of the goal's records still wait. Sequences may have gaps, the count of what waits has none. */
static uint64_t drain_left(const json_t *u, struct goal *g) {
        uint64_t left = 0;
        const char *name;
        size_t i = 0;
        json_t *c;

        json_object_foreach(json_object_get(u, "classes"), name, c) {
                uint64_t first = whole(c, "first_seq");

                if (i == CLASSES_MAX)
                        break;
                if (!g->set)
                        g->next_seq[i] = whole(c, "next_seq");
                if (first > 0 && first < g->next_seq[i] && whole(c, "kept") > 0)
                        left += MIN(whole(c, "kept"), g->next_seq[i] - first);
                i++;
        }
        g->set = true;
        return left;
}

static int drain(const char *root, usec_t span, struct problem *problem) {
        usec_t end = clock_boot(&clock_system) + span;
        struct goal goal = { 0 };
        json_t *status;
        uint64_t left;
        int r;

        for (;;) {
                r = hostd_ask(root, "/v1/status", false, 5 * USEC_PER_SEC, &status, problem);
                if (r < 0)
                        return problem_complain(problem);
                left = drain_left(json_object_get(status, "uplink"), &goal);
                json_decref(status);
                if (left == 0)
                        break;
                if (clock_boot(&clock_system) >= end) {
                        fprintf(stderr,
                                "tpuctl: %" PRIu64 " records still wait; they stay in the spool and go out "
                                "later\n",
                                left);
                        return verdict_exit_code(VERDICT_FAIL);
                }
                (void) usleep(POLL);
        }
        printf("everything that was there is delivered\n");
        return 0;
}

int verb_uplink(const struct ctl *c, int argc, char *argv[]) {
        bool json = false, wait = false;
        const struct option_def defs[] = {
                { "json", NULL, "print JSON", NULL, &json },
                { "drain", NULL, "wait until all that is here now is delivered, at most SPAN (default 30s)",
                  NULL, &wait },
        };
        struct options o = {
                .program = "tpuctl uplink",
                .synopsis = "[--json] | --drain [SPAN]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary = "What waits on this host, what was sent and lost, and what the endpoints "
                           "say. Exit code: 0 delivering, or drained; 1 the spool cannot be written; "
                           "2 no endpoint takes a class, or not drained in time; 3 no answer."
        };
        struct problem problem = { 0 };
        usec_t span = 30 * USEC_PER_SEC;
        json_t *status, *u;
        enum verdict v;
        struct words w;
        char why[96];
        int r;

        r = words_parse(c, &o, argc, argv, 0, 1, &w);
        if (r < 0)
                return options_exit(r);
        if (w.n > 0 && (!wait || config_parse_usec(w.items[0], &span, why) < 0)) {
                fprintf(stderr, "tpuctl: '%s' is no span of --drain (30s, 2min)\n", w.items[0]);
                return EXIT_USAGE;
        }
        if (wait)
                return drain(o.root, span, &problem);
        r = hostd_ask(o.root, "/v1/status", false, 5 * USEC_PER_SEC, &status, &problem);
        if (r < 0)
                return problem_complain(&problem);
        u = json_object_get(status, "uplink");
        v = uplink_verdict(u);
        if (json)
                r = report_print_json(stdout, json_incref(u));
        else
                r = screen_uplink(u, clock_real(&clock_system), stdout);
        json_decref(status);
        return r < 0 ? EXIT_NO_ANSWER : verdict_exit_code(v);
}
