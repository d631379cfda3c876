/* SPDX-License-Identifier: Apache-2.0 */
#include "episode_list.h"

#include "episodes.h"

struct episode *episode_find(struct episode *first, const char *id) {
        for (struct episode *x = first; x; x = x->next)
                if (streq(x->id, id))
                        return x;
        return NULL;
}

static void episode_free(struct episode *x) {
        json_decref(x->expected);
        json_decref(x->pausing);
        json_decref(x->working);
        free(x);
}

/* The oldest beyond the limit; one that is looked at stays. */
static void make_room(struct episode **at, const struct episode *looking) {
        for (size_t n = 0; *at && n < EPISODES_OPEN_MAX - 1; n++)
                at = &(*at)->next;
        while (*at) {
                struct episode *x = *at;

                if (x == looking) {
                        at = &x->next;
                        continue;
                }
                *at = x->next;
                episode_free(x);
        }
}

struct episode *episode_add(struct episode **first, const char *id, const struct episode *looking, usec_t now) {
        struct episode *x = calloc(1, sizeof(*x));

        if (!x)
                return NULL;
        make_room(first, looking);
        *x = (struct episode){ .next = *first, .due = USEC_INFINITY, .rounds = 2, .generation = -1, .made = now };
        (void) snprintf(x->id, sizeof(x->id), "%s", id);
        *first = x;
        return x;
}

void episode_list_clear(struct episode **first) {
        while (*first) {
                struct episode *x = *first;

                *first = x->next;
                episode_free(x);
        }
}
