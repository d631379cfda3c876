/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_place.h"

static size_t count_of(const struct stack_places *p, uid_t owner) {
        size_t n = 0;

        for (size_t i = 0; i < p->n; i++)
                n += p->files[i].owner == owner;
        return n;
}

static struct stack_file *oldest_of_most(struct stack_places *p, size_t *ret_most) {
        struct stack_file *oldest = &p->files[0];
        size_t most = 0;

        for (size_t i = 0; i < p->n; i++) {
                struct stack_file *file = &p->files[i];
                size_t n = count_of(p, file->owner);

                if (n > most || (n == most && file->written < oldest->written))
                        oldest = file;
                most = MAX(most, n);
        }
        *ret_most = most;
        return oldest;
}

struct stack_file *stack_place_of(struct stack_places *p, const char *name, uid_t owner, usec_t written) {
        struct stack_file *place;
        size_t most;

        for (size_t i = 0; i < p->n; i++)
                if (streq(p->files[i].name, name))
                        return &p->files[i];
        if (p->n < STACK_FILES_MAX)
                place = &p->files[p->n++];
        else {
                place = oldest_of_most(p, &most);
                if (count_of(p, owner) + 1 >= most && place->written >= written)
                        return NULL;
        }
        *place = (struct stack_file){ .owner = owner };
        (void) snprintf(place->name, sizeof(place->name), "%s", name);
        return place;
}
