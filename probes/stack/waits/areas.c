/* SPDX-License-Identifier: Apache-2.0 */
#include "areas.h"

#include <fcntl.h>

#include "grow.h"
#include "utf8.h"

static int add_area(const struct mapping *m, void *userdata) {
        const char *slash = strrchr(m->path, '/');
        struct areas *a = userdata;
        struct area *to;

        if (a->n == AREAS_MAX)
                return 1;
        if (grow(&a->items, &a->size, a->n + 1, sizeof(*a->items)) < 0)
                return -ENOMEM;
        to = &a->items[a->n++];
        *to = (struct area){ .start = m->start,
                             .end = m->end,
                             .offset = m->offset,
                             .inode = m->inode,
                             .device = m->device,
                             .shared = m->shared,
                             .executable = m->executable };
        (void) snprintf(to->name, sizeof(to->name), "%.55s", slash ? slash + 1 : m->path);
        utf8_mend(to->name);
        return 0;
}

int areas_read(const struct process *p, struct areas *ret) {
        _cleanup_close_ int fd = openat(p->dir_fd, "maps", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        bool empty;

        return fd < 0 ? -errno : MIN(maps_read(fd, add_area, ret, &empty), 0);
}

void areas_clear(struct areas *a) {
        free(a->items);
        *a = (struct areas){ 0 };
}

/* They are in order of address. */
const struct area *areas_find(const struct areas *a, uint64_t address) {
        size_t at = SORTED_PLACE(a->n, i, a->items[i].end <= address);

        return at < a->n && a->items[at].start <= address ? &a->items[at] : NULL;
}

uint64_t areas_start(const struct areas *a, const struct area *of) {
        const struct area *first = of;

        while (first > a->items && first->offset > 0 && first[-1].inode == of->inode &&
               first[-1].device == of->device)
                first--;
        return first->start;
}
