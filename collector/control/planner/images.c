/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in containers: a name such as train:latest means on each host what its root brought there. The hosts
 * report which image that is with their readiness, and a run does not start on different ones.
 */
#include "json_text.h"
#include "state.h"

#define ID_SHOWN 12 /* digits, as engines show them */

/* Calls visit with each host of the run that says which image it has. Ends at the first that is not 0. */
static int visit_images(const struct gang *g, const struct gang_run *r,
                        int (*visit)(const struct slice *s, const struct slot *slot, const char *image,
                                     void *userdata),
                        void *userdata) {
        const json_t *v;
        size_t i;
        int x = 0;

        json_array_foreach (r->slices, i, v) {
                const struct slice *s = slice_find(g, json_string_value(json_object_get(v, "slice")));
                unsigned n = s ? (unsigned) MIN(json_array_size(json_object_get(v, "hosts")),
                                                (size_t) s->n_slots)
                               : 0;

                for (unsigned w = 0; x == 0 && w < n; w++) {
                        const struct gang_host_run *h = slot_run(slot_at(s, w), r->intent.spec->name);

                        if (h && h->generation == r->generation && h->image[0])
                                x = visit(s, slot_at(s, w), h->image, userdata);
                }
        }
        return x;
}

static int count_image(const struct slice *s, const struct slot *slot, const char *image, void *userdata) {
        json_t *counts = userdata;
        json_int_t n = json_integer_value(json_object_get(counts, image));

        (void) s, (void) slot;
        return json_object_set_new(counts, image, json_integer(n + 1)) < 0 ? -ENOMEM : 0;
}

struct comparison {
        const char *name, *engine, *most; /* most: what most hosts have; of equals, what the first has */
        json_int_t n;                     /* how many */
        json_t *unlike;
};

static int name_unlike(const struct slice *s, const struct slot *slot, const char *image, void *userdata) {
        const struct comparison *c = userdata;
        char who[160];

        if (streq(image, c->most))
                return 0;
        return waits_add(c->unlike,
                         "%s: %s: image %s is %.*s there, and %.*s on %lld other%s\nsudo %s pull %s # there",
                         s->name, slot_text(slot, who), c->name, ID_SHOWN, image, ID_SHOWN, c->most,
                         (long long) c->n, c->n == 1 ? "" : "s", c->engine, c->name);
}

int run_compare_images(const struct gang *g, const struct gang_run *r, json_t **ret_unlike) {
        struct comparison c = { .name = r->intent.spec->image, .engine = r->intent.spec->engine };
        json_t *counts, *n;
        const char *image;
        int x;

        if (!c.name[0])
                return 0;
        counts = json_object();
        x = counts ? visit_images(g, r, count_image, counts) : -ENOMEM;
        json_object_foreach (counts, image, n)
                if (json_integer_value(n) > c.n) {
                        c.n = json_integer_value(n);
                        c.most = image;
                }
        if (x == 0 && json_object_size(counts) > 1) {
                c.unlike = json_array();
                x = c.unlike ? visit_images(g, r, name_unlike, &c) : -ENOMEM;
        }
        json_decref(counts);
        if (x < 0) {
                json_decref(c.unlike);
                return x;
        }
        *ret_unlike = c.unlike;
        return 0;
}
