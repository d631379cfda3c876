/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl events: what happened lately, on all hosts or some. */
#include <time.h>

#include "clock.h"
#include "collector.h"
#include "config.h"
#include "ctl.h"
#include "report.h"
#include "screen.h"
#include "words.h"

#define EVENTS_SHOWN 200 /* without since= the collector answers with the newest */
#define FOLLOW_WAIT  25  /* seconds that the collector holds an answer back; it allows 30 */
#define FOLLOW_RETRY 2   /* seconds */
#define PATH_SIZE    4096

struct asking {
        struct collector collector;
        const char *host, *slice, *name;
        char from[CLOCK_TEXT_MAX]; /* empty: the newest */
        bool json, follow;
        int64_t next; /* events behind this one; -1: not asked yet */
};

static int complain(int error) {
        fprintf(stderr, "tpuctl events: the collector's answer cannot be shown: %s\n", strerror(-error));
        return EXIT_NO_ANSWER;
}

/* A span before now ("10min", "2h") as RFC 3339, or a time as it is: the collector checks it. */
static int since_text(const char *value, char ret[static CLOCK_TEXT_MAX]) {
        usec_t span, now = clock_real(&clock_system);
        char why[96];

        if (strlen(value) >= 20 && strlen(value) < CLOCK_TEXT_MAX && value[4] == '-') {
                (void) snprintf(ret, CLOCK_TEXT_MAX, "%s", value);
                return 0;
        }
        if (config_parse_usec(value, &span, why) < 0) {
                fprintf(stderr,
                        "tpuctl events: --since '%s': neither a span (90s, 10min, 2h) nor a time "
                        "(2026-11-21T05:00:00Z)\n",
                        value);
                return -EINVAL;
        }
        (void) clock_text(now > span ? now - span : 0, ret);
        return 0;
}

static int make_path(const struct asking *a, unsigned wait, char path[static PATH_SIZE]) {
        char number[24];
        int r;

        (void) snprintf(path, PATH_SIZE, "/api/v1/events?limit=" COLLECTOR_TEXT(EVENTS_SHOWN));
        r = collector_parameter(path, PATH_SIZE, "host", a->host);
        if (r == 0)
                r = collector_parameter(path, PATH_SIZE, "slice", a->slice);
        if (r == 0)
                r = collector_parameter(path, PATH_SIZE, "name", a->name);
        if (r == 0 && a->next < 0 && a->from[0])
                r = collector_parameter(path, PATH_SIZE, "from", a->from);
        (void) snprintf(number, sizeof(number), "%lld", (long long) a->next);
        if (r == 0 && a->next >= 0)
                r = collector_parameter(path, PATH_SIZE, "since", number);
        (void) snprintf(number, sizeof(number), "%u", wait);
        return r == 0 && wait > 0 ? collector_parameter(path, PATH_SIZE, "wait", number) : r;
}

/* One answer; *ret_n is how many events it has. */
static int ask(struct asking *a, unsigned wait, json_t **ret, size_t *ret_n, struct problem *problem) {
        char path[PATH_SIZE];
        json_t *answer;
        int r;

        r = make_path(a, wait, path);
        if (r < 0)
                return problem_set(problem, r, NULL, "--host, --slice or --name: %s", strerror(-r));
        r = collector_ask(&a->collector, path, wait * USEC_PER_SEC, &answer, problem);
        if (r < 0)
                return r;
        if (!json_is_array(json_object_get(answer, "events")) ||
            !json_is_integer(json_object_get(answer, "next"))) {
                json_decref(answer);
                return problem_set(problem, -EPROTO, NULL, "the collector's answer has no events");
        }
        a->next = json_integer_value(json_object_get(answer, "next"));
        *ret_n = json_array_size(json_object_get(answer, "events"));
        *ret = answer;
        return 0;
}

/* All since --since, or the newest, as one answer. */
static int ask_first(struct asking *a, json_t **ret, struct problem *problem) {
        json_t *answer;
        size_t n;
        int r;

        r = ask(a, 0, &answer, &n, problem);
        while (r == 0 && n > 0 &&
               a->from[0]) { /* an answer may also end for its size: the last one is empty */
                json_t *more;

                r = ask(a, 0, &more, &n, problem);
                if (r < 0)
                        break;
                r = json_array_extend(json_object_get(answer, "events"), json_object_get(more, "events"));
                if (r == 0)
                        r = json_object_set(answer, "next", json_object_get(more, "next"));
                json_decref(more);
                if (r < 0)
                        (void) problem_set(problem, -ENOMEM, NULL, "out of memory");
        }
        if (r < 0) {
                json_decref(answer);
                return r;
        }
        *ret = answer;
        return 0;
}

static int show_lines(const struct asking *a, const json_t *events) {
        const json_t *e;
        size_t i;
        int r = 0;

        json_array_foreach(events, i, e) {
                if (a->json)
                        r = json_dumpf(e, stdout, JSON_COMPACT) < 0 || fputc('\n', stdout) == EOF ? -EIO : 0;
                else
                        r = screen_event_line(e, stdout);
                if (r < 0)
                        return r;
        }
        return fflush(stdout) == EOF ? -errno : 0;
}

/* Until somebody ends it. The collector may be away for a while: said once. */
static int follow(struct asking *a) {
        bool away = false;

        for (;;) {
                struct problem problem;
                json_t *answer;
                size_t n;
                int r;

                r = ask(a, FOLLOW_WAIT, &answer, &n, &problem);
                if (r < 0 && !problem.no_answer)
                        return problem_complain(&problem);
                if (r < 0) {
                        if (!away)
                                fprintf(stderr, "tpuctl events: %s; trying again\n", problem.text);
                        away = true;
                        (void) sleep(FOLLOW_RETRY);
                        continue;
                }
                away = false;
                r = show_lines(a, json_object_get(answer, "events"));
                json_decref(answer);
                if (r < 0)
                        return r == -EPIPE ? 0 : complain(r);
        }
}

static int run(struct asking *a) {
        struct problem problem;
        json_t *answer;
        int r;

        r = ask_first(a, &answer, &problem);
        if (r < 0)
                return problem_complain(&problem);
        if (a->follow)
                r = show_lines(a, json_object_get(answer, "events"));
        else if (a->json)
                r = report_print_json(stdout, json_incref(answer));
        else
                r = screen_events(json_object_get(answer, "events"), stdout);
        json_decref(answer);
        if (r < 0)
                return complain(r);
        return a->follow ? follow(a) : 0;
}

int verb_events(const struct ctl *c, int argc, char *argv[]) {
        struct asking a = { .next = -1 };
        const char *url = NULL, *since = NULL;
        const struct option_def defs[] = {
                { "collector", "URL",
                  "where the collector's API is; default: tpuctl.conf, else " COLLECTOR_DEFAULT, &url,
                  NULL },
                { "host", "NAME", "events of this host only", &a.host, NULL },
                { "slice", "NAME", "events of this slice only", &a.slice, NULL },
                { "name", "NAME", "events of this name only, for example tpu.job.exited", &a.name, NULL },
                { "since", "TIME", "all since then: a span (90s, 10min, 2h) or 2026-11-21T05:00:00Z", &since,
                  NULL },
                { "follow", NULL, "go on with what comes, one line an event, until interrupted", NULL,
                  &a.follow },
                { "json", NULL, "print JSON; with --follow one object a line", NULL, &a.json },
        };
        struct options o = {
                .program = "tpuctl events",
                .synopsis = "[--collector URL] [--host NAME] [--slice NAME] [--name NAME] [--since TIME] "
                            "[--follow] [--json]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary = "Shows the newest " COLLECTOR_TEXT(
                        EVENTS_SHOWN) " events that the collector has, or all since a time, newest last.",
        };
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        if ((since && since_text(since, a.from) < 0) || collector_open(&o, url, &a.collector) < 0)
                return EXIT_USAGE;
        return run(&a);
}
