/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

#include <fcntl.h>

#include "grow.h"
#include "io.h"

void ends_clear(struct ends *e) {
        free(e->wanted);
        free(e->items);
        *e = (struct ends){ 0 };
}

/* --- What is looked for ------------------------------------------------------------------------------- */

static int compare_wanted(const void *a, const void *b) {
        const struct end_wanted *x = a, *y = b;

        return COMPARE(x->kind, y->kind) ?: COMPARE(x->space, y->space) ?: COMPARE(x->number, y->number);
}

int ends_want(struct ends *e, const struct waits *w) {
        for (size_t i = 0; i < w->n; i++) {
                const struct thread_wait *t = &w->items[i];
                const char *slash = strrchr(t->text, '/');
                struct end_wanted *to;

                if ((t->w.kind != WAIT_PIPE && t->w.kind != WAIT_EVENTFD) || t->w.number == 0)
                        continue;
                if (e->n_wanted == ENDS_WANTED_MAX) {
                        e->cut = true;
                        return 0;
                }
                if (grow(&e->wanted, &e->wanted_size, e->n_wanted + 1, sizeof(*e->wanted)) < 0)
                        return -ENOMEM;
                to = &e->wanted[e->n_wanted++];
                *to = (struct end_wanted){ .kind = t->w.kind, .space = t->w.space, .number = t->w.number };
                (void) snprintf(to->name, sizeof(to->name), "%.63s", slash ? slash + 1 : "");
        }
        return 0;
}

static void sort_wanted(struct ends *e) {
        size_t kept = 0;

        if (e->n_wanted == 0)
                return;
        qsort(e->wanted, e->n_wanted, sizeof(*e->wanted), compare_wanted);
        for (size_t i = 0; i < e->n_wanted; i++)
                if (kept == 0 || compare_wanted(&e->wanted[i], &e->wanted[kept - 1]) != 0)
                        e->wanted[kept++] = e->wanted[i];
        e->n_wanted = kept;
}

static bool is_wanted(const struct ends *e, uint8_t kind, uint64_t space, uint64_t number) {
        struct end_wanted key = { .kind = kind, .space = space, .number = number };

        return e->n_wanted > 0 &&
               bsearch(&key, e->wanted, e->n_wanted, sizeof(key), compare_wanted) != NULL;
}

static bool wants_name(const struct ends *e, const char *link) {
        const char *slash = strrchr(link, '/');

        for (size_t i = 0; i < e->n_wanted && slash; i++)
                if (e->wanted[i].space != 0 &&
                    strncmp(e->wanted[i].name, slash + 1, sizeof(e->wanted[i].name) - 1) == 0)
                        return true;
        return false;
}

/* --- The processes ------------------------------------------------------------------------------------ */

struct looking {
        struct ends *ends;
        struct process process;
        struct mounts mounts; /* of the process, when they were needed */
        size_t first;         /* of ends->items: those of the process */
        bool eventfds, fifos; /* some are wanted */
};

static int add_end(struct looking *l, uint8_t kind, const struct descriptor *d) {
        struct ends *e = l->ends;
        struct end_found *to;

        for (size_t i = l->first; i < e->n; i++)
                if (e->items[i].e.kind == kind && e->items[i].e.number == d->number &&
                    e->items[i].e.space == d->space) {
                        e->items[i].e.reads |= d->reads;
                        e->items[i].e.writes |= d->writes;
                        return 0;
                }
        if (e->n == ENDS_MAX) {
                e->cut = true;
                return 0;
        }
        if (grow(&e->items, &e->size, e->n + 1, sizeof(*e->items)) < 0)
                return -ENOMEM;
        to = &e->items[e->n++];
        to->e = (struct captured_end){ .kind = kind,
                                       .reads = d->reads,
                                       .writes = d->writes,
                                       .pid = (uint32_t) l->process.pid,
                                       .space = d->space,
                                       .number = d->number };
        process_command(&l->process, to->command);
        return 0;
}

static int look_at(uint32_t fd, void *userdata) {
        struct looking *l = userdata;
        struct descriptor d;
        uint8_t kind;

        if (descriptor_link(&l->process, fd, &d) < 0)
                return 0;
        if (d.kind == DESCRIPTOR_PIPE ? !is_wanted(l->ends, WAIT_PIPE, 0, d.number)
            : d.kind == DESCRIPTOR_EVENTFD
                    ? !l->eventfds
                    : d.kind != DESCRIPTOR_FILE || !l->fifos || !wants_name(l->ends, d.link))
                return 0;
        if (d.kind == DESCRIPTOR_FILE && l->mounts.n == 0)
                (void) mounts_read(&l->process, &l->mounts); /* unknown ones are not looked at */
        if (descriptor_read(&l->process, &l->mounts, fd, &d) < 0)
                return 0;
        kind = d.kind == DESCRIPTOR_EVENTFD ? WAIT_EVENTFD : WAIT_PIPE;
        return is_wanted(l->ends, kind, d.space, d.number) ? add_end(l, kind, &d) : 0;
}

static int look_at_process(const struct host *h, pid_t pid, struct looking *l) {
        char path[32];
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d", (int) pid);
        l->process =
                (struct process){ .pid = pid, .dir_fd = host_open_file(h, path, O_RDONLY | O_DIRECTORY) };
        l->first = l->ends->n;
        if (l->process.dir_fd < 0)
                return 0; /* it has ended */
        r = descriptors_visit(&l->process, look_at, l);
        mounts_clear(&l->mounts);
        process_close(&l->process);
        return r == -ENOMEM ? r : 0; /* what we may not look at has no end that we know */
}

int ends_search(const struct host *h, struct ends *e) {
        usec_t end = host_now(h) + ENDS_USEC;
        struct looking l = { .ends = e };
        _cleanup_closedir_ DIR *d = NULL;
        int r;

        sort_wanted(e);
        if (e->n_wanted == 0)
                return 0;
        for (size_t i = 0; i < e->n_wanted; i++) {
                l.eventfds |= e->wanted[i].kind == WAIT_EVENTFD;
                l.fifos |= e->wanted[i].space != 0;
        }
        r = io_directory(host_open_file(h, "/proc", O_RDONLY | O_DIRECTORY), &d);
        if (r < 0)
                return r;
        for (const struct dirent *entry; r == 0 && !e->cut && (entry = readdir(d));) {
                if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
                        continue;
                e->cut = host_now(h) > end;
                r = look_at_process(h, (pid_t) strtol(entry->d_name, NULL, 10), &l);
        }
        return r;
}
