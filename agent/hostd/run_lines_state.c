/* SPDX-License-Identifier: Apache-2.0 */
#include "run_lines_state.h"

#include <fcntl.h>

#include "launchd_runs.h"
#include "json_fields.h"
#include "json_text.h"
#include "state_file.h"

static const struct state_format format = {
        .what = "run-lines", .version = 1, .max = 64 * 1024, .options = { .mode = 0600, .lazy = true }
};

struct run_lines_part *run_lines_part(struct run_lines_state *s, const char *run, const char *invocation) {
        struct run_lines_part *p = NULL, *oldest = &s->parts[0];

        for (size_t i = 0; i < s->n && !p; i++) {
                if (streq(s->parts[i].invocation, invocation) && streq(s->parts[i].run, run))
                        p = &s->parts[i];
                if (s->parts[i].used < oldest->used)
                        oldest = &s->parts[i];
        }
        if (!p) {
                p = s->n < RUN_LINES_PARTS_MAX ? &s->parts[s->n++] : oldest;
                *p = (struct run_lines_part) { 0 };
                (void) snprintf(p->run, sizeof(p->run), "%s", run);
                (void) snprintf(p->invocation, sizeof(p->invocation), "%s", invocation);
        }
        p->used = ++s->clock;
        return p;
}

#define FIELD(...) JSON_FIELD(struct run_lines_part, __VA_ARGS__)
static const struct json_field fields[] = {
        FIELD(WORD, "run", run),
        FIELD(WORD, "invocation", invocation),
        FIELD(NUMBER, "number", number),
};

static int take_parts(const json_t *list, struct run_lines_state *s) {
        const json_t *v;
        size_t i;

        if (!json_is_array(list) || json_array_size(list) > RUN_LINES_PARTS_MAX)
                return -EBADMSG;
        json_array_foreach (list, i, v) {
                struct run_lines_part p = { 0 };

                if (json_fields_take(v, fields, ELEMENTSOF(fields), &p) < 0 || !run_name_is_valid(p.run))
                        return -EBADMSG;
                run_lines_part(s, p.run, p.invocation)->number = p.number;
        }
        return 0;
}

int run_lines_load(const char *path, struct run_lines_state *s) {
        json_t *o;
        int r;

        *s = (struct run_lines_state) { 0 };
        r = state_file_load_json(AT_FDCWD, path, &format, &o);
        if (r < 0)
                return r;
        r = take_parts(json_object_get(o, "parts"), s);
        (void) snprintf(s->cursor, sizeof(s->cursor), "%s", json_text_of(o, "cursor"));
        json_decref(o);
        if (r == 0 && !s->cursor[0])
                r = -EBADMSG;
        if (r < 0)
                *s = (struct run_lines_state) { 0 };
        return r;
}

int run_lines_save(const char *path, const struct run_lines_state *s) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < s->n; i++)
                list = json_list_add(list, json_fields_pack(fields, ELEMENTSOF(fields), &s->parts[i]));
        if (!list)
                return -ENOMEM;
        return state_file_write_json(AT_FDCWD, path, &format,
                                     json_pack("{s:s, s:o}", "cursor", s->cursor, "parts", list));
}
