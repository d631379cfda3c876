/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a spool's ledger: what is believed of them is in order, and comes back as it was written. */
#include <assert.h>
#include <fcntl.h>

#include "crc32c.h"
#include "fuzz-root.h"
#include "ledger.h"

#define SLOT 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int dir_fd = -1;

static void write_file(const uint8_t *data, size_t size) {
        int fd = openat(dir_fd, "ledger", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert(fd >= 0 && write(fd, data, size) == (ssize_t) size);
        (void) close(fd);
}

static void check(const struct ledger *l) {
        uint64_t behind = l->acked + 1;

        assert(l->acked <= UINT64_MAX / 2 && l->next_gap > 0 && l->n_settled <= LEDGER_SETTLED_MAX);
        for (size_t i = 0; i < l->n_settled; i++) {
                assert(l->settled[i].from > behind && l->settled[i].to >= l->settled[i].from);
                behind = l->settled[i].to + 1;
        }
        assert(ledger_next(l, l->acked + 1) == l->acked + 1);
}

static void once(const uint8_t *data, size_t size) {
        struct ledger l, again;

        write_file(data, size);
        if (ledger_open(&l, dir_fd, 0) < 0) {
                closep(&l.fd);
                return;
        }
        check(&l);
        assert(ledger_sync(&l) == 0);
        closep(&l.fd);
        if (l.serial > UINT64_MAX / 2)
                return; /* the last serial was read, and no disk is written so often */
        assert(ledger_open(&again, dir_fd, l.spool_id) == 0);
        closep(&again.fd);
        check(&again);
        assert(again.spool_id == l.spool_id && again.serial == l.serial && again.acked == l.acked);
        assert(memcmp(again.open, l.open, sizeof(l.open)) == 0);
        assert(memcmp(again.closed, l.closed, sizeof(l.closed)) == 0);
        assert(memcmp(again.settled, l.settled, l.n_settled * sizeof(*l.settled)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint8_t copy[2 * SLOT] = { 0 };
        struct host h;

        if (dir_fd < 0) {
                fuzz_root_open((const char *const[]) { NULL }, &h);
                dir_fd = h.root_fd;
        }
        once(data, size);
        /* once more with the checksums put right, so that the fuzzer comes behind them */
        memcpy(copy, data, MIN(size, sizeof(copy)));
        for (size_t at = 0; at < sizeof(copy); at += SLOT) {
                static const uint8_t head[] = { 'T', 'P', 'U', 'L', 1, 0 };
                uint16_t len = 16 + 40 + 128 + 2 * 7 * 40;
                uint32_t crc;

                memcpy(copy + at, head, sizeof(head));
                memcpy(copy + at + 6, &len, sizeof(len));
                crc = crc32c(crc32c(0, copy + at, 8), copy + at + 16, (size_t) len - 16);
                if (crc % 4 != 0) /* some stay wrong */
                        memcpy(copy + at + 8, &crc, sizeof(crc));
        }
        once(copy, sizeof(copy));
        return 0;
}
