/* SPDX-License-Identifier: Apache-2.0 */
/* Answers, and parts of them, that several calls give. */
#include <math.h>

#include "api_calls.h"

void api_reply_result(struct http_reply *reply, const struct api *a, int r, json_t *v) {
        if (r == 0) {
                api_reply(reply, 200, v);
                return;
        }
        json_decref(v);
        api_reply_error(reply, 503, r == -ENOMEM ? "out of memory" : store_error(a->store),
                        API_SEE_JOURNAL);
        reply->retry_after = 5;
        damage_handle(a->damage, r);
}

json_t *api_text(const char *text) {
        return text ? json_string(text) : json_null();
}

json_t *api_number(int64_t n) {
        return n < 0 ? json_null() : json_integer(n);
}

json_t *api_real(double d) {
        return isfinite(d) ? json_real(d) : json_null();
}

json_t *api_value(bool is_int, int64_t i, double d) {
        return is_int ? json_integer(i) : api_real(d);
}

json_t *api_time(usec_t t) {
        char buf[CLOCK_TEXT_MAX];

        return json_string(clock_text(t, buf));
}

json_t *api_stored(const char *text) {
        json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);

        return v ?: json_null();
}

const char *api_user(const struct api *a, const struct http_request *q, const char **ret_wrong) {
        const char *user = NULL;

        *ret_wrong = NULL;
        if (!q->caller->proxy)
                return "";
        if (http_header_once(q, a->user_header, &user) < 0)
                *ret_wrong = "the header that names the user is there more than once";
        else if (!user || !*user)
                return "";
        else if (strlen(user) > API_USER_MAX)
                *ret_wrong = "the header that names the user has more than 256 bytes";
        else if (!tls_name_is_plain(user, strlen(user)))
                *ret_wrong = "the header that names the user has a blank, or is not of printable ASCII";
        return *ret_wrong ? "" : user;
}

void api_no_telemetry(const struct api *a, struct http_reply *reply) {
        char error[320];

        (void) snprintf(error, sizeof(error), "telemetry is not kept here%s%.255s",
                        *a->elsewhere ? ": it goes to " : "", a->elsewhere);
        api_reply(reply, 404,
                  json_pack("{s:s, s:s, s:s}", "error", error, "remedy",
                            "ask there for events, lines and series", "telemetry", a->elsewhere));
}

/* --- Where another collector leads ----------------------------------------------------------------- */

static void print_escaped(FILE *f, const char *text, const char *as_they_are) {
        for (; *text; text++)
                if ((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                    (*text >= '0' && *text <= '9') || strchr(as_they_are, *text))
                        fputc(*text, f);
                else
                        fprintf(f, "%%%02X", (unsigned char) *text);
}

struct printed {
        FILE *f;
        char between;
};

static int print_parameter(const char *key, const char *value, void *userdata) {
        struct printed *p = userdata;

        fputc(p->between, p->f);
        print_escaped(p->f, key, "-._~");
        fputc('=', p->f);
        print_escaped(p->f, value, "-._~:/");
        p->between = '&';
        return 0;
}

/* NULL: out of memory. */
static char *same_at(const char *url, const struct http_request *q) {
        char *text = NULL;
        size_t size, n = strlen(url);
        struct printed p = { .f = open_memstream(&text, &size), .between = '?' };

        if (!p.f)
                return NULL;
        while (n > 0 && url[n - 1] == '/')
                n--;
        fprintf(p.f, "%.*s", (int) n, url);
        print_escaped(p.f, q->path, "-._~/:@");
        (void) http_query(q, print_parameter, &p);
        return memstream_close(p.f, &text);
}

void api_redirect_to_leader(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const char *url = registry_control(a->registry)->people_url;
        char *location = *url ? same_at(url, q) : NULL;

        if (!location) {
                api_reply_error(reply, 503, "no collector leads",
                                "systemctl status tpu-collectord # on each collector's machine; "
                                "another leads soon");
                reply->retry_after = 1;
                return;
        }
        api_reply(reply, 307,
                  json_pack("{s:s, s:s}", "error", "this collector does not lead", "leader", url));
        if (reply->status == 307)
                reply->location = location;
        else
                free(location);
}
