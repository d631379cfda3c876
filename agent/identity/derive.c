/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from what is known, and what the environment of the asking command says. */
#include "identity.h"
#include "topology.h"

/* Fills a field that is not known; from: the field that it follows from. */
static int derive_field(struct identity *i, enum identity_field f, const char *text,
                        enum identity_field from) {
        char origin[64];

        if (identity_get(i, f))
                return 0;
        (void) snprintf(origin, sizeof(origin), "from %s", identity_field_name(from));
        return identity_add(i, f, text, origin);
}

static int derive_chips(struct identity *i) {
        const char *bounds = identity_get(i, IDENTITY_CHIPS_PER_HOST_BOUNDS);
        const char *machine = identity_get(i, IDENTITY_MACHINE_TYPE);
        enum generation g;
        struct shape box;
        uint32_t chips;
        char text[16];

        if (bounds && shape_parse_bounds(bounds, &box) == 0)
                chips = shape_count(&box);
        else if (!machine || topology_machine(machine, &g, &chips) < 0)
                return 0;
        (void) snprintf(text, sizeof(text), "%" PRIu32, chips);
        return derive_field(i, IDENTITY_CHIPS, text,
                            bounds ? IDENTITY_CHIPS_PER_HOST_BOUNDS : IDENTITY_MACHINE_TYPE);
}

static int derive_shape(struct identity *i) {
        const char *type = identity_get(i, IDENTITY_ACCELERATOR_TYPE);
        char text[SHAPE_TEXT_MAX], wrap[TOPOLOGY_WRAP_MAX], why[TOPOLOGY_WHY_MAX], chips[16];
        bool said = identity_get(i, IDENTITY_TOPOLOGY);
        struct accelerator a;
        struct topology t;
        uint32_t n = 0;
        int r;

        (void) identity_get_u32(i, IDENTITY_CHIPS, &n); /* not known: the usual number */
        if (!type || accelerator_parse(type, &a) < 0 ||
            topology_of(&a, identity_get(i, IDENTITY_TOPOLOGY), n, &t, why) < 0)
                return 0; /* identity_check() says what does not fit */
        (void) snprintf(chips, sizeof(chips), "%" PRIu32, t.chips_per_host);
        r = derive_field(i, IDENTITY_TOPOLOGY, topology_size_text(a.generation, &t.size, text),
                         IDENTITY_ACCELERATOR_TYPE);
        if (r < 0 ||
            (n == 0 && t.chips_per_host == 8)) /* one host of 8 chips, or two of 4: only the host knows */
                return r;
        if (r == 0)
                r = derive_field(i, IDENTITY_CHIPS, chips, IDENTITY_ACCELERATOR_TYPE);
        if (r == 0)
                r = derive_field(i, IDENTITY_CHIPS_PER_HOST_BOUNDS, shape_text(&t.box, text),
                                 IDENTITY_CHIPS);
        if (r == 0)
                r = derive_field(i, IDENTITY_HOST_BOUNDS, shape_text(&t.hosts, text),
                                 said ? IDENTITY_TOPOLOGY : IDENTITY_ACCELERATOR_TYPE);
        if (r < 0 || !t.wrap_known)
                return r;
        return derive_field(i, IDENTITY_TOPOLOGY_WRAP, topology_wrap_text(&t, wrap),
                            said ? IDENTITY_TOPOLOGY : IDENTITY_ACCELERATOR_TYPE);
}

int identity_derive(struct identity *i) {
        int r;

        for (enum identity_field f = 0; f < _IDENTITY_FIELD_MAX; f++)
                if (identity_is_derived(i, f))
                        free(TAKE_PTR(i->fields[f].text));
        r = derive_chips(i);
        return r < 0 ? r : derive_shape(i);
}

/* --- The environment of the asking command ------------------------------------------------------------- */

int identity_add_environment(struct identity *i, char *const *environment, char bad[static 128]) {
        static const struct {
                const char *name;
                enum identity_field field;
        } variables[] = {
                { "TPU_NAME", IDENTITY_SLICE_NAME },
                { "TPU_ACCELERATOR_TYPE", IDENTITY_ACCELERATOR_TYPE },
                { "TPU_TOPOLOGY", IDENTITY_TOPOLOGY },
                { "TPU_TOPOLOGY_WRAP", IDENTITY_TOPOLOGY_WRAP },
                { "TPU_WORKER_ID", IDENTITY_WORKER_ID },
                { "TPU_WORKER_HOSTNAMES", IDENTITY_WORKER_HOSTNAMES },
                { "TPU_CHIPS_PER_HOST_BOUNDS", IDENTITY_CHIPS_PER_HOST_BOUNDS },
                { "TPU_HOST_BOUNDS", IDENTITY_HOST_BOUNDS },
                { "ENABLE_ICI_RESILIENCY", IDENTITY_ICI_RESILIENCY },
                { "MEGASCALE_NUM_SLICES", IDENTITY_SLICES },
                { "MEGASCALE_SLICE_ID", IDENTITY_SLICE_ID },
                { "MEGASCALE_COORDINATOR_ADDRESS", IDENTITY_COORDINATOR },
        };

        bad[0] = '\0';
        for (size_t v = 0; v < ELEMENTSOF(variables); v++)
                for (char *const *p = environment; *p; p++) {
                        size_t n = strlen(variables[v].name);
                        char origin[64];
                        int r;

                        if (strncmp(*p, variables[v].name, n) != 0 || (*p)[n] != '=' || !(*p)[n + 1])
                                continue;
                        (void) snprintf(origin, sizeof(origin), "environment %s", variables[v].name);
                        r = identity_add(i, variables[v].field, *p + n + 1, origin);
                        if (r == -ENOMEM)
                                return r;
                        if (r < 0)
                                (void) snprintf(bad, 128, "%s cannot be %s: it is passed over",
                                                variables[v].name, identity_field_name(variables[v].field));
                        break;
                }
        return identity_derive(i);
}
