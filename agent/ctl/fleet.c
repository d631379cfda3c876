/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl fleet and events: what the collector knows of all hosts. */
#include <curl/curl.h>

#include "config.h"
#include "ctl.h"
#include "host.h"
#include "http.h"
#include "paths.h"
#include "report.h"
#include "screen.h"
#include "words.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define COLLECTOR_DEFAULT "http://127.0.0.1:" TEXT(PORT_COLLECTOR_API)
#define COLLECTOR_TIMEOUT (15 * USEC_PER_SEC)
#define EVENTS_SHOWN 200 /* without since= the collector answers with the newest */

static int parse_url(const char *value, void *dest, char why[static 96]) {
        if (!startswith(value, "http://") && !startswith(value, "https://")) {
                (void) snprintf(why, 96, "not an http:// or https:// URL");
                return -EINVAL;
        }
        return config_parse_string255(value, dest, why);
}

/* --collector, else Collector= in section [Ctl] of tpuctl.conf, without a slash at its end. */
static int collector_url(const struct options *o, const char *given, char url[static 256]) {
        const struct config_item items[] = { { "Ctl", "Collector", parse_url, url, COLLECTOR_DEFAULT } };
        struct config config = { .items = items, .n_items = ELEMENTSOF(items) };
        _cleanup_host_ struct host h = HOST_NULL;
        char why[96];
        size_t n;
        int r;

        if (given) {
                r = parse_url(given, url, why);
                if (r < 0)
                        fprintf(stderr, "%s: --collector '%s': %s\n", o->program, given, why);
        } else {
                r = host_open(o->root, &h);
                if (r == 0)
                        r = config_load(&config, &h, "tpuctl", o->config);
                config_clear(&config);
                if (r < 0)
                        fprintf(stderr, "%s: the configuration cannot be read: %s\n", o->program,
                                strerror(-r));
        }
        if (r < 0)
                return r;
        for (n = strlen(url); n > 0 && url[n - 1] == '/'; n--)
                url[n - 1] = '\0';
        return 0;
}

static int ask(const char *collector, const char *path, json_t **ret, struct problem *problem) {
        struct http_request q = { .timeout = COLLECTOR_TIMEOUT };
        _cleanup_free_ char *url = NULL;
        int r;

        *problem = (struct problem) { 0 };
        if (asprintf(&url, "%s%s", collector, path) < 0)
                return problem_set(problem, -ENOMEM, NULL, "out of memory");
        q.url = url;
        r = http_json(&q, ret, problem);
        if (r < 0 && problem->no_answer && !problem->remedy[0])
                (void) snprintf(problem->remedy, sizeof(problem->remedy),
                                "name the collector with --collector URL or in " PATH_SITE
                                "/tpuctl.conf.d/; on its machine: systemctl status tpu-collectord");
        return r;
}

static int show_failed(const char *verb, int error) {
        fprintf(stderr, "tpuctl %s: the collector's answer cannot be shown: %s\n", verb, strerror(-error));
        return EXIT_NO_ANSWER;
}

int verb_fleet(const struct ctl *c, int argc, char *argv[]) {
        const char *collector = NULL;
        bool json = false;
        const struct option_def defs[] = {
                { "collector", "URL",
                  "where the collector's API is; default: tpuctl.conf, else " COLLECTOR_DEFAULT, &collector,
                  NULL },
                { "json", NULL, "print JSON", NULL, &json },
        };
        struct options o = { .program = "tpuctl fleet",
                             .synopsis = "[--collector URL] [--json]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary =
                                     "Lists all hosts that report to the collector, by slice and worker. A host "
                                     "that was started just now\n"
                                     "appears with its first report, within some seconds." };
        struct problem problem;
        json_t *answer;
        char url[256];
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        if (collector_url(&o, collector, url) < 0)
                return EXIT_USAGE;
        r = ask(url, "/api/v1/hosts", &answer, &problem);
        if (r < 0)
                return problem_complain(&problem);
        r = json ? report_print_json(stdout, json_incref(answer)) : screen_fleet(answer, stdout);
        json_decref(answer);
        return r < 0 ? show_failed("fleet", r) : 0;
}

/* The path of the call, for one host when host is set. */
static int events_path(const char *host, char path[static 512]) {
        CURL *curl;
        char *escaped;

        (void) snprintf(path, 512, "/api/v1/events?limit=" TEXT(EVENTS_SHOWN));
        if (!host)
                return 0;
        if (strlen(host) > 100)
                return -ENAMETOOLONG;
        curl = curl_easy_init(); /* needed before curl 7.82 */
        escaped = curl ? curl_easy_escape(curl, host, 0) : NULL;
        curl_easy_cleanup(curl);
        if (!escaped)
                return -ENOMEM;
        (void) snprintf(path, 512, "/api/v1/events?limit=" TEXT(EVENTS_SHOWN) "&host=%s", escaped);
        curl_free(escaped);
        return 0;
}

int verb_events(const struct ctl *c, int argc, char *argv[]) {
        const char *collector = NULL, *host = NULL;
        bool json = false;
        const struct option_def defs[] = {
                { "collector", "URL",
                  "where the collector's API is; default: tpuctl.conf, else " COLLECTOR_DEFAULT, &collector,
                  NULL },
                { "host", "NAME", "events of this host only", &host, NULL },
                { "json", NULL, "print JSON", NULL, &json },
        };
        struct options o = { .program = "tpuctl events",
                             .synopsis = "[--collector URL] [--host NAME] [--json]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "Shows the newest " TEXT(
                                     EVENTS_SHOWN) " events that the collector has, newest last." };
        char url[256], path[512];
        struct problem problem;
        struct words w;
        json_t *answer;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        if (collector_url(&o, collector, url) < 0)
                return EXIT_USAGE;
        if (events_path(host, path) < 0) {
                fprintf(stderr, "tpuctl events: --host: not a host name\n");
                return EXIT_USAGE;
        }
        r = ask(url, path, &answer, &problem);
        if (r < 0)
                return problem_complain(&problem);
        r = json ? report_print_json(stdout, json_incref(answer))
                 : screen_events(json_object_get(answer, "events"), stdout);
        json_decref(answer);
        return r < 0 ? show_failed("events", r) : 0;
}
