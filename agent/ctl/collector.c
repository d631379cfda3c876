/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>

#include "collector.h"
#include "config.h"
#include "host.h"
#include "http.h"

#define VALUE_MAX 255

static int parse_url(const char *value, void *dest, char why[static 96]) {
        if (!startswith(value, "http://") && !startswith(value, "https://")) {
                (void) snprintf(why, 96, "not an http:// or https:// URL");
                return -EINVAL;
        }
        return config_parse_string255(value, dest, why);
}

int collector_open(const struct options *o, const char *given, struct collector *ret) {
        struct collector c = { 0 };
        const struct config_item items[] = {
                { "Ctl", "Collector", parse_url, c.url, COLLECTOR_DEFAULT },
                { "Ctl", "CollectorCa", config_parse_string255, c.ca, "" },
                { "Ctl", "CollectorCertificate", config_parse_string255, c.certificate, "" },
                { "Ctl", "CollectorKey", config_parse_string255, c.key, "" },
        };
        struct config config = { .items = items, .n_items = ELEMENTSOF(items) };
        _cleanup_host_ struct host h = HOST_NULL;
        char why[96];
        int r;

        r = host_open(o->root, &h);
        if (r == 0)
                r = config_load(&config, &h, "tpuctl", o->config);
        config_clear(&config);
        if (r < 0) {
                fprintf(stderr, "%s: the configuration cannot be read: %s\n", o->program, strerror(-r));
                return r;
        }
        if (given) {
                r = parse_url(given, c.url, why);
                if (r < 0) {
                        fprintf(stderr, "%s: --collector '%s': %s\n", o->program, given, why);
                        return r;
                }
        }
        for (size_t n = strlen(c.url); n > 0 && c.url[n - 1] == '/'; n--)
                c.url[n - 1] = '\0';
        *ret = c;
        return 0;
}

int collector_ask(const struct collector *c, const char *path, usec_t wait, json_t **ret,
                  struct problem *problem) {
        struct http_request q = { .timeout = COLLECTOR_TIMEOUT + wait,
                                  .ca = c->ca,
                                  .certificate = c->certificate,
                                  .key = c->key };
        _cleanup_free_ char *url = NULL;
        int r;

        *problem = (struct problem) { 0 };
        if (asprintf(&url, "%s%s", c->url, path) < 0) {
                url = NULL;
                return problem_set(problem, -ENOMEM, NULL, "out of memory");
        }
        q.url = url;
        r = http_json(&q, ret, problem);
        if (r < 0 && problem->no_answer && !problem->remedy[0])
                (void) snprintf(problem->remedy, sizeof(problem->remedy),
                                "name the collector with --collector URL or in " PATH_SITE
                                "/tpuctl.conf.d/; on its machine: systemctl status tpu-collectord");
        return r;
}

int collector_parameter(char *path, size_t size, const char *key, const char *value) {
        size_t n = strlen(path);
        CURL *curl;
        char *escaped;
        int written;

        if (!value)
                return 0;
        if (strlen(value) > VALUE_MAX)
                return -ENAMETOOLONG;
        curl = curl_easy_init(); /* needed before curl 7.82 */
        escaped = curl ? curl_easy_escape(curl, value, 0) : NULL;
        curl_easy_cleanup(curl);
        if (!escaped)
                return -ENOMEM;
        written = snprintf(path + n, size - n, "%c%s=%s", strchr(path, '?') ? '&' : '?', key, escaped);
        curl_free(escaped);
        return written < 0 || (size_t) written >= size - n ? -ENAMETOOLONG : 0;
}
