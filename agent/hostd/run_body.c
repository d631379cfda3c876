/* SPDX-License-Identifier: Apache-2.0 */
#include "run_body.h"

#include <stdarg.h>

#include "json_text.h"
#include "utf8.h"

_printf_(2, 3) static int refuse(char why[static RUN_WHY_MAX], const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(why, RUN_WHY_MAX, fmt, ap);
        va_end(ap);
        (void) utf8_scrub(why, strlen(why)); /* it may show what came */
        return -EINVAL;
}

void run_body_clear(struct run_body *b) {
        *b = (struct run_body){ .spec = run_spec_free(b->spec) };
}

/* What a body says besides the keys. */
static int take_others(const json_t *o, struct run_body *b, char why[static RUN_WHY_MAX]) {
        const json_t *v = json_object_get(o, "v"), *generation = json_object_get(o, "generation"),
                     *serial = json_object_get(o, "serial");

        if (v && json_integer_value(v) != 1)
                return refuse(why, "v is not 1");
        if (generation && (!json_is_integer(generation) || json_integer_value(generation) < 0))
                return refuse(why, "generation is not a whole number");
        if (serial && (!json_is_string(serial) || json_string_length(serial) >= sizeof(b->serial)))
                return refuse(why, "serial is not a text of at most %zu bytes", sizeof(b->serial) - 1);
        b->generation = (uint64_t) json_integer_value(generation);
        (void) snprintf(b->serial, sizeof(b->serial), "%s", json_text_of(o, "serial"));
        return 0;
}

static int check(const struct run_body *b, char why[static RUN_WHY_MAX]) {
        if (run_spec_check(b->spec, RUN_HERE, why) < 0)
                return -EINVAL;
        if (!b->spec->user[0]) /* nobody's credentials come with it */
                return refuse(why, "user says whose run it is: it is missing");
        if (!b->spec->name[0] && b->generation > 0)
                return refuse(why, "a run with a generation needs a name");
        return 0;
}

static int parse(const json_t *o, struct run_body *b, char why[static RUN_WHY_MAX]) {
        static const char *const others[] = { "v", "serial", "generation", NULL };
        int r;

        b->over_slices =
                json_object_get(o, "slices") || json_object_get(o, "min") || json_object_get(o, "max");
        if (b->over_slices)
                return 0; /* not for this host: its words are whose it is */
        r = run_spec_from_json(o, others, &b->spec, why);
        if (r == 0)
                r = take_others(o, b, why);
        return r == 0 ? check(b, why) : r;
}

int run_body_parse(const char *text, size_t len, struct run_body *ret, char why[static RUN_WHY_MAX]) {
        struct run_body b = { .over_slices = false };
        json_error_t e;
        json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
        int r = o ? parse(o, &b, why) : refuse(why, "the body is no JSON: line %d: %.120s", e.line, e.text);

        json_decref(o);
        if (r < 0)
                run_body_clear(&b);
        *ret = b;
        return r;
}
