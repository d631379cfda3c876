/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl uplink: what waits on this host, what was sent and lost, and what the endpoints say. */
#include "answer.h"
#include "clock.h"
#include "config.h"
#include "json_text.h"
#include "show.h"
#include "texts.h"
#include "verb_words.h"

#define POLL (200 * USEC_PER_MSEC)

/* "3 400 malformed, 1 byte limit" */
static json_t *dropped_words(json_t *reasons) {
        char text[256] = "";
        const char *why;
        json_t *n;

        json_object_foreach(reasons, why, n)
                if (json_integer_value(n) > 0)
                        text_append(text, sizeof(text), ", ", "%" JSON_INTEGER_FORMAT " %s",
                                    json_integer_value(n), why);
        return json_string(text);
}

static int print_classes(json_t *classes, usec_t now, FILE *out) {
        static const struct column columns[] = {
                { .title = "CLASS", .cell = "{name}" },
                { .title = "WAITING", .cell = "{kept}" },
                { .title = "OLDEST", .cell = "{oldest:age}" },
                { .title = "DISK", .cell = "{bytes:bytes}" },
                { .title = "SENT", .cell = "{sent}" },
                { .title = "PACKED", .cell = "[to {packed:percent}]" },
                { .title = "RETRIED", .cell = "{retried}" },
                { .title = "DROPPED", .cell = "{dropped_words}", .shrinks = true },
        };
        json_t *c;
        size_t i;

        json_array_foreach(classes, i, c) {
                uint64_t body = json_number_of(c, "body_bytes");

                (void) json_object_set_new(c, "dropped_words",
                                           dropped_words(json_object_get(c, "dropped_by")));
                if (body > 0)
                        (void) json_object_set_new(
                                c, "packed",
                                json_real((double) json_number_of(c, "wire_bytes") / (double) body));
        }
        return show_table(out, classes, now, columns, ELEMENTSOF(columns));
}

static int print_endpoints(const json_t *u, json_t *classes, usec_t now, FILE *out) {
        static const struct column columns[] = {
                { .title = "ENDPOINT", .cell = "{endpoint.url}" },
                { .title = "CLASS", .cell = "{class}" },
                { .title = "STATE", .cell = "{route.state}" },
                { .title = "SENT", .cell = "{route.sent}" },
                { .title = "NEXT TRY", .cell = "[in {route.until:left}]" },
                { .title = "WHY", .cell = "[{route.why}|{endpoint.dns_error}]", .shrinks = true },
        };
        json_t *endpoints = json_object_get(u, "endpoints"), *rows = json_array(), *endpoint, *c;
        size_t i, k;
        int r = 0;

        json_array_foreach(endpoints, i, endpoint)
                json_array_foreach(classes, k, c) {
                        json_t *route = json_object_get(endpoint, json_text_of(c, "name"));

                        if (json_array_append_new(rows, json_pack("{s:O, s:O, s:O?}", "endpoint", endpoint,
                                                                  "class", json_object_get(c, "name"),
                                                                  "route", route)) < 0)
                                r = -ENOMEM;
                }
        if (r == 0 && json_array_size(endpoints) == 0)
                fputs("no endpoint is configured: records are kept on this host only\n", out);
        else if (r == 0)
                r = show_table(out, rows, now, columns, ELEMENTSOF(columns));
        json_decref(rows);
        return r;
}

static int screen_uplink(json_t *u, usec_t now, FILE *out) {
        json_auto_t *classes = show_named(json_object_get(u, "classes"));
        int r = print_endpoints(u, classes, now, out);

        fputc('\n', out);
        if (r == 0)
                r = print_classes(classes, now, out);
        if (json_is_object(json_object_get(u, "certificate")))
                show(out, u, now,
                     "\n[certificate: {certificate.error}"
                     "|{certificate.until!}certificate: none of this host's own"
                     "|certificate {certificate.file}: until {certificate.until}, {certificate.until:left} "
                     "left|certificate {certificate.file}: EXPIRED at {certificate.until}]\n");
        show(out, u, now,
             "[set aside, of another machine: {aside.spool}[, {aside.kept} records wait]\n]"
             "[{durable=false}the spool cannot be written (tpuctl check daemon.disk): [{spool_error}]\n]");
        return r;
}

/* Whether records go out. */
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
                uint64_t first = json_number_of(c, "first_seq");

                if (i == CLASSES_MAX)
                        break;
                if (!g->set)
                        g->next_seq[i] = json_number_of(c, "next_seq");
                if (first > 0 && first < g->next_seq[i] && json_number_of(c, "kept") > 0)
                        left += MIN(json_number_of(c, "kept"), g->next_seq[i] - first);
                i++;
        }
        g->set = true;
        return left;
}

static int drain(const char *root, usec_t span) {
        usec_t end = clock_boot(&clock_system) + span;
        struct problem problem;
        struct goal goal = { 0 };

        for (;;) {
                json_auto_t *status = NULL;
                uint64_t left;

                if (hostd_call(root, NULL, "/v1/status", HOSTD_TIMEOUT, &status, &problem) < 0)
                        return problem_complain(&problem);
                left = drain_left(json_object_get(status, "uplink"), &goal);
                if (left == 0)
                        break;
                if (clock_boot(&clock_system) >= end) {
                        fprintf(stderr,
                                "tpuctl: %" PRIu64 " record%s in the spool still wait%s, and will go out "
                                "later\n",
                                left, left == 1 ? "" : "s", left == 1 ? "s" : "");
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
                OPTION_JSON(&json),
                { "drain", NULL, "wait until all that is here now is delivered, at most SPAN (default 30s)",
                  NULL, &wait },
        };
        struct options o = VERB_OPTIONS(
                "uplink", "[--json] | --drain [SPAN]", defs,
                "Shows the records that wait on this host, were sent or lost, and what each endpoint "
                "answered. Exit code: 0 delivering, or drained; 1 the spool cannot be written; 2 no "
                "endpoint takes a class, or not drained in time; 3 no answer.");
        usec_t span = 30 * USEC_PER_SEC;
        struct problem problem;
        json_auto_t *status = NULL;
        struct words w;
        char why[96];
        int r = words_parse(c, &o, argc, argv, 0, 1, &w);

        if (r < 0)
                return options_exit(r);
        if (w.n > 0 && (!wait || config_parse_usec(w.items[0], &span, why) < 0))
                return options_fail("tpuctl", EXIT_USAGE, "'%s' is no span of --drain (30s, 2min)",
                                    w.items[0]);
        if (wait)
                return drain(o.root, span);
        if (hostd_call(o.root, NULL, "/v1/status", HOSTD_TIMEOUT, &status, &problem) < 0)
                return problem_complain(&problem);
        return answer_print(&o, json_incref(json_object_get(status, "uplink")),
                            &(struct answer_as){ json, screen_uplink, uplink_verdict });
}
