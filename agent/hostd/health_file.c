/* SPDX-License-Identifier: Apache-2.0 */
#include "health_file.h"

void health_memory_clear(struct health_memory *m) {
        orders_clear(&m->orders);
        json_decref(m->checks);
        *m = (struct health_memory){ 0 };
}

char *health_file_format(const struct orders *o, const struct check_table *t, enum host_state told,
                         const char *boot_id, usec_t now_real) {
        json_t *v = json_pack("{s:i, s:i, s:s, s:I, s:s, s:o, s:o}", "version", HEALTH_FILE_VERSION,
                              "readable_from", 1, "boot_id", boot_id, "saved_usec", (json_int_t) now_real,
                              "state", host_state_name(told), "orders", orders_to_json(o), "checks",
                              check_table_to_memory(t));
        char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;

        json_decref(v);
        return text;
}

static enum host_state state_of(const json_t *v) {
        const char *name = json_string_value(v);
        enum host_state s = 0;

        while (s < _HOST_STATE_MAX && !(name && streq(name, host_state_name(s))))
                s++;
        return s == _HOST_STATE_MAX ? HOST_UNKNOWN : s;
}

static int read_memory(const json_t *v, const char *boot_id, struct health_memory *ret,
                       char why[static HEALTH_FILE_WHY_MAX]) {
        const json_t *version = json_object_get(v, "version"), *from = json_object_get(v, "readable_from");
        const char *of_boot = json_string_value(json_object_get(v, "boot_id"));
        json_t *checks = json_object_get(v, "checks");

        if (!json_is_integer(version) || !json_is_integer(from) || json_integer_value(version) < 1 ||
            !of_boot || !json_is_array(json_object_get(v, "orders")) || !json_is_array(checks)) {
                (void) snprintf(why, HEALTH_FILE_WHY_MAX, "version, boot_id, orders or checks is missing");
                return -EBADMSG;
        }
        if (json_integer_value(from) > HEALTH_FILE_VERSION) {
                (void) snprintf(why, HEALTH_FILE_WHY_MAX,
                                "its version %" JSON_INTEGER_FORMAT
                                " needs a reader of version %" JSON_INTEGER_FORMAT ", this one is %d",
                                json_integer_value(version), json_integer_value(from), HEALTH_FILE_VERSION);
                return -EPROTONOSUPPORT;
        }
        ret->bad = orders_from_json(&ret->orders, json_object_get(v, "orders"));
        ret->same_boot = boot_id[0] && streq(boot_id, of_boot);
        if (ret->same_boot) {
                ret->state = state_of(json_object_get(v, "state"));
                ret->checks = json_incref(checks);
        }
        return 0;
}

int health_file_parse(const char *text, size_t len, const char *boot_id, struct health_memory *ret,
                      char why[static HEALTH_FILE_WHY_MAX]) {
        _cleanup_free_ struct health_memory *m = calloc(1, sizeof(*m));
        json_error_t error;
        json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
        int r;

        if (!m) {
                json_decref(v);
                return -ENOMEM;
        }
        if (!v) {
                (void) snprintf(why, HEALTH_FILE_WHY_MAX, "line %d: %.100s", error.line, error.text);
                return -EBADMSG;
        }
        m->state = HOST_UNKNOWN;
        r = read_memory(v, boot_id, m, why);
        json_decref(v);
        if (r < 0)
                return r;
        *ret = *m;
        return 0;
}
