/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_reader.h"

#include <linux/bpf.h>
#include <sys/mman.h>

static size_t page_size(void) {
        return (size_t) sysconf(_SC_PAGESIZE);
}

int ring_reader_open(int fd, size_t size, struct ring_reader *ret) {
        void *ours, *theirs;

        if (size == 0 || (size & (size - 1)) != 0 || size > SIZE_MAX / 4)
                return -EINVAL;
        ours = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (ours == MAP_FAILED)
                return -errno;
        theirs = mmap(NULL, page_size() + 2 * size, PROT_READ, MAP_SHARED, fd, (off_t) page_size());
        if (theirs == MAP_FAILED) {
                int r = -errno;

                (void) munmap(ours, page_size()); /* it was mapped just now */
                return r;
        }
        *ret = (struct ring_reader){ .consumed = ours, .produced = theirs, .size = size };
        return 0;
}

void ring_reader_close(struct ring_reader *r) {
        if (r->size == 0)
                return;
        (void) munmap(r->consumed, page_size()); /* both were mapped so */
        (void) munmap((void *) (uintptr_t) r->produced, page_size() + 2 * r->size);
        *r = RING_READER_NULL;
}

int ring_reader_read(struct ring_reader *r, unsigned max,
                     void (*take)(const void *data, size_t len, void *userdata), void *userdata) {
        const char *data = (const char *) r->produced + page_size();
        uint64_t at = *r->consumed, end = __atomic_load_n(r->produced, __ATOMIC_ACQUIRE);
        unsigned n = 0, records = 0;

        while (records < max && at < end) {
                const char *record = data + (at & (r->size - 1));
                uint32_t head = __atomic_load_n((const uint32_t *) (const void *) record, __ATOMIC_ACQUIRE);
                uint64_t len = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

                if (head & BPF_RINGBUF_BUSY_BIT)
                        break; /* it is being written: its writer wakes us */
                if (len + BPF_RINGBUF_HDR_SZ > end - at)
                        return -EBADMSG;
                if (!(head & BPF_RINGBUF_DISCARD_BIT)) {
                        take(record + BPF_RINGBUF_HDR_SZ, len, userdata);
                        n++;
                }
                records++;
                at += (len + BPF_RINGBUF_HDR_SZ + 7) & ~(uint64_t) 7;
                __atomic_store_n(r->consumed, at, __ATOMIC_RELEASE);
        }
        return (int) n;
}
