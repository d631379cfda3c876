/* SPDX-License-Identifier: Apache-2.0 */
#include "topology.h"

/* --- Shapes and words ---------------------------------------------------------------------------------- */

static bool is_letter(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int parse_shape(const char *text, char separator, size_t least, struct shape *ret) {
        struct shape s = { { 1, 1, 1 } };
        uint64_t product = 1;
        size_t n = 0;

        for (const char *p = text;; p++) {
                uint64_t v = 0;

                if (n == ELEMENTSOF(s.size) || !is_digit(*p))
                        return -EINVAL;
                for (; is_digit(*p); p++) {
                        v = v * 10 + (uint64_t) (*p - '0');
                        if (v > SHAPE_CHIPS_MAX)
                                return -EINVAL;
                }
                product *= v;
                if (v == 0 || product > SHAPE_CHIPS_MAX)
                        return -EINVAL;
                s.size[n++] = (uint32_t) v;
                if (*p == '\0')
                        break;
                if (*p != separator)
                        return -EINVAL;
        }
        if (n < least)
                return -EINVAL;
        *ret = s;
        return 0;
}

int shape_parse_topology(const char *text, struct shape *ret) {
        return parse_shape(text, 'x', 2, ret);
}

int shape_parse_bounds(const char *text, struct shape *ret) {
        return parse_shape(text, ',', 3, ret);
}

int shape_of_host(uint32_t chips, struct shape *ret) {
        static const struct shape boxes[] = {
                { { 1, 1, 1 } },
                { { 1, 2, 1 } },
                { { 2, 2, 1 } },
                { { 2, 4, 1 } },
        };

        for (size_t i = 0; i < ELEMENTSOF(boxes); i++)
                if (shape_count(&boxes[i]) == chips) {
                        *ret = boxes[i];
                        return 0;
                }
        return -ENODATA;
}

int shape_hosts(const struct shape *slice, const struct shape *host, struct shape *ret) {
        struct shape s;

        for (size_t i = 0; i < ELEMENTSOF(s.size); i++) {
                if (slice->size[i] % host->size[i] != 0)
                        return -EDOM;
                s.size[i] = slice->size[i] / host->size[i];
        }
        *ret = s;
        return 0;
}

uint32_t shape_count(const struct shape *s) {
        return s->size[0] * s->size[1] * s->size[2];
}

const char *shape_text(const struct shape *s, char buf[static SHAPE_TEXT_MAX]) {
        (void) snprintf(buf, SHAPE_TEXT_MAX, "%" PRIu32 ",%" PRIu32 ",%" PRIu32, s->size[0], s->size[1],
                        s->size[2]);
        return buf;
}

bool accelerator_type_is_valid(const char *text) {
        const char *p = text;
        size_t digits;

        if (startswith(p, "tpu"))
                p += 3;
        else if (*p == 'v')
                p++;
        else
                return false;
        for (digits = 0; is_digit(*p); p++)
                digits++;
        if (digits == 0)
                return false;
        while (is_letter(*p))
                p++;
        if (*p++ != '-')
                return false;
        for (digits = 0; is_digit(*p); p++)
                digits++;
        return digits > 0 && *p == '\0' && strlen(text) <= 32;
}

static bool is_made_of(const char *text, size_t len, const char *punctuation, size_t max) {
        if (len == 0 || len > max)
                return false;
        for (size_t i = 0; i < len; i++)
                if (text[i] == '\0' ||
                    (!is_letter(text[i]) && !is_digit(text[i]) && !strchr(punctuation, text[i])))
                        return false;
        return true;
}

bool worker_name_is_valid(const char *text, size_t len) {
        return is_made_of(text, len, ".-_:", 253);
}

bool label_is_valid(const char *text) {
        return is_made_of(text, strlen(text), ".-_", 63);
}

bool slice_name_is_valid(const char *text) {
        static const char *const resources[] = { "CPU", "GPU", "TPU", "memory", "object_store_memory" };

        for (size_t i = 0; i < ELEMENTSOF(resources); i++)
                if (streq(text, resources[i]))
                        return false;
        return label_is_valid(text) && !strchr(".-_", text[0]) && !strchr(".-_", text[strlen(text) - 1]);
}

/* --- Generations --------------------------------------------------------------------------------------- */

#define RING_3D 4 /* chips in each of three dimensions */
#define RING_2D 16 /* chips in a dimension */

static const struct {
        const char *name, *other; /* other: another prefix in use; NULL: none */
        const char *machine; /* how machine types begin; NULL: they are no Compute Engine machines */
        uint32_t cores; /* that the suffix counts for a chip; 1: it counts chips */
        unsigned dimensions;
        bool small_hosts, big_host; /* slices of one host may have 1, or 8 chips */
        enum { RING_UNKNOWN, RING_ALL, RING_EACH } ring;
} generations[] = {
        [GENERATION_V2] = { "v2", NULL, NULL, 2, 2, false, false, RING_UNKNOWN },
        [GENERATION_V3] = { "v3", NULL, NULL, 2, 2, false, false, RING_ALL },
        [GENERATION_V4] = { "v4", NULL, "ct4p-hightpu-", 2, 3, false, false, RING_ALL },
        [GENERATION_V5E] = { "v5litepod", "v5e", "ct5lp-hightpu-", 1, 2, true, true, RING_EACH },
        [GENERATION_V5P] = { "v5p", NULL, "ct5p-hightpu-", 2, 3, false, false, RING_ALL },
        [GENERATION_V6E] = { "v6e", NULL, "ct6e-standard-", 1, 2, true, true, RING_EACH },
        [GENERATION_V7X] = { "tpu7x", "v7x", "tpu7x-standard-", 2, 3, true, false, RING_ALL },
};
_Static_assert(ELEMENTSOF(generations) == _GENERATION_MAX, "every generation is known");

const char *generation_name(enum generation g) {
        return g < _GENERATION_MAX ? generations[g].name : "?";
}

/* --- Names --------------------------------------------------------------------------------------------- */

static bool is_prefix(const char *name, const char *text, size_t len) {
        return name && strlen(name) == len && strncmp(name, text, len) == 0;
}

int accelerator_parse(const char *type, struct accelerator *ret) {
        size_t len = strcspn(type, "-");
        uint64_t suffix = 0;

        if (!accelerator_type_is_valid(type))
                return -EINVAL;
        for (const char *p = type + len + 1; *p; p++) {
                suffix = suffix * 10 + (uint64_t) (*p - '0');
                if (suffix > (uint64_t) SHAPE_CHIPS_MAX * 2)
                        return -EDOM;
        }
        for (enum generation g = 0; g < _GENERATION_MAX; g++) {
                if (!is_prefix(generations[g].name, type, len) &&
                    !is_prefix(generations[g].other, type, len))
                        continue;
                if (suffix == 0 || suffix % generations[g].cores != 0)
                        return -EDOM;
                *ret = (struct accelerator){ .generation = g,
                                             .suffix = (uint32_t) suffix,
                                             .chips = (uint32_t) suffix / generations[g].cores };
                return 0;
        }
        return -ENODATA;
}

const char *accelerator_text(const struct accelerator *a, char buf[static SHAPE_TEXT_MAX]) {
        (void) snprintf(buf, SHAPE_TEXT_MAX, "%s-%" PRIu32, generation_name(a->generation), a->suffix);
        return buf;
}

int topology_machine(const char *machine_type, enum generation *ret_generation, uint32_t *ret_chips) {
        for (enum generation g = 0; g < _GENERATION_MAX; g++) {
                const char *p = generations[g].machine;

                if (!p || !startswith(machine_type, p))
                        continue;
                p = machine_type + strlen(p);
                if (streq(p, "4t") || (streq(p, "1t") && generations[g].small_hosts) ||
                    (streq(p, "8t") && generations[g].big_host)) {
                        *ret_generation = g;
                        *ret_chips = (uint32_t) (p[0] - '0');
                        return 0;
                }
        }
        return -ENODATA;
}

/* --- Topologies ---------------------------------------------------------------------------------------- */

/* The usual topology in two dimensions: as square as a power of two can be, the longer side last. */
static int usual_size(const struct accelerator *a, struct shape *ret) {
        struct shape s = { { 1, 1, 1 } };

        if (generations[a->generation].dimensions != 2)
                return -ENODATA;
        if (a->chips & (a->chips - 1))
                return -EDOM;
        while (s.size[0] * s.size[1] < a->chips)
                s.size[s.size[1] > s.size[0] ? 0 : 1] *= 2;
        *ret = s;
        return 0;
}

static uint32_t usual_chips_per_host(const struct accelerator *a) {
        if (a->chips == 1 && generations[a->generation].small_hosts)
                return 1;
        return a->chips == 8 && generations[a->generation].big_host ? 8 : 4;
}

/* What hosts of the generation can have; several of them never have 8 chips or 1 each. */
static bool may_have(const struct accelerator *a, uint32_t chips_per_host) {
        if (chips_per_host == 4)
                return true;
        if (chips_per_host != a->chips)
                return false;
        return (chips_per_host == 1 && generations[a->generation].small_hosts) ||
               (chips_per_host == 8 && generations[a->generation].big_host);
}

static void set_wrap(const struct accelerator *a, struct topology *t) {
        bool all = true;

        for (unsigned d = 0; d < ELEMENTSOF(t->size.size); d++) /* of two dimensions, the third is 1 */
                all = all && t->size.size[d] >= RING_3D;
        t->wrap_known = generations[a->generation].ring != RING_UNKNOWN;
        for (unsigned d = 0; d < ELEMENTSOF(t->wrap); d++)
                t->wrap[d] = generations[a->generation].ring == RING_EACH ? t->size.size[d] == RING_2D :
                                                                            t->wrap_known && all;
}

static int take_size(const struct accelerator *a, const char *size, struct shape *ret,
                     char why[static TOPOLOGY_WHY_MAX]) {
        const char *name = generation_name(a->generation);
        int r;

        if (!size) {
                r = usual_size(a, ret);
                if (r == -EDOM)
                        (void) snprintf(why, TOPOLOGY_WHY_MAX, "no slice of %s has %" PRIu32 " chips", name,
                                        a->chips);
                return r;
        }
        r = shape_parse_topology(size, ret);
        if (r < 0)
                return r;
        if (generations[a->generation].dimensions == 2 && ret->size[2] != 1)
                (void) snprintf(why, TOPOLOGY_WHY_MAX, "%s has topologies AxB, not %.24s", name, size);
        else if (shape_count(ret) != a->chips)
                (void) snprintf(why, TOPOLOGY_WHY_MAX,
                                "%.24s has %" PRIu32 " chips, %s-%" PRIu32 " has %" PRIu32, size,
                                shape_count(ret), name, a->suffix, a->chips);
        return why[0] ? -EDOM : 0;
}

int topology_of(const struct accelerator *a, const char *size, uint32_t chips_per_host, struct topology *ret,
                char why[static TOPOLOGY_WHY_MAX]) {
        struct topology t = { .chips = a->chips,
                              .chips_per_host = chips_per_host ? chips_per_host : usual_chips_per_host(a) };
        int r;

        why[0] = '\0';
        r = take_size(a, size, &t.size, why);
        if (r < 0)
                return r;
        if (!may_have(a, t.chips_per_host) || shape_of_host(t.chips_per_host, &t.box) < 0)
                (void) snprintf(why, TOPOLOGY_WHY_MAX,
                                "a host of a %s slice of %" PRIu32 " chips has %" PRIu32 ", not %" PRIu32,
                                generation_name(a->generation), a->chips, usual_chips_per_host(a),
                                t.chips_per_host);
        else if (shape_hosts(&t.size, &t.box, &t.hosts) < 0)
                (void) snprintf(why, TOPOLOGY_WHY_MAX,
                                "hosts of %" PRIu32 " chips cannot fill %" PRIu32 "x%" PRIu32 "x%" PRIu32,
                                t.chips_per_host, t.size.size[0], t.size.size[1], t.size.size[2]);
        if (why[0])
                return -EDOM;
        t.n_hosts = shape_count(&t.hosts);
        set_wrap(a, &t);
        *ret = t;
        return 0;
}

/* --- Texts --------------------------------------------------------------------------------------------- */

const char *topology_wrap_text(const struct topology *t, char buf[static TOPOLOGY_WRAP_MAX]) {
        (void) snprintf(buf, TOPOLOGY_WRAP_MAX, "%s,%s,%s", t->wrap[0] ? "true" : "false",
                        t->wrap[1] ? "true" : "false", t->wrap[2] ? "true" : "false");
        return buf;
}

const char *topology_size_text(enum generation g, const struct shape *size,
                               char buf[static SHAPE_TEXT_MAX]) {
        int n = snprintf(buf, SHAPE_TEXT_MAX, "%" PRIu32 "x%" PRIu32, size->size[0], size->size[1]);

        if (generations[g].dimensions == 3)
                (void) snprintf(buf + n, SHAPE_TEXT_MAX - (size_t) n, "x%" PRIu32, size->size[2]);
        return buf;
}
