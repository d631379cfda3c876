/* SPDX-License-Identifier: Apache-2.0 */
#include "run_spec.h"

#include <strings.h>

#include "json_text.h"
#include "texts.h"

Run__Spec *run_spec_new(void) {
        Run__Spec *s = malloc(sizeof(*s));

        if (s)
                run__spec__init(s);
        return s;
}

Run__Spec *run_spec_free(Run__Spec *s) {
        if (s)
                run__spec__free_unpacked(s, NULL);
        return NULL;
}

Run__Spec *run_spec_copy(const Run__Spec *s) {
        size_t len = run__spec__get_packed_size(s);
        _cleanup_free_ uint8_t *bytes = malloc(len + 1);

        return bytes ? run__spec__unpack(NULL, run__spec__pack(s, bytes), bytes) : NULL;
}

bool run_spec_is_over_slices(const Run__Spec *s) {
        return s->n_slices > 0 || s->has_min || s->has_max;
}

/* --- Whether it can be a run -------------------------------------------------------------------------- */

#define refuse(error, why, ...) text_fail(why, RUN_WHY_MAX, error, __VA_ARGS__)

static int check_range(const Run__Spec *s, char why[static RUN_WHY_MAX]) {
        if (s->has_min && s->has_max && s->min > s->max)
                return refuse(-EINVAL, why, "min %u is above max %u", s->min, s->max);
        if (s->n_slices > 0 && MAX(s->min, s->max) > s->n_slices)
                return refuse(-EINVAL, why, "max %u is above the number of slices that are named, %zu",
                              MAX(s->min, s->max), s->n_slices);
        return 0;
}

static size_t bytes_of(char *const *list, size_t n) {
        size_t bytes = 0;

        for (size_t i = 0; i < n; i++)
                bytes += strlen(list[i]) + 1;
        return bytes;
}

/*
 * A path, a number and a word for yes or no are no secrets, whatever the name says: MAX_TOKENS=4096,
 * TOKENIZERS_PARALLELISM=false, GOOGLE_APPLICATION_CREDENTIALS=/srv/key.json.
 */
static bool may_be_secret(const char *value) {
        static const char *const words[] = { "true", "false", "yes", "no", "on", "off", "none" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (strcasecmp(value, words[i]) == 0)
                        return false;
        return *value && *value != '/' && value[strspn(value, "0123456789.,-")];
}

/* Every host and every reader of the registry reads an intent. */
static int check_secrets(const Run__Spec *s, char why[static RUN_WHY_MAX]) {
        for (size_t i = 0; i < s->n_env; i++) {
                size_t len = strcspn(s->env[i], "=");

                if (name_is_secret(s->env[i], len) && s->env[i][len] && may_be_secret(s->env[i] + len + 1))
                        return refuse(-EINVAL, why,
                                      "env: %.*s looks like a secret, and every host reads an intent: "
                                      "put it into a file that the run's user reads on each host",
                                      (int) MIN(len, 64), s->env[i]);
        }
        return 0;
}

static int check_intent(const Run__Spec *s, char why[static RUN_WHY_MAX]) {
        if (check_range(s, why) < 0 || check_secrets(s, why) < 0)
                return -EINVAL;
        if (!s->name[0])
                return refuse(-EINVAL, why, "name is missing: a run over slices needs one");
        if (!s->user[0])
                return refuse(-EINVAL, why, "user is missing: a run is started as that user");
        if (streq(s->user, "root") || strspn(s->user, "0") == strlen(s->user))
                return refuse(
                        -EINVAL, why,
                        "user is root: nothing that comes by the registry runs as root; name another user");
        if (bytes_of(s->argv, s->n_argv) + bytes_of(s->env, s->n_env) > RUN_INTENT_BYTES_MAX)
                return refuse(
                        -E2BIG, why,
                        "argv and env are more than %d bytes: every host reads them; put it into a file",
                        RUN_INTENT_BYTES_MAX);
        return 0;
}

/* What a container has its own of. */
static int check_image(const Run__Spec *s, char why[static RUN_WHY_MAX]) {
        if (!s->image[0] && streq(s->engine, "docker"))
                return refuse(-EINVAL, why, "engine is given, and no image");
        if (s->image[0] && streq(s->malloc, "tcmalloc"))
                return refuse(-EINVAL, why,
                              "malloc tcmalloc is the host's, and an image has its own: where it has one, "
                              "give --env LD_PRELOAD=PATH");
        if (s->image[0] && s->preempt[0] == '/')
                return refuse(-EINVAL, why,
                              "preempt is a command of the host, and a run in a container is sent a signal");
        return 0;
}

int run_spec_check(const Run__Spec *s, unsigned who, char why[static RUN_WHY_MAX]) {
        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);

                if (run_key_check(k, s, why) < 0)
                        return -EINVAL;
                if (run_key_given(k, s) && !(k->who & who))
                        return refuse(-EINVAL, why,
                                      who == RUN_HERE
                                              ? "%s is for runs over slices (--slices, --on)"
                                              : "%s is for runs of one host: every host reads an intent",
                                      k->name);
        }
        if (s->n_argv == 0)
                return refuse(-EINVAL, why, "argv is missing: no command was given");
        if (bytes_of(s->argv, s->n_argv) > RUN_ARGV_BYTES_MAX)
                return refuse(-E2BIG, why, "argv is longer than %d bytes: put it into a file",
                              RUN_ARGV_BYTES_MAX);
        if (check_image(s, why) < 0)
                return -EINVAL;
        return who == RUN_SLICES ? check_intent(s, why) : 0;
}

/* --- JSON --------------------------------------------------------------------------------------------- */

static json_t *list_to_json(const struct run_key *k, const Run__Spec *s) {
        json_t *a = json_array();
        size_t n;
        char **list = run_key_list(k, s, &n);

        for (size_t i = 0; i < n; i++)
                a = json_list_add(a, json_string(list[i]));
        return a;
}

static json_t *value_to_json(const struct run_key *k, const Run__Spec *s) {
        uint64_t n;

        if (run_key_is_list(k))
                return list_to_json(k, s);
        if (run_key_is_text(k))
                return json_string(run_key_text(k, s));
        n = run_key_number(k, s);
        if (k->kind == RUN_KEY_FLAG)
                return json_boolean(n);
        return n == UINT64_MAX ? json_string("infinity") : json_integer((json_int_t) n);
}

json_t *run_spec_to_json(const Run__Spec *s) {
        json_t *o = json_object();

        for (size_t i = 0; o && i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);

                if (run_key_given(k, s))
                        o = json_member_add(o, k->name, value_to_json(k, s));
        }
        return o;
}

/* NULL: it is none, or holds a NUL. */
static const char *text_of(const json_t *v) {
        const char *text = json_string_value(v);

        return text && strlen(text) == json_string_length(v) ? text : NULL;
}

static int list_from_json(const struct run_key *k, const json_t *v, Run__Spec *s,
                          char why[static RUN_WHY_MAX]) {
        size_t i;
        json_t *entry;
        int r = 0;

        if (!json_is_array(v) || json_array_size(v) > k->most)
                return run_key_refuse(k, NULL, why);
        json_array_foreach(v, i, entry) {
                if (r == 0 && !text_of(entry))
                        r = run_key_refuse(k, NULL, why);
                if (r == 0)
                        r = run_key_append(k, s, text_of(entry));
        }
        return r;
}

static int value_from_json(const struct run_key *k, const json_t *v, Run__Spec *s,
                           char why[static RUN_WHY_MAX]) {
        const char *text = text_of(v);

        if (run_key_is_list(k))
                return list_from_json(k, v, s, why);
        if (run_key_is_text(k))
                return text ? run_key_set_text(k, s, text) : run_key_refuse(k, NULL, why);
        if (k->kind == RUN_KEY_BYTES && text && streq(text, "infinity"))
                run_key_set_number(k, s, UINT64_MAX);
        else if (k->kind == RUN_KEY_FLAG ? !json_is_boolean(v)
                                         : !json_is_integer(v) || json_integer_value(v) < 0)
                return run_key_refuse(k, text, why);
        else if (k->most > 0 &&
                 (uint64_t) json_integer_value(v) > k->most) /* before it is cut to its field */
                return run_key_refuse_number(k, (uint64_t) json_integer_value(v), why);
        else
                run_key_set_number(
                        k, s, k->kind == RUN_KEY_FLAG ? json_is_true(v) : (uint64_t) json_integer_value(v));
        return 0;
}

static int take_member(const char *name, const json_t *v, const char *const others[], Run__Spec *s,
                       char why[static RUN_WHY_MAX]) {
        const struct run_key *k = run_key_find(name);
        int r;

        if (k) {
                r = value_from_json(k, v, s, why);
                return r < 0 ? r : run_key_check_written(k, s, why);
        }
        for (size_t i = 0; others && others[i]; i++)
                if (streq(others[i], name))
                        return 0;
        return others ? refuse(-EINVAL, why, "'%.40s' is no key of a run", name) : 0;
}

int run_spec_from_json(const json_t *o, const char *const others[], Run__Spec **ret,
                       char why[static RUN_WHY_MAX]) {
        _cleanup_(run_spec_freep) Run__Spec *s = run_spec_new();
        const char *name;
        json_t *v;
        int r = s ? 0 : -ENOMEM;

        if (!json_is_object(o))
                return refuse(-EINVAL, why, "a run is no JSON object");
        json_object_foreach((json_t *) (uintptr_t) o, name, v)
                if (r == 0)
                        r = take_member(name, v, others, s, why);
        if (r == -ENOMEM)
                (void) refuse(r, why, "out of memory");
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}
