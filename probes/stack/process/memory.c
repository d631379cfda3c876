/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <assert.h>

#include "clock.h"
#include "grow.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define TABLE_LEAST 512u                  /* slots; a power of two, at most half full */
#define BATCH 512u                        /* pages of one call; the kernel's limit is 1024 (IOV_MAX) */
#define SLAB_PAGES 16u
#define WANTED_MAX 4u /* pages of one memory_want() */

void memory_init(struct memory *m, struct memory_source source) {
        *m = (struct memory) { .source = source, .ahead = MEMORY_AHEAD_MAX, .sides = 1 };
}

void memory_clear(struct memory *m) {
        for (size_t i = 0; i < m->n_slabs; i++)
                (void) munmap(m->slabs[i], SLAB_PAGES * MEMORY_PAGE); /* ours, whole: cannot fail */
        free(m->slabs);
        free(m->pages);
        free(m->table);
        *m = (struct memory) { 0 };
}

/* Room for one page. By slabs whose pages are there at once: page faults are most of what a short program
 * costs. */
static uint8_t *page_room(struct memory *m) {
        if (m->n_slabs == 0 || m->slab_used == SLAB_PAGES) {
                void *slab;

                if (grow(&m->slabs, &m->slabs_size, m->n_slabs + 1, sizeof(*m->slabs)) < 0)
                        return NULL;
                slab = mmap(NULL, SLAB_PAGES * MEMORY_PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
                if (slab == MAP_FAILED)
                        return NULL;
                m->slabs[m->n_slabs++] = slab;
                m->slab_used = 0;
        }
        return m->slabs[m->n_slabs - 1] + m->slab_used++ * MEMORY_PAGE;
}

static ssize_t process_readv(void *userdata, const struct iovec *local, const struct iovec *remote,
                             size_t n) {
        ssize_t r = process_vm_readv(*(pid_t *) userdata, local, n, remote, n, 0);

        return r < 0 ? -errno : r;
}

static uint64_t monotonic_ns(void) {
        return clock_ns(CLOCK_MONOTONIC);
}

struct memory_source memory_source_process(pid_t *pid_slot) {
        return (struct memory_source) { process_readv, pid_slot, monotonic_ns };
}

/* Where number is, or where it would be put. */
static uint32_t *table_slot(struct memory *m, uint64_t number) {
        uint64_t i = (number * UINT64_C(0x9E3779B97F4A7C15)) >> 32;

        for (;; i++) {
                uint32_t *slot = &m->table[i & (m->table_size - 1)];

                if (*slot == 0 || m->pages[*slot - 1].number == number)
                        return slot;
        }
}

static void table_fill(struct memory *m) {
        memset(m->table, 0, m->table_size * sizeof(*m->table));
        for (size_t i = 0; i < m->n_pages; i++)
                *table_slot(m, m->pages[i].number) = (uint32_t) i + 1;
}

/* Room for n pages more in the list and the table. */
static int make_room_for_pages(struct memory *m, size_t n) {
        size_t size = m->pages_size, table_size = MAX(m->table_size, (size_t) TABLE_LEAST);
        uint32_t *table;

        if (grow(&m->pages, &m->pages_size, m->n_pages + n, sizeof(*m->pages)) < 0)
                return -ENOMEM;
        if (m->pages_size > size)
                memset(m->pages + size, 0, (m->pages_size - size) * sizeof(*m->pages));
        while (table_size < 2 * (m->n_pages + n))
                table_size *= 2;
        if (table_size == m->table_size)
                return 0;
        table = realloc(m->table, table_size * sizeof(*table));
        if (!table)
                return -ENOMEM;
        m->table = table;
        m->table_size = table_size;
        table_fill(m);
        return 0;
}

/* After make_room_for_pages(). A page that is there already stays. */
static int page_add(struct memory *m, uint64_t number) {
        uint32_t *slot = table_slot(m, number);
        struct memory_page *page = &m->pages[m->n_pages];

        if (*slot)
                return 0;
        for (unsigned side = 0; side < m->sides; side++)
                if (!page->data[side] && !(page->data[side] = page_room(m)))
                        return -ENOMEM;
        page->number = number;
        page->present = page->used = false;
        *slot = (uint32_t) ++m->n_pages;
        return 0;
}

/*
 * Asks the target for n parts of one page each; done[i] says whether part i came. In as few calls as the
 * holes among them allow.
 */
static int parts_fetch(struct memory *m, const struct iovec *local, const struct iovec *remote, size_t n,
                       bool *done) {
        for (size_t at = 0; at < n;) {
                size_t got;
                ssize_t r;

                if (m->bytes_read + (n - at) * MEMORY_PAGE > MEMORY_READ_MAX)
                        return -E2BIG;
                m->bytes_read += (n - at) * MEMORY_PAGE;
                r = m->source.readv(m->source.userdata, local + at, remote + at, n - at);
                if (r < 0 && r != -EFAULT)
                        return (int) r;
                got = r < 0 ? 0 : (size_t) r / MEMORY_PAGE;
                for (size_t i = 0; i < got && at + i < n; i++)
                        done[at + i] = true;
                at += got + 1; /* the part after the last whole one could not be read */
        }
        return 0;
}

/*
 * Which page is the i-th to be copied. One side: in their order. Two: the first side backwards, then the
 * second forwards. What was read first, the thread and its innermost frames, changes most often, and so has
 * its two copies next to each other; those of a caller lie around those of what it calls, so that a caller
 * that is the same in both was so when the other was copied.
 */
static size_t nth(size_t i, size_t n, unsigned sides) {
        return sides == 1 ? i : i < n ? n - 1 - i : i - n;
}

/* Fills pages [first, first + n) on sides 0 to sides - 1, n * sides ≤ BATCH. */
static int pages_fill(struct memory *m, size_t first, size_t n, unsigned sides) {
        struct iovec local[BATCH], remote[BATCH];
        bool done[BATCH] = { false };
        int r;

        assert(n * sides <= BATCH && first + n <= m->n_pages);
        for (size_t i = 0; i < n * sides; i++) {
                struct memory_page *p = &m->pages[first + nth(i, n, sides)];

                local[i] = (struct iovec) { p->data[i / n], MEMORY_PAGE };
                remote[i] = (struct iovec) { (void *) (uintptr_t) (p->number * MEMORY_PAGE), MEMORY_PAGE };
        }
        r = parts_fetch(m, local, remote, n * sides, done);
        for (size_t i = 0; i < n; i++)
                m->pages[first + i].present = true;
        for (size_t i = 0; i < n * sides; i++)
                if (!done[i])
                        m->pages[first + nth(i, n, sides)].present = false;
        return r;
}

/* All that was asked for and is not there yet. */
static int fill_up(struct memory *m) {
        while (m->n_filled < m->n_pages) {
                size_t n = MIN(m->n_pages - m->n_filled, (size_t) (BATCH / m->sides));
                int r = pages_fill(m, m->n_filled, n, m->sides);

                if (r < 0)
                        return r;
                m->n_filled += n;
        }
        return 0;
}

static int page_miss(struct memory *m, uint64_t number) {
        int r;

        if (m->n_pages + m->ahead > MEMORY_PAGES_MAX)
                memory_forget(m);
        r = make_room_for_pages(m, m->ahead);
        for (uint64_t i = 0; r == 0 && i < m->ahead && i <= number; i++)
                r = page_add(m, number - i);
        return r;
}

static int page_get(struct memory *m, uint64_t number, const struct memory_page **ret) {
        uint32_t at = m->table ? *table_slot(m, number) : 0;
        struct memory_page *page;
        int r = 0;

        if (!at) {
                r = page_miss(m, number);
                if (r < 0)
                        return r;
                at = *table_slot(m, number);
        }
        if (at > m->n_filled)
                r = fill_up(m);
        if (r < 0)
                return r;
        *ret = page = &m->pages[at - 1];
        page->used = true;
        return page->present ? 0 : -EFAULT;
}

int memory_want(struct memory *m, uint64_t address, size_t len) {
        uint64_t first = address / MEMORY_PAGE, last;
        int r;

        if (len == 0 || len - 1 > UINT64_MAX - address || m->n_pages + WANTED_MAX > MEMORY_PAGES_MAX)
                return 0;
        last = MIN((address + len - 1) / MEMORY_PAGE, first + WANTED_MAX - 1);
        r = make_room_for_pages(m, WANTED_MAX);
        for (uint64_t i = first; r == 0 && i <= last; i++)
                r = page_add(m, i);
        return r;
}

int memory_read(struct memory *m, uint64_t address, void *buf, size_t len) {
        uint8_t *to = buf;

        if (len > UINT64_MAX - address)
                return -EFAULT;
        while (len > 0) {
                size_t offset = (size_t) (address % MEMORY_PAGE);
                size_t part = MIN(len, MEMORY_PAGE - offset);
                const struct memory_page *page;
                int r = page_get(m, address / MEMORY_PAGE, &page);

                if (r < 0)
                        return r;
                memcpy(to, page->data[m->side] + offset, part);
                to += part;
                address += part;
                len -= part;
        }
        return 0;
}

int memory_read_many(struct memory *m, const struct iovec *local, const uint64_t *remote, size_t n) {
        struct iovec from[MEMORY_MANY_MAX];
        size_t wanted = 0;
        ssize_t r;

        if (n > ELEMENTSOF(from))
                return -E2BIG;
        for (size_t i = 0; i < n; i++) {
                from[i] = (struct iovec) { (void *) (uintptr_t) remote[i], local[i].iov_len };
                wanted += local[i].iov_len;
        }
        if (m->bytes_read + wanted > MEMORY_READ_MAX)
                return -E2BIG;
        m->bytes_read += wanted;
        r = m->source.readv(m->source.userdata, local, from, n);
        if (r < 0)
                return (int) r;
        return (size_t) r == wanted ? 0 : -EFAULT;
}

int memory_read_u64(struct memory *m, uint64_t address, uint64_t *ret) {
        uint64_t v;
        int r = memory_read(m, address, &v, sizeof(v));

        if (r < 0)
                return r;
        *ret = v;
        return 0;
}

/* The room of those that are dropped goes behind the others. */
static void drop_unused(struct memory *m) {
        size_t kept = 0;

        for (size_t i = 0; i < m->n_pages; i++)
                if (m->pages[i].used) {
                        struct memory_page page = m->pages[i];

                        page.used = false;
                        m->pages[i] = m->pages[kept];
                        m->pages[kept++] = page;
                }
        m->n_pages = kept;
        if (m->table)
                table_fill(m);
}

int memory_refresh(struct memory *m) {
        m->side = 0;
        m->sides = 1;
        drop_unused(m);
        m->n_filled = 0;
        return fill_up(m);
}

int memory_renew(struct memory *m) {
        m->bytes_read = 0;
        return memory_refresh(m);
}

/* How often this thread has stopped running. */
static long switches(void) {
        struct rusage u;

        return getrusage(RUSAGE_THREAD, &u) == 0 ? u.ru_nivcsw + u.ru_nvcsw : 0;
}

/*
 * Whether something came between: the copies took half as long again as the quickest ones so far, by their
 * number. Before the first there is nothing to compare with.
 */
static bool took_long(struct memory *m, uint64_t ns) {
        uint64_t each = ns / (m->n_pages + 2); /* a call costs as much as two pages */
        bool first = m->quickest == 0;

        if (first || each < m->quickest)
                m->quickest = MAX(each, (uint64_t) 1);
        return first || each > m->quickest + m->quickest / 2;
}

int memory_refresh_twice(struct memory *m) {
        uint64_t start = 0;
        long before;
        int r;

        m->side = 0;
        m->sides = 2;
        if (m->n_pages > BATCH / 2)
                return -E2BIG;
        for (size_t i = 0; i < m->n_pages; i++)
                if (!m->pages[i].data[1] && !(m->pages[i].data[1] = page_room(m)))
                        return -ENOMEM;
        if (m->n_pages == 0)
                return 0;
        m->n_filled = m->n_pages;
        before = switches();
        if (m->source.now)
                start = m->source.now();
        r = pages_fill(m, 0, m->n_pages, 2);
        m->disturbed = (m->source.now && took_long(m, m->source.now() - start)) || switches() != before;
        return r;
}

void memory_forget(struct memory *m) {
        if (m->n_pages > 0)
                memset(m->table, 0, m->table_size * sizeof(*m->table));
        m->n_pages = m->n_filled = 0;
        m->side = 0;
        m->sides = 1;
}
