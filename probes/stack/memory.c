/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#define TABLE_SIZE (MEMORY_PAGES_MAX * 2) /* a power of two, at most half full */
#define BATCH 512u                        /* pages of one call; the kernel's limit is 1024 (IOV_MAX) */

int memory_init(struct memory *m, struct memory_source source) {
        *m = (struct memory) { .source = source, .ahead = MEMORY_AHEAD_MAX };
        m->pages = calloc(MEMORY_PAGES_MAX, sizeof(*m->pages));
        m->table = calloc(TABLE_SIZE, sizeof(*m->table));
        if (!m->pages || !m->table) {
                memory_clear(m);
                return -ENOMEM;
        }
        return 0;
}

void memory_clear(struct memory *m) {
        for (size_t i = 0; i < m->n_allocated; i++)
                free(m->pages[i]);
        free(m->pages);
        free(m->table);
        *m = (struct memory) { 0 };
}

static ssize_t process_readv(void *userdata, const struct iovec *local, const struct iovec *remote, size_t n) {
        ssize_t r = process_vm_readv(*(pid_t *) userdata, local, n, remote, n, 0);

        return r < 0 ? -errno : r;
}

struct memory_source memory_source_process(pid_t *pid_slot) {
        return (struct memory_source) { process_readv, pid_slot };
}

/* Where number is, or where it would be put. */
static uint32_t *table_slot(struct memory *m, uint64_t number) {
        uint64_t i = (number * UINT64_C(0x9E3779B97F4A7C15)) >> 32;

        for (;; i++) {
                uint32_t *slot = &m->table[i & (TABLE_SIZE - 1)];

                if (*slot == 0 || m->pages[*slot - 1]->number == number)
                        return slot;
        }
}

static int page_add(struct memory *m, uint64_t number, struct memory_page **ret) {
        uint32_t *slot = table_slot(m, number);

        if (m->n_pages == m->n_allocated) {
                m->pages[m->n_pages] = malloc(sizeof(struct memory_page));
                if (!m->pages[m->n_pages])
                        return -ENOMEM;
                m->n_allocated++;
        }
        *ret = m->pages[m->n_pages++];
        (*ret)->number = number;
        (*ret)->present = false;
        *slot = (uint32_t) m->n_pages;
        return 0;
}

/* Fills pages [first, first + n), n ≤ BATCH, in as few calls as the holes among them allow. */
static int pages_fill(struct memory *m, size_t first, size_t n) {
        struct iovec local[BATCH], remote[BATCH];
        size_t done = 0;

        for (size_t i = 0; i < n; i++) {
                struct memory_page *p = m->pages[first + i];

                p->present = false;
                local[i] = (struct iovec) { p->data, MEMORY_PAGE };
                remote[i] = (struct iovec) { (void *) (uintptr_t) (p->number * MEMORY_PAGE), MEMORY_PAGE };
        }
        while (done < n) {
                ssize_t r;
                size_t got;

                if (m->bytes_read + (n - done) * MEMORY_PAGE > MEMORY_READ_MAX)
                        return -E2BIG;
                m->bytes_read += (n - done) * MEMORY_PAGE;
                r = m->source.readv(m->source.userdata, local + done, remote + done, n - done);
                if (r < 0 && r != -EFAULT)
                        return (int) r;
                got = r < 0 ? 0 : (size_t) r / MEMORY_PAGE;
                for (size_t i = 0; i < got && done + i < n; i++)
                        m->pages[first + done + i]->present = true;
                done += got + 1; /* the page after the last whole one could not be read */
        }
        return 0;
}

/* The page with that number, and its neighbours with it on a miss. */
static int page_get(struct memory *m, uint64_t number, const struct memory_page **ret) {
        uint32_t *slot = table_slot(m, number);
        uint64_t block = number - number % m->ahead;
        struct memory_page *page;
        size_t first;
        int r;

        if (*slot) {
                *ret = m->pages[*slot - 1];
                return (*ret)->present ? 0 : -EFAULT;
        }
        if (m->n_pages + m->ahead > MEMORY_PAGES_MAX)
                memory_forget(m);
        first = m->n_pages;
        r = page_add(m, number, &page);
        for (uint64_t i = 0; r == 0 && i < m->ahead; i++) {
                struct memory_page *neighbour;

                if (block + i != number && *table_slot(m, block + i) == 0)
                        r = page_add(m, block + i, &neighbour);
        }
        if (r == 0)
                r = pages_fill(m, first, m->n_pages - first);
        if (r < 0)
                return r;
        *ret = page;
        return page->present ? 0 : -EFAULT;
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
                memcpy(to, page->data + offset, part);
                to += part;
                address += part;
                len -= part;
        }
        return 0;
}

int memory_read_u64(struct memory *m, uint64_t address, uint64_t *ret) {
        uint64_t v;
        int r = memory_read(m, address, &v, sizeof(v));

        if (r < 0)
                return r;
        *ret = v;
        return 0;
}

int memory_refresh(struct memory *m) {
        for (size_t i = 0; i < m->n_pages; i += BATCH) {
                int r = pages_fill(m, i, MIN(m->n_pages - i, (size_t) BATCH));

                if (r < 0)
                        return r;
        }
        return 0;
}

void memory_forget(struct memory *m) {
        memset(m->table, 0, TABLE_SIZE * sizeof(*m->table));
        m->n_pages = 0;
}
