/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"
#include "shape.h"

#define REMEDY "write it into [Identity] in /etc/tpu-hostd/identity.conf.d/ (see: tpuctl identity)"

static const char *const framework_names[] = {
        [FRAMEWORK_PLAIN] = "plain",
        [FRAMEWORK_JAX] = "jax",
};
_Static_assert(ELEMENTSOF(framework_names) == _FRAMEWORK_MAX, "every framework has a name");

const char *framework_name(enum framework f) {
        return f < _FRAMEWORK_MAX ? framework_names[f] : "?";
}

int framework_parse(const char *name, enum framework *ret) {
        for (size_t i = 0; i < ELEMENTSOF(framework_names); i++)
                if (streq(name, framework_names[i])) {
                        *ret = (enum framework) i;
                        return 0;
                }
        return -EINVAL;
}

/* --- What a user may set ------------------------------------------------------------------------------- */

/* The length of one UTF-8 character that is no control character, or 0. */
static size_t character_length(const unsigned char *p) {
        uint32_t c;
        size_t n;

        if (p[0] < 0x80)
                return p[0] == '\t' || p[0] == '\n' || (p[0] >= 0x20 && p[0] != 0x7f);
        n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
        if (p[0] < 0xc2 || p[0] > 0xf4)
                return 0;
        c = p[0] & (0x7fu >> n);
        for (size_t i = 1; i < n; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (p[i] & 0x3fu);
        }
        if ((n == 3 && c < 0x800) || (n == 4 && c < 0x10000) || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
                return 0;
        return n;
}

bool environment_text_is_valid(const char *text) {
        const unsigned char *p = (const unsigned char *) text;

        while (*p) {
                size_t n = character_length(p);

                if (n == 0)
                        return false;
                p += n;
        }
        return true;
}

/* The length of NAME in "NAME=VALUE", or 0 when there is no good one. */
static size_t name_length(const char *assignment) {
        size_t n = strspn(assignment, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

        return assignment[n] == '=' && !(assignment[0] >= '0' && assignment[0] <= '9') ? n : 0;
}

/* Values may be secrets: a complaint names the variable only. */
static int check_assignment(const char *a, char why[static 256]) {
        size_t n = name_length(a);

        if (n == 0) {
                (void) snprintf(why, 256, "'%.*s' is not NAME=VALUE with a name of letters, digits and '_'",
                                (int) MIN(strcspn(a, "="), (size_t) 64),
                                environment_text_is_valid(a) ? a : "(binary)");
                return -EINVAL;
        }
        if (strlen(a) > ENVIRONMENT_ASSIGNMENT_MAX) {
                (void) snprintf(why, 256, "variable %.*s is longer than %d bytes", (int) MIN(n, (size_t) 64),
                                a, ENVIRONMENT_ASSIGNMENT_MAX);
                return -EINVAL;
        }
        if (!environment_text_is_valid(a + n + 1)) {
                (void) snprintf(why, 256, "variable %.*s holds bytes that are not UTF-8 text",
                                (int) MIN(n, (size_t) 64), a);
                return -EINVAL;
        }
        return 0;
}

/* --- Building ------------------------------------------------------------------------------------------ */

static struct environment_entry *find(const struct environment *e, const char *assignment) {
        size_t n = name_length(assignment) + 1;

        for (size_t i = 0; i < e->n; i++)
                if (strncmp(e->entries[i].assignment, assignment, n) == 0)
                        return &e->entries[i];
        return NULL;
}

static int append(struct environment *e, const char *assignment, const char *reason) {
        struct environment_entry *entries = realloc(e->entries, (e->n + 1) * sizeof(*entries));
        struct environment_entry *entry;

        if (!entries)
                return -ENOMEM;
        e->entries = entries;
        entry = &entries[e->n];
        *entry = (struct environment_entry){ .assignment = strdup(assignment), .reason = strdup(reason) };
        e->n++;
        return entry->assignment && entry->reason ? 0 : -ENOMEM;
}

static int add_user(struct environment *e, const char *assignment) {
        struct environment_entry *known = find(e, assignment);
        char *copy;

        if (!known)
                return append(e, assignment, "set by the user");
        copy = strdup(assignment);
        if (!copy)
                return -ENOMEM;
        free(known->assignment);
        known->assignment = copy;
        return 0;
}

/* Adds one of our variables, unless the user has it; a different value of theirs is kept and said. */
static int add_ours(struct environment *e, const char *name, const char *value, const char *reason) {
        _cleanup_free_ char *assignment = NULL;
        struct environment_entry *theirs;

        if (asprintf(&assignment, "%s=%s", name, value) < 0) {
                assignment = NULL;
                return -ENOMEM;
        }
        if (strlen(assignment) > ENVIRONMENT_ASSIGNMENT_MAX)
                return -E2BIG;
        theirs = find(e, assignment);
        if (!theirs)
                return append(e, assignment, reason);
        if (streq(theirs->assignment, assignment))
                return 0;
        if (asprintf(&theirs->conflict, "yours '%.200s' kept, ours would be '%.200s' (%s)",
                     theirs->assignment + strlen(name) + 1, value, reason) < 0) {
                theirs->conflict = NULL;
                return -ENOMEM;
        }
        return 0;
}

static int missing(enum framework f, enum identity_field field, char why[static 256]) {
        (void) snprintf(why, 256, "a %s run needs %s, which this host does not know; %s", framework_name(f),
                        identity_field_name(field), REMEDY);
        return -ENODATA;
}

/* The variables that any program may use; a framework that reads them as a whole needs each. */
static int add_identity(const struct identity *i, enum framework f, struct environment *e,
                        char why[static 256]) {
        static const struct {
                const char *name;
                enum identity_field field;
                bool by_jax;
        } variables[] = {
                { "TPU_NAME", IDENTITY_SLICE_NAME, false },
                { "TPU_ACCELERATOR_TYPE", IDENTITY_ACCELERATOR_TYPE, true },
                { "TPU_TOPOLOGY", IDENTITY_TOPOLOGY, true },
                { "TPU_WORKER_ID", IDENTITY_WORKER_ID, true },
                { "TPU_WORKER_HOSTNAMES", IDENTITY_WORKER_HOSTNAMES, true },
        };

        for (size_t v = 0; v < ELEMENTSOF(variables); v++) {
                const struct identity_value *known = &i->fields[variables[v].field];
                char reason[192];
                int r;

                if (!known->text && f == FRAMEWORK_JAX && variables[v].by_jax)
                        return missing(f, variables[v].field, why);
                if (!known->text)
                        continue;
                (void) snprintf(reason, sizeof(reason), "%s from %s",
                                identity_field_name(variables[v].field), known->origin);
                r = add_ours(e, variables[v].name, known->text, reason);
                if (r == -E2BIG)
                        (void) snprintf(why, 256, "%s is longer than a variable can be", variables[v].name);
                if (r < 0)
                        return r == -E2BIG ? -ENODATA : r;
        }
        return 0;
}

/* The box of chips of this host, and of hosts in the slice. */
static int shapes(const struct identity *i, struct shape *ret_host, struct shape *ret_slice,
                  char why[static 256]) {
        const char *topology = identity_get(i, IDENTITY_TOPOLOGY);
        struct shape host, slice, whole;
        uint32_t chips = 0;

        if (identity_get_u32(i, IDENTITY_CHIPS, &chips) < 0)
                return missing(FRAMEWORK_JAX, IDENTITY_CHIPS, why);
        if (shape_of_host(chips, &host) < 0) {
                (void) snprintf(why, 256,
                                "a jax run needs chips 1, 2, 4 or 8, this host says %" PRIu32 " (%s)", chips,
                                i->fields[IDENTITY_CHIPS].origin);
                return -ENODATA;
        }
        if (shape_parse_topology(topology, &whole) < 0 || shape_hosts(&whole, &host, &slice) < 0) {
                (void) snprintf(why, 256,
                                "a jax run needs a topology that hosts of %" PRIu32
                                " chips fill, this one is %s (%s)",
                                chips, topology, i->fields[IDENTITY_TOPOLOGY].origin);
                return -ENODATA;
        }
        *ret_host = host;
        *ret_slice = slice;
        return 0;
}

static int add_jax(const struct identity *i, struct environment *e, char why[static 256]) {
        const char *type = identity_get(i, IDENTITY_ACCELERATOR_TYPE);
        char box[SHAPE_TEXT_MAX], hosts[SHAPE_TEXT_MAX], from[96];
        struct shape host, slice;
        int r;

        r = shapes(i, &host, &slice, why);
        if (r < 0)
                return r;
        (void) shape_text(&host, box);
        (void) shape_text(&slice, hosts);
        (void) snprintf(from, sizeof(from), "topology %.24s in hosts of %.4s chips",
                        identity_get(i, IDENTITY_TOPOLOGY), identity_get(i, IDENTITY_CHIPS));

        /* The seventh generation's process bounds have a fourth number that no public source explains: left
         * out. */
        const bool seventh = startswith(type, "tpu7") || startswith(type, "v7");
        const struct {
                const char *name, *value, *reason;
                bool wanted;
        } ours[] = {
                { "TPU_CHIPS_PER_HOST_BOUNDS", box, from, true },
                { "TPU_HOST_BOUNDS", hosts, from, true },
                { "TPU_CHIPS_PER_PROCESS_BOUNDS", box, "one process per host", !seventh },
                { "TPU_PROCESS_BOUNDS", hosts, "one process per host", !seventh },
                { "TPU_SKIP_MDS_QUERY", "1", "the variables here are complete: no metadata server is asked",
                  true },
                { "JAX_PLATFORMS", "tpu,cpu",
                  "a TPU that does not start is an error, never a run on the CPU", true },
        };

        for (size_t v = 0; v < ELEMENTSOF(ours); v++) {
                if (!ours[v].wanted)
                        continue;
                r = add_ours(e, ours[v].name, ours[v].value, ours[v].reason);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_framework(const struct identity *i, enum framework f, struct environment *e,
                         char why[static 256]) {
        switch (f) {
        case FRAMEWORK_PLAIN:
                return 0;
        case FRAMEWORK_JAX:
                return add_jax(i, e, why);
        case _FRAMEWORK_MAX:
                break;
        }
        return -EINVAL;
}

int environment_build(const struct identity *i, enum framework f, const char *const *user, size_t n_user,
                      struct environment *ret, char why[static 256]) {
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        int r;

        why[0] = '\0';
        if (n_user > ENVIRONMENT_USER_MAX) {
                (void) snprintf(why, 256, "%zu variables are more than %d", n_user, ENVIRONMENT_USER_MAX);
                return -EINVAL;
        }
        for (size_t u = 0; u < n_user; u++) {
                r = check_assignment(user[u], why);
                if (r < 0)
                        return r;
                r = add_user(&e, user[u]);
                if (r < 0)
                        return r;
        }
        r = add_identity(i, f, &e, why);
        if (r < 0)
                return r;
        r = add_framework(i, f, &e, why);
        if (r < 0)
                return r;
        *ret = e;
        e = ENVIRONMENT_NULL;
        return 0;
}

void environment_clear(struct environment *e) {
        for (size_t i = 0; i < e->n; i++) {
                free(e->entries[i].assignment);
                free(e->entries[i].reason);
                free(e->entries[i].conflict);
        }
        free(e->entries);
        *e = ENVIRONMENT_NULL;
}
