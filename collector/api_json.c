/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "api_json.h"

void api_reply_result(struct http_reply *reply, const struct api *a, int r, json_t *v) {
        if (r == 0) {
                api_reply(reply, 200, v);
                return;
        }
        json_decref(v);
        api_reply_error(reply, 503, r == -ENOMEM ? "out of memory" : store_error(a->store),
                        "see the journal of tpu-collectord, and try again");
        reply->retry_after = 5;
        damage_look(a->damage, r);
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

void api_no_telemetry(const struct api *a, struct http_reply *reply) {
        char error[320];

        (void) snprintf(error, sizeof(error), "telemetry is not kept here%s%.255s",
                        *a->elsewhere ? ": it goes to " : "", a->elsewhere);
        api_reply(reply, 404,
                  json_pack("{s:s, s:s, s:s}", "error", error, "remedy",
                            "ask there for events, lines and series", "telemetry", a->elsewhere));
}
