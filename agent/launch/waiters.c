/* SPDX-License-Identifier: Apache-2.0 */
#include "waiters.h"

static void waiter_drop(struct waiter *w) {
        (void) strings_free(w->conflicts);
        (void) lines_free(w->lines);
        free(w);
}

struct waiter *waiter_new(struct waiters *all, struct frame_peer *peer, enum action action,
                          const char *name) {
        struct waiter *w = calloc(1, sizeof(*w));

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

void waiter_free(struct waiter *w) {
        for (struct waiter **p = &w->owner->first; *p; p = &(*p)->next)
                if (*p == w) {
                        *p = w->next;
                        break;
                }
        frame_peer_set_state(w->peer, NULL);
        waiter_drop(w);
}

struct waiter *waiter_find(const struct waiters *all, enum action action, const char *name) {
        for (struct waiter *w = all->first; w; w = w->next)
                if (w->action == action && streq(w->name, name))
                        return w;
        return NULL;
}

void waiters_clear(struct waiters *all) {
        while (all->first) {
                struct waiter *w = all->first;

                all->first = w->next;
                waiter_drop(w);
        }
}
