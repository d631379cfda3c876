/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpuctl events and tpuctl logs: what happened and what runs have printed, on all hosts or some, as the
 * collector has it. Of this host, logs shows the journal.
 */
#include "answer.h"
#include "clock.h"
#include "config.h"
#include "json_text.h"
#include "report.h"
#include "screens.h"
#include "show.h"
#include "verb_words.h"

#define EVENTS_SHOWN 200 /* without since= the collector answers with the newest */
#define LOGS_SHOWN     "1000"
#define LOGS_SHOWN_MAX 10000u
#define FOLLOW_WAIT  25 /* seconds that the collector holds an answer back; it allows 30 */
#define FOLLOW_RETRY 2  /* seconds */
#define PATH_SIZE    4096

/* --- A list of the collector's that grows at its end --------------------------------------------------- */

struct feed {
        const char *program, *list;                /* of the answer: "events", "lines" */
        char path[PATH_SIZE];                      /* what is asked each time */
        const char *first_key, *first_value;       /* of the first call alone; value NULL: nothing */
        int (*print)(const json_t *list, FILE *out); /* -errno */
        struct collector collector;
        int64_t next; /* what stands behind this one; -1: not asked yet */
};

static int feed_complain(const struct feed *f, int error) {
        fprintf(stderr, "%s: the collector's answer cannot be shown: %s\n", f->program, strerror(-error));
        return EXIT_NO_ANSWER;
}

static int feed_path(const struct feed *f, unsigned wait, char path[static PATH_SIZE]) {
        char number[24];
        int r;

        memcpy(path, f->path, PATH_SIZE);
        (void) snprintf(number, sizeof(number), "%" PRIi64, f->next);
        if (f->next < 0)
                r = path_parameter(path, PATH_SIZE, f->first_key, f->first_value);
        else
                r = path_parameter(path, PATH_SIZE, "since", number);
        (void) snprintf(number, sizeof(number), "%u", wait);
        return r == 0 && wait > 0 ? path_parameter(path, PATH_SIZE, "wait", number) : r;
}

/* One answer; what comes next is behind it. */
static int feed_ask(struct feed *f, unsigned wait, json_t **ret, struct problem *problem) {
        char path[PATH_SIZE];
        json_t *answer;
        int r = feed_path(f, wait, path);

        if (r < 0)
                return problem_set(problem, r, NULL, "what is asked for: %s", strerror(-r));
        r = collector_call(&f->collector, NULL, path, NULL, wait * USEC_PER_SEC, &answer, problem);
        if (r < 0)
                return r;
        if (!json_is_array(json_object_get(answer, f->list)) ||
            !json_is_integer(json_object_get(answer, "next"))) {
                json_decref(answer);
                return problem_set(problem, -EPROTO, NULL, "the collector's answer has no %s", f->list);
        }
        f->next = json_integer_value(json_object_get(answer, "next"));
        *ret = answer;
        return 0;
}

/* Prints and drops the answer. Negative: go on; else the exit code. */
static int feed_print(const struct feed *f, json_t *answer) {
        int r = f->print(json_object_get(answer, f->list), stdout);

        json_decref(answer);
        if (r == 0 && fflush(stdout) == EOF)
                r = -errno;
        return r == 0 ? -1 : r == -EPIPE ? 0 : feed_complain(f, r);
}

/* Until somebody ends it. The collector may be away for a while: said once. */
static int feed_follow(struct feed *f) {
        bool away = false;

        for (;;) {
                struct problem problem;
                json_t *answer;
                int r = feed_ask(f, FOLLOW_WAIT, &answer, &problem);

                if (r < 0 && !problem.no_answer)
                        return problem_complain(&problem);
                if (r < 0) {
                        if (!away)
                                fprintf(stderr, "%s: %s; trying again\n", f->program, problem.text);
                        away = true;
                        (void) sleep(FOLLOW_RETRY);
                        continue;
                }
                away = false;
                r = feed_print(f, answer);
                if (r >= 0)
                        return r;
        }
}

/* --- tpuctl events ------------------------------------------------------------------------------------- */

/* "key=value …" of an event's body, in order; texts of several lines (stacks) by their size only. */
static char *body_text(const json_t *body) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        const char *key, *blank = "";
        json_t *v;

        if (!f)
                return NULL;
        /* jansson's iteration wants it writable, and does not write. */
        json_object_foreach((json_t *) (uintptr_t) body, key, v) {
                char n[FIELD_TEXT_MAX];
                const char *s = field_text(body, key, n);

                if (!s[0])
                        continue;
                if (strchr(s, '\n'))
                        fprintf(f, "%s%s=(%zu bytes of text, see --json)", blank, key, strlen(s));
                else
                        fprintf(f, "%s%s=%s", blank, key, s);
                blank = "  ";
        }
        if (json_is_string(body))
                fputs(json_string_value(body), f);
        if (!memstream_close(f, &text)) {
                free(text);
                return NULL;
        }
        return text;
}

/* What is shown of an event in other words than it has. */
static int add_words(json_t *e) {
        _cleanup_free_ char *body = body_text(json_object_get(e, "body"));
        const char *time = json_text_of(e, "time");
        char seconds[CLOCK_TEXT_MAX];

        if (!body)
                return -ENOMEM;
        (void) json_object_set_new(e, "body_text", json_string(body));
        if (strlen(time) == 24 && time[19] == '.') { /* milliseconds are noise here */
                (void) snprintf(seconds, sizeof(seconds), "%.19sZ", time);
                (void) json_object_set_new(e, "time", json_string(seconds));
        }
        return 0;
}

int screen_events(json_t *answer, usec_t now, FILE *out) {
        static const struct column columns[] = {
                { .title = "TIME", .cell = "{time}" },   { .title = "SEVERITY", .cell = "{severity}" },
                { .title = "HOST", .cell = "{host}" },   { .title = "EVENT", .cell = "{name}" },
                { .title = "BODY", .cell = "{body_text}", .shrinks = true },
        };
        const json_t *events = json_object_get(answer, "events");
        json_t *e;
        size_t i;
        int r = json_is_array(events) ? 0 : -EPROTO;

        if (r == 0 && json_array_size(events) == 0) {
                fputs("no events\n", out);
                return 0;
        }
        json_array_foreach(events, i, e)
                if (r == 0)
                        r = add_words(e);
        return r < 0 ? r : show_table(out, events, now, columns, ELEMENTSOF(columns));
}

/* Without columns: they come one by one. */
static int print_event_lines(const json_t *events, FILE *out) {
        json_t *e;
        size_t i;
        int r = 0;

        json_array_foreach(events, i, e) {
                if (r == 0)
                        r = add_words(e);
                show(out, e, 0, "[{time}|-]  [{severity}|-]  [{host}|-]  [{name}|-]  [{body_text}|-]\n");
        }
        return r;
}

static int print_event_objects(const json_t *events, FILE *out) {
        const json_t *e;
        size_t i;

        json_array_foreach(events, i, e)
                if (json_dumpf(e, out, JSON_COMPACT) < 0 || fputc('\n', out) == EOF)
                        return -EIO;
        return 0;
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

/* All since --since, or the newest, as one answer. */
static int ask_events(struct feed *f, json_t **ret, struct problem *problem) {
        json_t *answer, *more = NULL, *list;
        int r = feed_ask(f, 0, &answer, problem);
        size_t n = r < 0 ? 0 : json_array_size(json_object_get(answer, "events"));

        if (r < 0)
                return r;
        /* An answer may also end for its size: the last one is empty. */
        while (r == 0 && n > 0 && f->first_value) {
                r = feed_ask(f, 0, &more, problem);
                if (r < 0)
                        break;
                list = json_object_get(more, "events");
                n = json_array_size(list);
                if (json_array_extend(json_object_get(answer, "events"), list) < 0 ||
                    json_object_set(answer, "next", json_object_get(more, "next")) < 0)
                        r = problem_set(problem, -ENOMEM, NULL, "out of memory");
                json_decref(more);
        }
        if (r < 0)
                json_decref(answer);
        else
                *ret = answer;
        return r;
}

static int show_events(struct feed *f, const struct options *o, bool follow, bool json) {
        struct problem problem;
        json_t *answer;
        int r;

        if (ask_events(f, &answer, &problem) < 0)
                return problem_complain(&problem);
        if (!follow)
                return answer_print(o, answer, &(struct answer_as){ json, screen_events, NULL });
        r = feed_print(f, answer);
        return r >= 0 ? r : feed_follow(f);
}

int verb_events(const struct ctl *c, int argc, char *argv[]) {
        bool json = false, follow = false;
        const char *url = NULL, *since = NULL, *host = NULL, *slice = NULL, *name = NULL;
        const struct option_def defs[] = {
                OPTION_COLLECTOR(&url),
                { "host", "NAME", "events of this host only", &host, NULL },
                { "slice", "NAME", "events of this slice only", &slice, NULL },
                { "name", "NAME", "events of this name only, for example tpu.run.exited", &name, NULL },
                { "since", "TIME", "all since then: a span (90s, 10min, 2h) or 2026-11-21T05:00:00Z", &since,
                  NULL },
                { "follow", NULL, "go on with what comes, one line an event, until interrupted", NULL,
                  &follow },
                { "json", NULL, "print JSON; with --follow one object a line", NULL, &json },
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
        struct feed f = { .program = o.program, .list = "events", .first_key = "from", .next = -1,
                          .path = "/api/v1/events?limit=" COLLECTOR_TEXT(EVENTS_SHOWN) };
        char from[CLOCK_TEXT_MAX];
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        if ((since && since_text(since, from) < 0) || collector_open(&o, url, &f.collector) < 0)
                return EXIT_USAGE;
        f.first_value = since ? from : NULL;
        f.print = json ? print_event_objects : print_event_lines;
        if (path_parameter(f.path, PATH_SIZE, "host", host) < 0 ||
            path_parameter(f.path, PATH_SIZE, "slice", slice) < 0 ||
            path_parameter(f.path, PATH_SIZE, "name", name) < 0) {
                fputs("tpuctl: --host, --slice or --name is too long\n", stderr);
                return EXIT_REFUSED;
        }
        return show_events(&f, &o, follow, json);
}

/* --- tpuctl logs --------------------------------------------------------------------------------------- */

/* "s0/1" or, of a host without a slice, its name. */
#define ORIGIN "[{slice}/{worker_id}|{host}]"

static int print_log_lines(const json_t *lines, FILE *out) {
        const json_t *line;
        size_t i;

        json_array_foreach(lines, i, line) {
                long long missing = json_integer_value(json_object_get(line, "missing"));

                if (missing > 0) {
                        show(out, line, 0, ORIGIN);
                        fprintf(out, ": [%lld line%s did not reach the collector]\n", missing,
                                missing == 1 ? "" : "s");
                }
                show(out, line, 0, ORIGIN ": {text}\n");
        }
        return 0;
}

struct logs_wish {
        const char *run, *url, *lines, *host, *worker;
        bool fleet, follow;
};

static int show_fleet_logs(const struct options *o, const struct logs_wish *wish) {
        struct feed f = { .program = o->program, .list = "lines", .first_key = "limit", .next = -1,
                          .first_value = wish->lines ? wish->lines : LOGS_SHOWN, .print = print_log_lines };
        unsigned long limit = strtoul(f.first_value, NULL, 10);
        struct problem problem;
        json_t *answer;
        int r;

        if (!*f.first_value || strspn(f.first_value, "0123456789") != strlen(f.first_value) || limit < 1 ||
            limit > LOGS_SHOWN_MAX) {
                fprintf(stderr, "tpuctl logs: --lines is a number from 1 to %u, not '%s'\n", LOGS_SHOWN_MAX,
                        f.first_value);
                return EXIT_USAGE;
        }
        if (collector_open(o, wish->url, &f.collector) < 0)
                return EXIT_USAGE;
        (void) snprintf(f.path, PATH_SIZE, "/api/v1/runs/%.63s/logs", wish->run);
        if (path_parameter(f.path, PATH_SIZE, "host", wish->host) < 0 ||
            path_parameter(f.path, PATH_SIZE, "worker", wish->worker) < 0) {
                fputs("tpuctl: --host or --worker is too long\n", stderr);
                return EXIT_REFUSED;
        }
        if (feed_ask(&f, 0, &answer, &problem) < 0)
                return problem_complain(&problem);
        if (json_array_size(json_object_get(answer, "lines")) == 0)
                fprintf(stderr,
                        "tpuctl logs: the collector has no lines of run '%s'%s%s (never there, or dropped "
                        "since: RunLogBytes=, "
                        "RetainDays= of the collector; or RunLogs=no on the hosts)\n",
                        wish->run,
                        wish->worker ? " of worker "
                        : wish->host ? " of host "
                                     : "",
                        wish->worker ? wish->worker
                        : wish->host ? wish->host
                                     : "");
        r = feed_print(&f, answer);
        if (r >= 0)
                return r;
        return wish->follow ? feed_follow(&f) : 0;
}

/* The journal says nothing of a name it does not know: a typing error must not look like a silent run. */
static void warn_unknown(const char *root, const char *name) {
        struct problem problem;
        json_t *answer = NULL;

        if (runs_of_launchd(root, name, &answer, &problem) == 0 &&
            json_array_size(json_object_get(answer, "runs")) == 0)
                fprintf(stderr,
                        "tpuctl logs: there is no run '%s' on this host (see: tpuctl runs); what the "
                        "journal has of an older one follows\n",
                        name);
        json_decref(answer);
}

/* This host's own, which the journal has whole. Returns only when it cannot be run. */
static int show_journal(const struct options *o, const struct logs_wish *wish) {
        static char journalctl[] = "journalctl", by_unit[] = "-u", output[] = "-o", cat[] = "cat",
                    short_follow[] = "-f";
        char unit[80], n[40], *args[] = { journalctl, by_unit, unit, output, cat, NULL, NULL, NULL };
        size_t i = 5;

        if (wish->lines && (!*wish->lines || strspn(wish->lines, "0123456789") != strlen(wish->lines))) {
                fprintf(stderr, "tpuctl logs: --lines is a number, not '%s'\n", wish->lines);
                return EXIT_USAGE;
        }
        (void) snprintf(unit, sizeof(unit), RUN_UNIT_PREFIX "%s.service", wish->run);
        (void) snprintf(n, sizeof(n), "--lines=%.20s", wish->lines ? wish->lines : "");
        if (wish->lines)
                args[i++] = n;
        if (wish->follow)
                args[i] = short_follow;
        warn_unknown(o->root, wish->run);
        (void) execvp(args[0], args);
        fprintf(stderr, "tpuctl logs: journalctl cannot be run: %m\n");
        return EXIT_NO_ANSWER;
}

int verb_logs(const struct ctl *c, int argc, char *argv[]) {
        struct logs_wish wish = { 0 };
        const struct option_def defs[] = {
                { "follow", NULL, "go on with new lines as they come (also: -f)", NULL, &wish.follow },
                { "lines", "N", "the newest N only (also: -n); of the collector by default " LOGS_SHOWN,
                  &wish.lines, NULL },
                { "fleet", NULL, "of all hosts of the run, from the collector", NULL, &wish.fleet },
                { "worker", "SLICE/N", "of this worker, or N of any slice, from the collector", &wish.worker,
                  NULL },
                { "host", "NAME", "of this host, from the collector", &wish.host, NULL },
                OPTION_COLLECTOR(&wish.url),
        };
        struct options o = {
                .program = "tpuctl logs",
                .synopsis = "NAME [-f] [-n N] [--fleet | --worker SLICE/N | --host NAME]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary = "Shows what a run has printed: of this host journalctl -u " RUN_UNIT_PREFIX
                           "NAME.service -o cat,\nwhich asks for the group systemd-journal of who is not "
                           "root; of other hosts what the collector has."
        };
        static char long_follow[] = "--follow", long_lines[] = "--lines";
        struct words w;
        int r;

        for (int i = 1; i < argc; i++)
                if (streq(argv[i], "-f"))
                        argv[i] = long_follow;
                else if (streq(argv[i], "-n"))
                        argv[i] = long_lines;
        r = words_parse(c, &o, argc, argv, 1, 1, &w);
        if (r < 0)
                return options_exit(r);
        if (words_check_run_name(&o, w.items[0]) < 0)
                return EXIT_USAGE;
        wish.run = w.items[0];
        return wish.fleet || wish.url || wish.worker || wish.host ? show_fleet_logs(&o, &wish)
                                                                  : show_journal(&o, &wish);
}
