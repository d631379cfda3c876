/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl events: what happened on all hosts or some, as the collector has it. */
#include "feed.h"

#include "clock.h"
#include "config.h"
#include "json_text.h"
#include "report.h"
#include "screens.h"
#include "show.h"
#include "verb_words.h"

#define EVENTS_SHOWN 200 /* without since= the collector answers with the newest */

/* --- A list of the collector's that grows at its end --------------------------------------------------- */

static int feed_complain(const struct feed *f, int error) {
        return options_fail(f->program, EXIT_NO_ANSWER, "the collector's answer cannot be shown: %s",
                            strerror(-error));
}

static int feed_path(const struct feed *f, unsigned wait, char path[static FEED_PATH_SIZE]) {
        char number[24];
        int r;

        memcpy(path, f->path, FEED_PATH_SIZE);
        (void) snprintf(number, sizeof(number), "%" PRIi64, f->next);
        if (f->next < 0)
                r = path_parameter(path, FEED_PATH_SIZE, f->first_key, f->first_value);
        else
                r = path_parameter(path, FEED_PATH_SIZE, "since", number);
        (void) snprintf(number, sizeof(number), "%u", wait);
        return r == 0 && wait > 0 ? path_parameter(path, FEED_PATH_SIZE, "wait", number) : r;
}

int feed_ask(struct feed *f, unsigned wait, json_t **ret, struct problem *problem) {
        char path[FEED_PATH_SIZE];
        json_auto_t *answer = NULL;
        int r = feed_path(f, wait, path);

        if (r < 0)
                return problem_set(problem, r, NULL, "what is asked for: %s", strerror(-r));
        r = collector_call(&f->collector, NULL, path, NULL, wait * USEC_PER_SEC, &answer, problem);
        if (r < 0)
                return r;
        if (!json_is_array(json_object_get(answer, f->list)) ||
            !json_is_integer(json_object_get(answer, "next")))
                return problem_set(problem, -EPROTO, NULL, "the collector's answer has no %s", f->list);
        f->next = json_integer_value(json_object_get(answer, "next"));
        *ret = TAKE_PTR(answer);
        return 0;
}

int feed_print(const struct feed *f, json_t *answer) {
        int r = f->print(json_object_get(answer, f->list), stdout);

        json_decref(answer);
        if (r == 0 && fflush(stdout) == EOF)
                r = -errno;
        return r == 0 ? -1 : r == -EPIPE ? 0 : feed_complain(f, r);
}

int feed_follow(struct feed *f) {
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
        return memstream_close(f, &text);
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
        int r = 0;

        json_array_foreach(events, i, e)
                if (r == 0)
                        r = add_words(e);
        return r < 0 ? r : show_list(out, events, now, columns, ELEMENTSOF(columns), "no events\n");
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
        if (config_parse_usec(value, &span, why) < 0)
                return options_fail("tpuctl events", -EINVAL,
                                    "--since '%s': neither a span (90s, 10min, 2h) nor a time "
                                    "(2026-11-21T05:00:00Z)", value);
        (void) clock_text(now > span ? now - span : 0, ret);
        return 0;
}

/* All since --since, or the newest, as one answer. */
static int ask_events(struct feed *f, json_t **ret, struct problem *problem) {
        json_auto_t *answer = NULL;
        int r = feed_ask(f, 0, &answer, problem);
        size_t n = r < 0 ? 0 : json_array_size(json_object_get(answer, "events"));

        if (r < 0)
                return r;
        /* An answer may also end for its size: the last one is empty. */
        while (n > 0 && f->first_value) {
                json_auto_t *more = NULL;
                json_t *list;

                r = feed_ask(f, 0, &more, problem);
                if (r < 0)
                        return r;
                list = json_object_get(more, "events");
                n = json_array_size(list);
                if (json_array_extend(json_object_get(answer, "events"), list) < 0 ||
                    json_object_set(answer, "next", json_object_get(more, "next")) < 0)
                        return problem_set(problem, -ENOMEM, NULL, "out of memory");
        }
        *ret = TAKE_PTR(answer);
        return 0;
}

static int show_events(struct feed *f, const struct options *o, bool follow, bool json) {
        struct problem problem;
        json_t *answer = NULL;
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
        struct options o = VERB_OPTIONS(
                "events",
                "[--collector URL] [--host NAME] [--slice NAME] [--name NAME] [--since TIME] [--follow] "
                "[--json]",
                defs, "Shows the newest " AS_TEXT(EVENTS_SHOWN)
                      " events that the collector has, or all since a time, newest last.");
        struct feed f = { .program = o.program, .list = "events", .first_key = "from", .next = -1,
                          .path = "/api/v1/events?limit=" AS_TEXT(EVENTS_SHOWN) };
        char from[CLOCK_TEXT_MAX];
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 0, &w);

        if (r < 0)
                return options_exit(r);
        if ((since && since_text(since, from) < 0) || collector_open(&o, url, &f.collector) < 0)
                return EXIT_USAGE;
        f.first_value = since ? from : NULL;
        f.print = json ? print_event_objects : print_event_lines;
        if (path_parameter(f.path, FEED_PATH_SIZE, "host", host) < 0 ||
            path_parameter(f.path, FEED_PATH_SIZE, "slice", slice) < 0 ||
            path_parameter(f.path, FEED_PATH_SIZE, "name", name) < 0)
                return options_fail("tpuctl", EXIT_REFUSED, "--host, --slice or --name is too long");
        return show_events(&f, &o, follow, json);
}
