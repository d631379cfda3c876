/* SPDX-License-Identifier: Apache-2.0 */
#include "askers.h"

static void asker_drop(struct asker *w) {
        (void) strings_free(w->conflicts);
        (void) lines_free(w->lines);
        free(w);
}

struct asker *asker_new(struct askers *all, struct frame_peer *peer, enum action action,
                          const char *name) {
        struct asker *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        w->owner = all;
        w->peer = peer;
        w->action = action;
        (void) snprintf(w->name, sizeof(w->name), "%s", name);
        w->next = all->first;
        all->first = w;
        frame_peer_set_state(peer, w);
        return w;
}

void asker_free(struct asker *w) {
        for (struct asker **p = &w->owner->first; *p; p = &(*p)->next)
                if (*p == w) {
                        *p = w->next;
                        break;
                }
        frame_peer_set_state(w->peer, NULL);
        asker_drop(w);
}

struct asker *asker_find(const struct askers *all, enum action action, const char *name) {
        for (struct asker *w = all->first; w; w = w->next)
                if (w->action == action && streq(w->name, name))
                        return w;
        return NULL;
}

void askers_clear(struct askers *all) {
        while (all->first) {
                struct asker *w = all->first;

                all->first = w->next;
                asker_drop(w);
        }
}
