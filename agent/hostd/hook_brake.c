/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>

#include "hook_brake.h"
#include "hook_environment.h"

#define ASK_TIMEOUT_MS 10000L
/* Beyond what commands and shells use of their own accord. */
#define EXIT_BRAKE 190
#define EXIT_COLLECTOR 191

#define KEY_PREFIX "TPU_HOSTD_HOOK_"

DEFINE_CLEANUP(CURL *, curl_easy_cleanup)

struct answer {
        char *data;
        size_t len;
};

const char *hook_brake_text(int exit_code) {
        switch (exit_code) {
        case EXIT_BRAKE:
                return "so much of the slice is out of service already that no more is done without a "
                       "person";
        case EXIT_COLLECTOR:
                return "the collector does not say how the slice is";
        }
        return NULL;
}

static bool out_of_service(const json_t *host) {
        const char *state = json_string_value(json_object_get(host, "state")),
                   *reasons = json_string_value(json_object_get(host, "reasons"));

        if (json_number_value(json_object_get(host, "age_seconds")) > BRAKE_SILENT_SECONDS)
                return true;
        if (reasons && (startswith(reasons, "cordoned ") || startswith(reasons, "draining ") ||
                        startswith(reasons, "drained ")))
                return true;
        return state && streq(state, "unfit");
}

enum brake brake_decide(const json_t *answer, const char *slice, const char *host, unsigned percent) {
        const json_t *hosts = json_object_get(answer, "hosts"), *one;
        size_t all = 0, out = 0, i;
        bool self = false;

        json_array_foreach (hosts, i, one) {
                const char *of = json_string_value(json_object_get(one, "slice")),
                           *name = json_string_value(json_object_get(one, "name"));

                if (!of || !name || !streq(of, slice))
                        continue;
                all++;
                self |= streq(name, host);
                out += !streq(name, host) && out_of_service(one);
        }
        if (!self) /* a collector that does not know us knows nothing of our slice */
                return BRAKE_UNKNOWN;
        return out > 0 && out * 100 >= all * percent ? BRAKE_ON : BRAKE_OFF;
}

/* --- The process --------------------------------------------------------------------------------------- */

static size_t take(char *data, size_t size, size_t n, void *userdata) {
        struct answer *a = userdata;
        char *grown;

        (void) size; /* always 1 */
        if (n > BRAKE_ANSWER_MAX - a->len || !(grown = realloc(a->data, a->len + n)))
                return 0;
        a->data = grown;
        memcpy(a->data + a->len, data, n);
        a->len += n;
        return n;
}

#define SET(option, value) (r = r == CURLE_OK ? curl_easy_setopt(curl, option, value) : r)

static json_t *ask(const char *collector) {
        _cleanup_(curl_easy_cleanupp) CURL *curl = curl_easy_init();
        _cleanup_free_ char *url = NULL;
        struct answer a = { 0 };
        CURLcode r = CURLE_OK;
        json_t *v = NULL;
        long status = 0;

        if (!curl || asprintf(&url, "%s/api/v1/hosts", collector) < 0)
                return NULL;
        SET(CURLOPT_URL, url);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_NOPROXY, "*");
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_TIMEOUT_MS, ASK_TIMEOUT_MS);
        SET(CURLOPT_WRITEFUNCTION, take);
        SET(CURLOPT_WRITEDATA, &a);
        SET(CURLOPT_USERAGENT, "tpu-hostd/" TPU_HOSTD_VERSION);
#if LIBCURL_VERSION_NUM >= 0x075500
        SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
        SET(CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
        if (r == CURLE_OK)
                r = curl_easy_perform(curl);
        if (r == CURLE_OK && curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK &&
            status == 200)
                v = json_loadb(a.data ? a.data : "", a.len, JSON_REJECT_DUPLICATES, NULL);
        if (!v)
                fprintf(stderr, "tpu-hostd: hook: %s: %s (HTTP %ld)\n", url,
                        r == CURLE_OK ? "no usable answer" : curl_easy_strerror(r), status);
        free(a.data);
        return v;
}

static enum brake look(void) {
        const char *collector = getenv(KEY_PREFIX "COLLECTOR"), *slice = getenv(KEY_PREFIX "SLICE"),
                   *host = getenv(KEY_PREFIX "HOST"), *percent = getenv(KEY_PREFIX "BRAKE");
        enum brake b;
        json_t *v;

        if (!collector)
                return BRAKE_OFF;
        if (!slice || !host || !percent)
                return BRAKE_UNKNOWN;
        v = ask(collector);
        b = v ? brake_decide(v, slice, host, (unsigned) strtoul(percent, NULL, 10)) : BRAKE_UNKNOWN;
        json_decref(v);
        return b;
}

bool hook_brake_environment(char **list, const char *command, const char *collector, const char *slice,
                            const char *host, unsigned percent) {
        char number[16];

        (void) snprintf(number, sizeof(number), "%u", percent);
        return hook_environment_add(list, KEY_PREFIX "COMMAND", command) &&
               (!collector[0] || hook_environment_add(list, KEY_PREFIX "COLLECTOR", collector)) &&
               (!slice || hook_environment_add(list, KEY_PREFIX "SLICE", slice)) &&
               hook_environment_add(list, KEY_PREFIX "HOST", host) &&
               hook_environment_add(list, KEY_PREFIX "BRAKE", number);
}

int hook_brake_run(const struct host *h) {
        static const char *const own[] = { "COMMAND", "COLLECTOR", "SLICE", "HOST", "BRAKE" };
        const char *command = getenv(KEY_PREFIX "COMMAND");
        _cleanup_free_ char *copy = command ? strdup(command) : NULL;
        char *argv[HOOK_ARGUMENTS_MAX + 1], *save = NULL;
        size_t n = 0;

        if (!copy) {
                fputs("tpu-hostd: --hook is for tpu-hostd itself\n", stderr);
                return EXIT_FAILURE;
        }
        /* It counts into the agent's memory limit, and goes first; a machine that has no such file has no
         * such fear. */
        (void) host_write(h, "/proc/self/oom_score_adj", "1000");
        switch (look()) {
        case BRAKE_OFF:
                break;
        case BRAKE_ON:
                return EXIT_BRAKE;
        case BRAKE_UNKNOWN:
                return EXIT_COLLECTOR;
        }
        for (char *w = strtok_r(copy, " \t", &save); w && n < HOOK_ARGUMENTS_MAX;
             w = strtok_r(NULL, " \t", &save))
                argv[n++] = w;
        argv[n] = NULL;
        for (size_t i = 0; i < ELEMENTSOF(own); i++) {
                char key[64];

                (void) snprintf(key, sizeof(key), KEY_PREFIX "%s", own[i]);
                (void) unsetenv(key); /* fails for a bad name only */
        }
        if (n > 0)
                (void) execv(argv[0], argv);
        fprintf(stderr, "tpu-hostd: hook: %s cannot be run: %s\n", n > 0 ? argv[0] : "(nothing)",
                strerror(errno));
        return EXIT_FAILURE;
}
