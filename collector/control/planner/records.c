/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <time.h>

#include "state.h"

const struct gang_options gang_default_options = {
        .lease = 15 * USEC_PER_SEC,
        .last_call = 30 * USEC_PER_SEC,
        .shrink_after = 30 * USEC_PER_SEC,
        .grow_after = 30 * USEC_PER_SEC,
        .backoff_base = 1 * USEC_PER_SEC,
        .backoff_max = 60 * USEC_PER_SEC,
        .no_progress = 3,
};

json_t *cut_text_json(const char *text) {
        for (size_t n = strlen(text);; n--) {
                json_t *v = json_stringn(text, n);

                if (v || n == 0)
                        return v;
        }
}

int replace_value(json_t **at, json_t *value) {
        if (!value)
                return -ENOMEM;
        json_decref(*at);
        *at = value;
        return 0;
}

int record_put(struct gang *g, const char *key, json_t *value) {
        json_t *old = json_object_get(g->records, key);
        int r;

        if (!value) {
                if (!old)
                        return 0;
                r = json_object_set_new(g->pending, key, json_null());
                return r < 0 || json_object_del(g->records, key) < 0 ? -ENOMEM : 0;
        }
        if (old && json_equal(old, value)) {
                json_decref(value);
                return 0;
        }
        r = json_object_set(g->pending, key, value);
        if (r == 0)
                r = json_object_set(g->records, key, value);
        json_decref(value);
        return r < 0 ? -ENOMEM : 0;
}

int record_putf(struct gang *g, json_t *value, const char *fmt, ...) {
        char key[GANG_KEY_MAX];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(key, sizeof(key), fmt, ap); /* names are bounded so that it fits */
        va_end(ap);
        return record_put(g, key, value);
}

bool name_is_host(const char *name) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
        size_t n = strspn(name, letters);

        return n > 0 && n < NAME_MAX_HOST && !name[n] && !strchr("._-", name[0]);
}

int gang_slot_parse(const char *name, char slice[static GANG_SLICE_MAX], unsigned *ret) {
        const char *slash = strchr(name, '/');
        unsigned long worker;
        char *end;

        if (!slash || slash - name >= GANG_SLICE_MAX || slash[1] < '0' || slash[1] > '9')
                return -EBADMSG;
        worker = strtoul(slash + 1, &end, 10);
        if (*end || worker >= GANG_HOSTS_MAX)
                return -EBADMSG;
        memcpy(slice, name, (size_t) (slash - name));
        slice[slash - name] = '\0';
        *ret = (unsigned) worker;
        return name_is_host(slice) ? 0 : -EBADMSG;
}

int get_text(const json_t *v, const char *key, size_t max, const char **ret, char why[static GANG_WHY_MAX]) {
        const json_t *m = json_object_get(v, key);

        if (!m) {
                *ret = "";
                return 0;
        }
        if (!json_is_string(m) || json_string_length(m) >= max ||
            strlen(json_string_value(m)) != json_string_length(m))
                return why_fail(why, -EBADMSG, "\"%s\" is no text of less than %zu bytes", key, max);
        *ret = json_string_value(m);
        return 0;
}

int get_number(const json_t *v, const char *key, int64_t min, int64_t max, int64_t fallback, int64_t *ret,
               char why[static GANG_WHY_MAX]) {
        const json_t *m = json_object_get(v, key);

        if (m && (!json_is_integer(m) || json_integer_value(m) < min || json_integer_value(m) > max))
                return why_fail(why, -EBADMSG, "\"%s\" is no whole number from %" PRIi64 " to %" PRIi64, key,
                                min, max);
        *ret = m ? (int64_t) json_integer_value(m) : fallback;
        return 0;
}

int check_version(const json_t *v, const char *what, char why[static GANG_WHY_MAX]) {
        if (json_is_object(v) && json_integer_value(json_object_get(v, "v")) >= 1)
                return 0;
        return why_fail(why, -EBADMSG, "%.100s is no JSON object with \"v\":1 or more", what);
}

const char *time_text(usec_t t, char buf[static 32]) {
        time_t seconds = (time_t) (t / USEC_PER_SEC);
        struct tm tm;

        if (!gmtime_r(&seconds, &tm) || strftime(buf, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
                (void) snprintf(buf, 32, "%" PRIu64, t / USEC_PER_SEC); /* beyond the calendar */
        return buf;
}

bool site_observes(const struct gang *g) {
        const json_t *site = json_object_get(g->records, "site/mode");
        const char *mode = json_string_value(json_object_get(site, "mode"));

        return mode && streq(mode, "observe");
}

const json_t *host_order(const struct gang *g, const char *host, const char *kind) {
        char key[GANG_KEY_MAX];

        (void) snprintf(key, sizeof(key), "order/%s", host);
        return json_object_get(json_object_get(g->records, key), kind);
}
