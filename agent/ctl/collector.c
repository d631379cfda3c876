/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>

#include "collector.h"
#include "http.h"

#define VALUE_MAX 255

int collector_open(const struct options *o, const char *given, struct collector *ret) {
        struct collector c = { 0 };
        struct ctl_settings s;
        char why[96];
        int r;

        r = ctl_settings_load(o, &s);
        if (r < 0)
                return r;
        memcpy(c.url, s.collector_url, sizeof(c.url));
        c.tls = s.collector;
        if (given) {
                r = ctl_settings_take_url(given, c.url, why);
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

static int call(const struct collector *c, const char *method, const char *path, usec_t wait, json_t **ret,
                struct problem *problem) {
        struct http_request q = { .timeout = COLLECTOR_TIMEOUT + wait,
                                  .method = method,
                                  .ca = c->tls.ca,
                                  .certificate = c->tls.certificate,
                                  .key = c->tls.key };
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

int collector_ask(const struct collector *c, const char *path, usec_t wait, json_t **ret,
                  struct problem *problem) {
        return call(c, NULL, path, wait, ret, problem);
}

int collector_act(const struct collector *c, const char *method, const char *path, json_t **ret,
                  struct problem *problem) {
        return call(c, method, path, 0, ret, problem);
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
