/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl top: this host, or the fleet, in one screen that is drawn again and again. */
#include "answer.h"
#include "chips.h"
#include "clock.h"
#include "live.h"
#include "screens.h"
#include "show.h"
#include "verb_words.h"

#define OTHER_LINES 12 /* titles, sums and gaps of the fleet's screen */

struct top {
        struct options o;
        bool fleet;
        struct collector collector;
};

/* --- This host ----------------------------------------------------------------------------------------- */

static int print_part(const struct top *t, const char *path,
                      int (*screen)(json_t *answer, usec_t now, FILE *out)) {
        struct problem problem;
        json_t *answer;

        if (hostd_call(t->o.root, NULL, path, HOSTD_TIMEOUT, &answer, &problem) < 0)
                return problem_complain(&problem);
        return answer_print(&t->o, answer, &(struct answer_as){ false, screen, NULL });
}

static int draw_host(const struct top *t) {
        int r = print_part(t, "/v1/status", screen_status);

        if (r != 0)
                return r;
        fputc('\n', stdout);
        r = print_part(t, "/v1/runs", screen_host_runs);
        fputc('\n', stdout);
        return MAX(r, chips_print(&t->o, false));
}

/* --- The fleet ----------------------------------------------------------------------------------------- */

/* The first of a list in an answer of the collector; the list itself is borrowed from *ret. */
static int ask_list(struct top *t, const char *path, const char *key, json_t **ret) {
        struct problem problem;
        json_auto_t *answer = NULL;

        if (collector_call(&t->collector, NULL, path, NULL, 0, &answer, &problem) < 0)
                return problem_complain(&problem);
        if (json_is_array(json_object_get(answer, key))) {
                *ret = json_incref(json_object_get(answer, key));
                return 0;
        }
        fprintf(stderr, "tpuctl top: the collector's answer has no %s\n", key);
        return EXIT_NO_ANSWER;
}

static void cut_list(json_t *list, size_t n) {
        while (json_array_size(list) > n)
                (void) json_array_remove(list, json_array_size(list) - 1);
}

/* The worst states first; who is ready is in the sums of its slice. */
static int ask_odd(struct top *t, size_t n, json_t **ret) {
        static const char *const states[] = { "missing", "silent", "unfit", "degraded", "unknown" };
        json_auto_t *all = json_array();

        for (size_t i = 0; i < ELEMENTSOF(states) && json_array_size(all) < n; i++) {
                char path[64];
                json_auto_t *hosts = NULL;
                int r;

                (void) snprintf(path, sizeof(path), "/api/v1/hosts?state=%s&limit=%zu", states[i],
                                n - json_array_size(all));
                r = ask_list(t, path, "hosts", &hosts);
                if (r == 0 && json_array_extend(all, hosts) < 0)
                        r = EXIT_NO_ANSWER;
                if (r != 0)
                        return r;
        }
        *ret = TAKE_PTR(all);
        return 0;
}

static int print_fleet(json_t *slices, json_t *runs, json_t *odd, size_t each) {
        static const struct column columns[] = {
                { .title = "SLICE", .cell = "{name}" },
                { .title = "HOSTS", .cell = "{hosts}" },
                { .title = "READY", .cell = "{ready}" },
                { .title = "DEGRADED", .cell = "{degraded}" },
                { .title = "UNFIT", .cell = "{unfit}" },
                { .title = "UNKNOWN", .cell = "{unknown}" },
                { .title = "SILENT", .cell = "{silent}" },
                { .title = "STATE", .cell = "{gang.state}" },
                { .title = "OLDEST", .cell = "{oldest_age_seconds:long}" },
        };
        usec_t now = clock_real(&clock_system);
        json_auto_t *as_runs = json_pack("{s:O}", "runs", runs),
                    *as_hosts = json_pack("{s:O}", "hosts", odd);
        int r;

        cut_list(slices, each);
        cut_list(runs, each);
        r = show_table(stdout, slices, now, columns, ELEMENTSOF(columns));
        fputc('\n', stdout);
        if (r == 0)
                r = screen_runs(as_runs, now, stdout);
        fputc('\n', stdout);
        if (r == 0 && json_array_size(odd) == 0)
                fputs("no host is odd\n", stdout);
        else if (r == 0)
                r = screen_fleet(as_hosts, now, stdout);
        return r < 0 ? EXIT_NO_ANSWER : 0;
}

static int draw_fleet(struct top *t) {
        size_t lines = live_lines(), each = lines == SIZE_MAX ? 100 : MAX(lines, (size_t) OTHER_LINES + 6);
        json_auto_t *slices = NULL, *runs = NULL, *odd = NULL;
        int r;

        each = lines == SIZE_MAX ? each : (each - OTHER_LINES) / 3;
        r = ask_list(t, "/api/v1/slices", "slices", &slices);
        if (r == 0)
                r = ask_list(t, "/api/v1/runs", "runs", &runs);
        if (r == 0)
                r = ask_odd(t, each, &odd);
        if (r == 0)
                r = print_fleet(slices, runs, odd, each);
        return r;
}

static int draw_top(void *userdata) {
        struct top *t = userdata;

        return t->fleet ? draw_fleet(t) : draw_host(t);
}

int verb_top(const struct ctl *c, int argc, char *argv[]) {
        const char *url = NULL;
        bool once = false;
        struct top t = { .fleet = false };
        const struct option_def defs[] = {
                { "fleet", NULL, "the fleet instead, as a collector knows it", NULL, &t.fleet },
                { "once", NULL, "show it once and end", NULL, &once },
                OPTION_COLLECTOR(&url),
        };
        struct words w;
        int r;

        t.o = (struct options){ .program = "tpuctl top",
                                .synopsis = "[--fleet] [--once] [--collector URL]",
                                .defs = defs,
                                .n_defs = ELEMENTSOF(defs),
                                .summary = "Shows this host, its runs and its chips, or the slices, runs "
                                           "and odd hosts of the fleet, again every 2 s. q ends it." };
        r = words_parse(c, &t.o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        if (t.fleet && collector_open(&t.o, url, &t.collector) < 0)
                return EXIT_USAGE;
        return once ? draw_top(&t) : live_show(draw_top, &t);
}
