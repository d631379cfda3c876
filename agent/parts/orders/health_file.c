/* SPDX-License-Identifier: Apache-2.0 */
#include "health_file.h"

const struct state_format health_file = {
        .what = "health", .version = 1, .max = 1024 * 1024, .options = { .mode = 0600 }
};

void health_memory_clear(struct health_memory *m) {
        json_decref(m->checks);
        *m = (struct health_memory){ 0 };
}

char *health_file_format(const struct orders *o, const struct check_table *t, enum host_state told,
                         const char *boot_id, usec_t now_real) {
        json_t *v = json_pack("{s:s, s:I, s:s, s:o, s:o}", "boot_id", boot_id, "saved_usec",
                              (json_int_t) now_real, "state", host_state_name(told), "orders",
                              orders_to_json(o), "checks", check_table_to_memory(t));
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

static int read_memory(const json_t *v, const char *boot_id, struct health_memory *ret) {
        const char *of_boot = json_string_value(json_object_get(v, "boot_id"));
        json_t *checks = json_object_get(v, "checks");

        if (!of_boot || !json_is_array(json_object_get(v, "orders")) || !json_is_array(checks))
                return -EBADMSG;
        ret->bad = orders_from_json(&ret->orders, json_object_get(v, "orders"));
        ret->same_boot = boot_id[0] && streq(boot_id, of_boot);
        if (ret->same_boot) {
                ret->state = state_of(json_object_get(v, "state"));
                ret->checks = json_incref(checks);
        }
        return 0;
}

int health_file_parse(const char *text, size_t len, const char *boot_id, struct health_memory *ret,
                      char why[static STATE_FILE_WHY_MAX]) {
        _cleanup_free_ struct health_memory *m = calloc(1, sizeof(*m));
        json_error_t error;
        json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
        int r = -EBADMSG;

        if (!v)
                (void) snprintf(why, STATE_FILE_WHY_MAX, "line %d: %.100s", error.line, error.text);
        else if (!m)
                r = -ENOMEM;
        else {
                m->state = HOST_UNKNOWN;
                (void) snprintf(why, STATE_FILE_WHY_MAX, "boot_id, orders or checks is missing");
                r = read_memory(v, boot_id, m);
        }
        json_decref(v);
        if (r == 0)
                *ret = *m;
        return r;
}
