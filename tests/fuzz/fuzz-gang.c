/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of JSON: ["say", MEMBER], ["want", KEY, VALUE], ["load", KEY, VALUE], ["gone", SLICE, WORKER,
 * INCARNATION], ["release", SLICE, WORKER], ["part", RUN, SLICE, WORKER]; the planner decides behind each,
 * ten seconds later. Whatever it gives out it can be loaded from, and then nothing is other than before.
 */
#include "gang.h"
#include "member_part.h"

#define LINES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void on_changed(const char *key, const json_t *value, void *userdata) {
        char *text = value ? json_dumps(value, 0) : NULL;

        (void) key;
        (void) userdata;
        if (value && !text)
                abort(); /* it could not be kept */
        free(text);
}

static void load_into(const char *key, const json_t *value, void *userdata) {
        char why[GANG_WHY_MAX];

        if (gang_load(userdata, key, value, USEC_PER_SEC, why) == -EBADMSG && !startswith(key, "run/") &&
            !startswith(key, "intent/"))
                abort(); /* what it gave out itself */
}

static const char *text_at(const json_t *list, size_t i) {
        const char *text = json_string_value(json_array_get(list, i));

        return text ? text : "";
}

static void take(struct gang *g, const json_t *line, usec_t now) {
        const char *verb = text_at(line, 0);
        unsigned worker = (unsigned) json_integer_value(json_array_get(line, 2));
        char why[GANG_WHY_MAX] = "";

        if (streq(verb, "say"))
                (void) gang_say(g, json_array_get(line, 1), now, why);
        else if (streq(verb, "want"))
                (void) gang_want(g, text_at(line, 1), json_is_object(json_array_get(line, 2))
                                 ? json_array_get(line, 2) : NULL, now, why);
        else if (streq(verb, "load") && json_array_size(line) > 2)
                (void) gang_load(g, text_at(line, 1), json_array_get(line, 2), now, why);
        else if (streq(verb, "gone"))
                (void) gang_gone(g, text_at(line, 1), worker, text_at(line, 3), worker % 2 > 0, "gone", now);
        else if (streq(verb, "release"))
                (void) gang_release(g, text_at(line, 1), worker, why);
        else if (streq(verb, "part")) {
                const struct member_part mine = { worker, (enum part_state)(worker % _PART_STATE_MAX) };
                enum part_action action;

                (void) part_decide(json_array_get(line, 1), text_at(line, 3), worker, &mine, &action);
        }
        if (why[0] && strnlen(why, GANG_WHY_MAX) == GANG_WHY_MAX)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
        usec_t now = 1795237200 * USEC_PER_SEC;
        struct gang *g = NULL, *again = NULL;

        if (gang_new(&gang_default_options, &g) < 0 || gang_new(&gang_default_options, &again) < 0)
                abort();
        for (unsigned n = 0; n < LINES_MAX && len > 0; n++) {
                const uint8_t *end = memchr(data, '\n', len);
                size_t line = end ? (size_t) (end - data) : len;
                json_t *v = json_loadb((const char *) data, line, 0, NULL);

                take(g, v, now);
                json_decref(v);
                (void) gang_step(g, now, on_changed, NULL);
                now += 10 * USEC_PER_SEC;
                len -= end ? line + 1 : line;
                data = end ? end + 1 : data + line;
        }
        gang_visit(g, load_into, again);
        gang_free(g);
        (void) gang_step(again, now, on_changed, NULL);
        gang_free(again);
        return 0;
}
