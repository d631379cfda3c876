/* SPDX-License-Identifier: Apache-2.0 */
#include "run_key.h"

#include <assert.h>
#include <ctype.h>

#include "grow.h"

#define HERE RUN_HERE
#define SLICES RUN_SLICES

static const struct run_key keys[] = {
#define RUN_KEY(name_, kind_, least_, most_, who_, value_, help_, ...)                                      \
        { .name = #name_,                                                                                   \
          .kind = RUN_KEY_##kind_,                                                                          \
          .least = (least_),                                                                                \
          .most = (most_),                                                                                  \
          .who = (who_),                                                                                    \
          .value = (value_),                                                                                \
          .help = (help_),                                                                                  \
          ##__VA_ARGS__ },
#include "run_keys.def"
#undef RUN_KEY
};
_Static_assert(ELEMENTSOF(keys) <= RUN_KEYS_MAX, "who has an array of them has room for each");

size_t run_keys_count(void) {
        return ELEMENTSOF(keys);
}

const struct run_key *run_key_at(size_t i) {
        assert(i < ELEMENTSOF(keys));
        return &keys[i];
}

const struct run_key *run_key_find(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (streq(keys[i].name, name))
                        return &keys[i];
        return NULL;
}

/* --- Its names ---------------------------------------------------------------------------------------- */

/* By a flag of its own, or by that of the key before it. */
static bool has_flag(const struct run_key *k) {
        return k->value || k->kind == RUN_KEY_FLAG;
}

const char *run_key_flag(const struct run_key *k, char buf[static RUN_KEY_TEXT_MAX]) {
        if (!has_flag(k))
                return NULL;
        (void) snprintf(buf, RUN_KEY_TEXT_MAX, "%s", k->flag ? k->flag : k->name);
        for (char *c = buf; *c; c++)
                *c = *c == '_' ? '-' : *c;
        return buf;
}

const char *run_key_ini(const struct run_key *k, char buf[static RUN_KEY_TEXT_MAX]) {
        const char *from = k->flag ? k->flag : k->name;
        bool capital = true;
        size_t n = 0;

        if (!has_flag(k))
                return NULL;
        for (; *from && n + 1 < RUN_KEY_TEXT_MAX; from++) {
                if (*from != '_')
                        buf[n++] = (char) (capital ? toupper((unsigned char) *from) : *from);
                capital = *from == '_';
        }
        buf[n] = '\0';
        return buf;
}

/* --- Its field ---------------------------------------------------------------------------------------- */

static const ProtobufCFieldDescriptor *field_of(const struct run_key *k) {
        const ProtobufCFieldDescriptor *f =
                protobuf_c_message_descriptor_get_field_by_name(&run__spec__descriptor, k->name);

        assert(f); /* each row has a field, and each field a row: tests/unit/test-run-keys.c */
        return f;
}

static void *at(const struct run_key *k, const Run__Spec *s) {
        return (char *) (uintptr_t) s + field_of(k)->offset;
}

/* How many of a list; whether a number is given. */
static void *quantifier_at(const struct run_key *k, const Run__Spec *s) {
        return (char *) (uintptr_t) s + field_of(k)->quantifier_offset;
}

bool run_key_is_list(const struct run_key *k) {
        return k->kind >= RUN_KEY_VARIABLES;
}

bool run_key_is_text(const struct run_key *k) {
        return !run_key_is_list(k) && field_of(k)->type == PROTOBUF_C_TYPE_STRING;
}

bool run_key_given(const struct run_key *k, const Run__Spec *s) {
        if (run_key_is_list(k))
                return *(size_t *) quantifier_at(k, s) > 0;
        if (run_key_is_text(k)) { /* the empty text says nothing where it is the default */
                const char *text = *(char **) at(k, s), *standard = field_of(k)->default_value;

                return text && text != standard && (text[0] || standard[0]);
        }
        return *(protobuf_c_boolean *) quantifier_at(k, s);
}

bool run_key_has_default(const struct run_key *k) {
        return field_of(k)->default_value;
}

uint64_t run_key_number(const struct run_key *k, const Run__Spec *s) {
        const ProtobufCFieldDescriptor *f = field_of(k);

        if (f->type == PROTOBUF_C_TYPE_UINT64)
                return *(uint64_t *) at(k, s);
        if (f->type == PROTOBUF_C_TYPE_UINT32)
                return *(uint32_t *) at(k, s);
        assert(f->type == PROTOBUF_C_TYPE_BOOL);
        return *(protobuf_c_boolean *) at(k, s) != 0;
}

const char *run_key_text(const struct run_key *k, const Run__Spec *s) {
        const char *text = *(char **) at(k, s);

        assert(run_key_is_text(k));
        return text ? text : "";
}

char **run_key_list(const struct run_key *k, const Run__Spec *s, size_t *ret_n) {
        assert(run_key_is_list(k));
        *ret_n = *(size_t *) quantifier_at(k, s);
        return *(char ***) at(k, s);
}

void run_key_set_number(const struct run_key *k, Run__Spec *s, uint64_t n) {
        const ProtobufCFieldDescriptor *f = field_of(k);

        if (f->type == PROTOBUF_C_TYPE_UINT64)
                *(uint64_t *) at(k, s) = n;
        else if (f->type == PROTOBUF_C_TYPE_UINT32) {
                assert(n <= UINT32_MAX);
                *(uint32_t *) at(k, s) = (uint32_t) n;
        } else {
                assert(f->type == PROTOBUF_C_TYPE_BOOL);
                *(protobuf_c_boolean *) at(k, s) = n != 0;
        }
        *(protobuf_c_boolean *) quantifier_at(k, s) = true;
}

void run_key_unset(const struct run_key *k, Run__Spec *s) {
        const void *standard = field_of(k)->default_value;

        if (run_key_is_list(k)) {
                char ***list = at(k, s);
                size_t *n = quantifier_at(k, s);

                for (size_t i = 0; i < *n; i++)
                        free((*list)[i]);
                free(*list);
                *list = NULL;
                *n = 0;
        } else if (run_key_is_text(k)) {
                char **text = at(k, s);

                if (*text != standard)
                        free(*text);
                *text = (char *) (uintptr_t) standard;
        } else {
                uint64_t n = !standard                                     ? 0
                             : field_of(k)->type == PROTOBUF_C_TYPE_UINT64 ? *(const uint64_t *) standard
                                                                           : *(const uint32_t *) standard;

                run_key_set_number(k, s, n);
                *(protobuf_c_boolean *) quantifier_at(k, s) = false;
        }
}

int run_key_set_text(const struct run_key *k, Run__Spec *s, const char *text) {
        char *copy = strdup(text);

        assert(run_key_is_text(k));
        if (!copy)
                return -ENOMEM;
        run_key_unset(k, s);
        *(char **) at(k, s) = copy;
        return 0;
}

int run_key_append(const struct run_key *k, Run__Spec *s, const char *text) {
        char ***list = at(k, s), *copy = strdup(text);
        size_t *n = quantifier_at(k, s);

        assert(run_key_is_list(k));
        if (!copy || grow_by_one(list, *n, sizeof(**list)) < 0) {
                free(copy);
                return -ENOMEM;
        }
        (*list)[(*n)++] = copy;
        return 0;
}
