/* SPDX-License-Identifier: Apache-2.0 */
#include "job_body.h"

#include <stdarg.h>

#include "run_record.h"
#include "utf8.h"

#define GRACE_MAX (60 * 60 * USEC_PER_SEC) /* proto/local.proto, grace_usec */
#define RESTARTS_MAX 1000000
#define NUMBER_MAX ((json_int_t) 1 << 62)

enum type { TYPE_TEXT, TYPE_TEXTS, TYPE_NUMBER, TYPE_BOOL, TYPE_OBJECT };

/* What a member may be. */
static const struct member {
        const char *name;
        enum type type;
        json_int_t most; /* of a number */
} members[] = {
        { "v", TYPE_NUMBER, 1 },
        { "name", TYPE_TEXT, 0 },
        { "serial", TYPE_TEXT, 0 },
        { "generation", TYPE_NUMBER, NUMBER_MAX },
        { "user", TYPE_TEXT, 0 },
        { "framework", TYPE_TEXT, 0 },
        { "argv", TYPE_TEXTS, 0 },
        { "env", TYPE_TEXTS, 0 },
        { "directory", TYPE_TEXT, 0 },
        { "malloc", TYPE_TEXT, 0 },
        { "restarts", TYPE_NUMBER, RESTARTS_MAX },
        { "grace", TYPE_NUMBER, (json_int_t) GRACE_MAX },
        { "preempt", TYPE_TEXT, 0 },
        { "limits", TYPE_OBJECT, 0 },
        { "share_devices", TYPE_BOOL, 0 },
        { "devices", TYPE_TEXT, 0 },
};

_printf_(2, 3) static int bad(char why[static JOB_BODY_WHY_MAX], const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(why, JOB_BODY_WHY_MAX, fmt, ap);
        va_end(ap);
        (void) utf8_scrub(why, strlen(why)); /* it may show what came */
        return -EINVAL;
}

/* --- What came ----------------------------------------------------------------------------------------- */

static bool are_texts(const json_t *list) {
        const json_t *v;
        size_t i;

        if (!json_is_array(list) || json_array_size(list) > JOB_BODY_LIST_MAX)
                return false;
        json_array_foreach(list, i, v)
                if (!json_is_string(v))
                        return false;
        return true;
}

static bool is_typed(const struct member *m, const json_t *v) {
        switch (m->type) {
        case TYPE_TEXT:
                return json_is_string(v);
        case TYPE_TEXTS:
                return are_texts(v);
        case TYPE_NUMBER:
                return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= m->most;
        case TYPE_BOOL:
                return json_is_boolean(v);
        case TYPE_OBJECT:
                return json_is_object(v);
        }
        return false;
}

static int check_member(const char *name, const json_t *v, char why[static JOB_BODY_WHY_MAX]) {
        static const char *const types[] = { [TYPE_TEXT] = "a text",
                                             [TYPE_TEXTS] = "a list of at most 1024 texts",
                                             [TYPE_NUMBER] = "a whole number that makes sense",
                                             [TYPE_BOOL] = "true or false",
                                             [TYPE_OBJECT] = "an object" };
        size_t i = 0;

        while (i < ELEMENTSOF(members) && !streq(members[i].name, name))
                i++;
        if (i == ELEMENTSOF(members))
                return bad(why, "'%.40s' is not known", name);
        if (!is_typed(&members[i], v))
                return bad(why, "%s must be %s", name, types[members[i].type]);
        return 0;
}

static int check_limits(const json_t *limits, char why[static JOB_BODY_WHY_MAX]) {
        static const char *const names[] = { "memlock", "nofile", "memory", "memory_total", "memory_high",
                                             "cpus",    "numa",   "core" };
        const size_t numbers = 5; /* the first so many */
        const char *name;
        json_t *v;

        json_object_foreach((json_t *) (uintptr_t) limits, name, v) {
                size_t i = 0;

                while (i < ELEMENTSOF(names) && !streq(names[i], name))
                        i++;
                if (i == ELEMENTSOF(names))
                        return bad(why, "limits has no '%.40s'", name);
                if (i < numbers ? !(json_is_integer(v) && json_integer_value(v) > 0) &&
                                    !(json_is_string(v) && streq(json_string_value(v), "infinity")) :
                            !json_is_string(v))
                        return bad(why, "limits.%s must be %s", name, i < numbers ? "a number above 0, or \"infinity\"" : "a text");
        }
        return 0;
}

static int check(const struct job_body *b, char why[static JOB_BODY_WHY_MAX]) {
        const char *name;
        json_t *v;
        int r = 0;

        json_object_foreach(b->json, name, v)
                if (r == 0)
                        r = check_member(name, v, why);
        if (r == 0)
                r = check_limits(json_object_get(b->json, "limits"), why);
        if (r < 0)
                return r;
        if (!run_text(b->json, "user")[0]) /* nobody's credentials come with it */
                return bad(why, "user says whose run it is: it is missing");
        if (json_array_size(json_object_get(b->json, "argv")) == 0)
                return bad(why, "argv is the command: it is missing");
        if (!run_text(b->json, "name")[0] && run_number(b->json, "generation") > 0)
                return bad(why, "a run with a generation needs a name");
        return 0;
}

/* --- What tpu-launchd is asked for --------------------------------------------------------------------- */

static char *wire(const char *text) {
        return (char *) (uintptr_t) text; /* protobuf-c's structs are not const; packing does not write */
}

static char **texts_of(const json_t *list, size_t *ret_n) {
        char **out = calloc(json_array_size(list) + 1, sizeof(*out));
        const json_t *v;
        size_t i;

        json_array_foreach(list, i, v)
                if (out)
                        out[i] = wire(json_string_value(v));
        *ret_n = out ? json_array_size(list) : 0;
        return out;
}

static int make_message(struct job_body *b) {
        Local__RunRequest *m = &b->message;
        const json_t *o = b->json;

        m->name = wire(run_text(o, "name"));
        m->framework = wire(run_text(o, "framework")[0] ? run_text(o, "framework") : "plain");
        m->malloc = wire(run_text(o, "malloc")[0] ? run_text(o, "malloc") : "auto");
        m->user = wire(run_text(o, "user"));
        m->directory = wire(run_text(o, "directory"));
        m->generation = run_number(o, "generation");
        m->intent = wire(run_text(o, "serial"));
        m->grace_usec = run_number(o, "grace");
        m->restarts = (uint32_t) run_number(o, "restarts");
        m->share_devices = json_is_true(json_object_get(o, "share_devices"));
        m->devices = wire(run_text(o, "devices"));
        local__preempt__init(&b->preempt);
        b->preempt.signal = wire(run_text(o, "preempt")[0] ? run_text(o, "preempt") : "TERM");
        m->preempt = &b->preempt;
        run_take_limits(o, &b->limits);
        m->limits = &b->limits;
        b->argv = m->argv = texts_of(json_object_get(o, "argv"), &m->n_argv);
        b->env = m->env = texts_of(json_object_get(o, "env"), &m->n_env);
        return b->argv && b->env ? 0 : -ENOMEM;
}

void job_body_clear(struct job_body *b) {
        json_decref(b->json);
        free(b->argv);
        free(b->env);
        *b = (struct job_body){ 0 };
}

int job_body_parse(const char *text, size_t len, struct job_body *ret, char why[static JOB_BODY_WHY_MAX]) {
        struct job_body b = { 0 };
        json_error_t e;
        int r;

        local__run_request__init(&b.message);
        b.json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
        b.over_slices = json_object_get(b.json, "slices") || json_object_get(b.json, "min") || json_object_get(b.json, "max");
        if (b.over_slices)
                r = 0; /* not for this host: its words are whose it is */
        else if (!b.json)
                r = bad(why, "the body is no JSON: line %d: %.120s", e.line, e.text);
        else if (!json_is_object(b.json))
                r = bad(why, "the body is no JSON object");
        else
                r = check(&b, why);
        if (r == 0 && !b.over_slices)
                r = make_message(&b);
        if (r == -ENOMEM)
                (void) bad(why, "out of memory");
        if (r < 0)
                job_body_clear(&b);
        *ret = b; /* message points to limits and preempt, which moved */
        if (r == 0 && !b.over_slices) {
                ret->message.limits = &ret->limits;
                ret->message.preempt = &ret->preempt;
        }
        return r;
}
