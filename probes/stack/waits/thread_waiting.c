/* SPDX-License-Identifier: Apache-2.0 */
#include "thread_waiting.h"

#include "grow.h"
#include "utf8.h"

int thread_wait_put(struct thread_waiting *t, const struct captured_wait *w, const char *text) {
        struct waits *o = t->out;
        struct waits_span *span = &o->threads[t->task - t->from->tasks->items];
        struct thread_wait *to;
        int r;

        if (o->n - span->first >= WAITS_OF_THREAD || o->n >= WAITS_MAX) {
                o->cut = true;
                return 0;
        }
        r = grow(&o->items, &o->size, o->n + 1, sizeof(*o->items));
        if (r < 0)
                return r;
        to = &o->items[o->n++];
        to->w = *w;
        (void) snprintf(to->text, sizeof(to->text), "%s", text);
        utf8_mend(to->text);
        return 0;
}

bool thread_wait_memory(const struct thread_waiting *t, uint64_t address, void *buf, size_t len) {
        struct iovec local = { buf, len };

        return len == 0 || (t->from->memory && memory_read_many(t->from->memory, &local, &address, 1) == 0);
}
