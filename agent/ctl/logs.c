/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl logs: what a run has printed, here by tpu-launchd, or on all its hosts by the collector. */
#include "feed.h"
#include "json_text.h"
#include "logs.h"
#include "show.h"
#include "table.h"
#include "utf8.h"
#include "verb_words.h"

#define LOGS_SHOWN     "1000"
#define LOGS_FLEET_MAX 10000
#define LOGS_HERE_MAX  1000000
#define PLACE_MAX      1024 /* of a page's end */
#define ANSWER_TIME    15   /* seconds besides the wait */

struct logs_wish {
        const char *run, *url, *lines, *host, *worker;
        bool fleet, follow;
        unsigned long last; /* 0: all that there is */
};

/* --- Of all hosts -------------------------------------------------------------------------------------- */

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

static int show_fleet_logs(const struct options *o, const struct logs_wish *wish) {
        struct feed f = { .program = o->program, .list = "lines", .first_key = "limit", .next = -1,
                          .first_value = wish->lines ? wish->lines : LOGS_SHOWN, .print = print_log_lines };
        struct problem problem;
        json_t *answer;
        int r;

        if (collector_open(o, wish->url, &f.collector) < 0)
                return EXIT_USAGE;
        (void) snprintf(f.path, FEED_PATH_SIZE, "/api/v1/runs/%.63s/logs", wish->run);
        if (path_parameter(f.path, FEED_PATH_SIZE, "host", wish->host) < 0 ||
            path_parameter(f.path, FEED_PATH_SIZE, "worker", wish->worker) < 0)
                return options_fail("tpuctl", EXIT_REFUSED, "--host or --worker is too long");
        if (feed_ask(&f, 0, &answer, &problem) < 0)
                return problem_complain(&problem);
        if (json_array_size(json_object_get(answer, "lines")) == 0)
                fprintf(stderr,
                        "tpuctl logs: the collector has no lines of run '%s'%s%s: it printed none, was "
                        "started without tpuctl, its hosts have RunLogs=no, or the lines were dropped "
                        "(RunLogBytes=, RetainDays= of the collector)\n",
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

/* --- Of this host -------------------------------------------------------------------------------------- */

static void print_text(const ProtobufCBinaryData *text) {
        _cleanup_free_ char *copy = calloc(1, text->len + 1);

        for (size_t i = 0; copy && i < text->len; i++) /* a NUL byte would end it */
                copy[i] = (char) (text->data[i] ? text->data[i] : '\1');
        if (copy)
                print_clean(stdout, copy, true);
}

static int ask_lines(const struct options *o, const Local__LinesRequest *m, unsigned seconds,
                     ProtobufCMessage **ret, struct problem *problem) {
        return launchd_ask(o->root, LOCAL__KIND__KIND_LINES_REQUEST, &m->base, LOCAL__KIND__KIND_LINES_REPLY,
                           &local__lines_reply__descriptor, seconds * USEC_PER_SEC, ret, problem);
}

/* One page; m then asks for the next. Negative: go on; else the exit code. */
static int show_page(const struct logs_wish *wish, const Local__LinesReply *reply, Local__LinesRequest *m,
                     char next[static PLACE_MAX]) {
        struct problem problem = { 0 };
        int code = -1;

        if (strlen(reply->next) >= PLACE_MAX) {
                (void) launchd_garbled(&problem);
                return problem_complain(&problem);
        }
        print_text(&reply->text);
        memcpy(next, reply->next, strlen(reply->next) + 1);
        m->after = next;
        m->wait_usec = wish->follow && !reply->more ? FOLLOW_WAIT * USEC_PER_SEC : 0;
        if (fflush(stdout) == EOF)
                code = errno == EPIPE ? 0 : EXIT_REFUSED;
        else if (reply->ended[0] && wish->follow) {
                fprintf(stderr, "tpuctl logs: run %s has ended: ", wish->run);
                print_clean(stderr, reply->ended, false);
                fputc('\n', stderr);
                code = 0;
        } else if (!reply->more && !wish->follow)
                code = 0;
        return code;
}

/* From tpu-launchd, which reads the journal for the run's user. One that is being followed goes on when
 * tpu-launchd is started again. */
static int show_here(const struct options *o, const struct logs_wish *wish) {
        Local__LinesRequest m = LOCAL__LINES_REQUEST__INIT;
        char next[PLACE_MAX] = "";
        bool away = false;
        int code = -1;

        m.name = wire_text(wish->run);
        m.last = (uint32_t) wish->last;
        while (code < 0) {
                _cleanup_launchd_reply_ ProtobufCMessage *reply = NULL;
                struct problem problem;
                int r = ask_lines(o, &m, FOLLOW_WAIT + ANSWER_TIME, &reply, &problem);

                if (r >= 0) {
                        away = false;
                        code = show_page(wish, (const Local__LinesReply *) reply, &m, next);
                } else if (!problem.no_answer || m.wait_usec == 0)
                        code = problem_complain(&problem);
                else {
                        if (!away)
                                fprintf(stderr, "tpuctl logs: %s; trying again\n", problem.text);
                        away = true;
                        (void) sleep(FOLLOW_RETRY);
                }
        }
        return code;
}

int logs_show_here(const struct options *o, const char *run, unsigned long last) {
        return show_here(o, &(struct logs_wish){ .run = run, .last = last });
}

static json_t *take_lines(const struct options *o, Local__LinesRequest *m, struct problem *problem) {
        _cleanup_launchd_reply_ ProtobufCMessage *answer = NULL;
        const Local__LinesReply *reply;
        json_t *list;

        if (ask_lines(o, m, ANSWER_TIME, &answer, problem) < 0)
                return NULL;
        reply = (const Local__LinesReply *) answer;
        list = json_array();
        for (size_t at = 0, n; at < reply->text.len; at += n + 1) {
                char *line = (char *) reply->text.data + at, *end = memchr(line, '\n', reply->text.len - at);

                n = end ? (size_t) (end - line) : reply->text.len - at;
                (void) utf8_scrub(line, n);
                (void) json_array_append_new(list, json_stringn(line, n)); /* without memory: fewer */
        }
        return list;
}

json_t *logs_take_here(const struct options *o, const char *run, unsigned last, struct problem *problem) {
        Local__LinesRequest m = LOCAL__LINES_REQUEST__INIT;

        m.name = wire_text(run);
        m.last = last;
        return take_lines(o, &m, problem);
}

json_t *logs_take_kept(const struct options *o, const char *run, const char *kept, struct problem *problem) {
        Local__LinesRequest m = LOCAL__LINES_REQUEST__INIT;

        m.name = wire_text(run);
        m.kept = wire_text(kept);
        return take_lines(o, &m, problem);
}

/* --- The verb ------------------------------------------------------------------------------------------ */

static int parse_last(struct logs_wish *wish, bool fleet) {
        unsigned long max = fleet ? LOGS_FLEET_MAX : LOGS_HERE_MAX;
        const char *text = wish->lines ? wish->lines : LOGS_SHOWN;

        wish->last = streq(text, "all") && !fleet ? 0 : strtoul(text, NULL, 10);
        if (streq(text, "all") ? !fleet : strspn(text, "0123456789") == strlen(text) && wish->last >= 1 &&
                                                  wish->last <= max)
                return 0;
        return options_fail("tpuctl logs", -EINVAL, "--lines is a number from 1 to %lu%s, not '%s'", max,
                            fleet ? "" : " or all", text);
}

int verb_logs(const struct ctl *c, int argc, char *argv[]) {
        struct logs_wish wish = { 0 };
        const struct option_def defs[] = {
                { "follow", NULL, "go on with new lines as they come (also: -f)", NULL, &wish.follow },
                { "lines", "N", "the newest N (also: -n), by default " LOGS_SHOWN "; of this host also: all",
                  &wish.lines, NULL },
                { "fleet", NULL, "of all hosts of the run, from the collector", NULL, &wish.fleet },
                { "worker", "SLICE/N", "of this worker, or N of any slice, from the collector", &wish.worker,
                  NULL },
                { "host", "NAME", "of this host, from the collector", &wish.host, NULL },
                OPTION_COLLECTOR(&wish.url),
        };
        struct options o = VERB_OPTIONS(
                "logs", "NAME [-f] [-n N] [--fleet | --worker SLICE/N | --host NAME]", defs,
                "Shows what a run has printed: of this host from the journal, to its user and to who may "
                "read the\n"
                "journal; of other hosts what the collector has.");
        static char long_follow[] = "--follow", long_lines[] = "--lines";
        struct words w;
        bool fleet;
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
        fleet = wish.fleet || wish.url || wish.worker || wish.host;
        if (parse_last(&wish, fleet) < 0)
                return EXIT_USAGE;
        if (wish.follow)
                words_at_interrupt("tpuctl logs: run %s goes on; end it: tpuctl stop %s%s", wish.run,
                                   fleet ? "--fleet " : "", wish.run);
        return fleet ? show_fleet_logs(&o, &wish) : show_here(&o, &wish);
}
