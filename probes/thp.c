/* SPDX-License-Identifier: Apache-2.0 */
/* Transparent huge pages, without which a TPU run starts and ends slowly. */
#include "tpu_sysfs.h"
#include "words.h"

#define FOLDER "/sys/kernel/mm/transparent_hugepage"
#define PATH FOLDER "/enabled"
#define WANTED "[always] madvise never" /* JAX compares the whole line */

/* Since Linux 6.8 each size has a word of its own; "inherit" says that the one above counts. Of the large
 * pages that is of one size only, that of a PMD. True: they are held back; path and value say where. */
static bool held_back_by_size(const struct host *h, char path[static 128], char *value, size_t size) {
        uint64_t bytes;

        if (host_read_u64(h, FOLDER "/hpage_pmd_size", &bytes) < 0)
                return false;
        (void) snprintf(path, 128, FOLDER "/hugepages-%" PRIu64 "kB/enabled", bytes / 1024);
        return host_read(h, path, value, size, NULL) == 0 && !strstr(value, "[inherit]") &&
               !strstr(value, "[always]");
}

int probe_thp(const struct host *h, const struct probe_context *c, struct sink *s) {
        char value[128], of_size[128], path[128];
        int r = host_read(h, PATH, value, sizeof(value), NULL), tpu;

        (void) c;
        if (r < 0) {
                probe_tell(s, WORDS_THP_UNREADABLE, NULL, strerror(-r), "%s", "");
                return 0;
        }
        tpu = tpu_are_there(h);
        if (tpu > 0 && streq(value, WANTED) && held_back_by_size(h, path, of_size, sizeof(of_size))) {
                probe_tell(s, WORDS_THP_OFF_BY_SIZE, NULL, path, "%s: %s", path, of_size);
                return 0;
        }
        probe_tell(s,
                   tpu == 0               ? WORDS_THP_UNWANTED :
                   streq(value, WANTED)   ? WORDS_THP :
                   tpu < 0                ? WORDS_THP_UNSURE :
                                            WORDS_THP_OFF,
                   NULL, NULL, "%s", value);
        return 0;
}
