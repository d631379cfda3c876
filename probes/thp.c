/* SPDX-License-Identifier: Apache-2.0 */
/* Transparent huge pages, without which a TPU run starts and ends slowly. */
#include "tpu_sysfs.h"
#include "words.h"

#define PATH "/sys/kernel/mm/transparent_hugepage/enabled"
#define WANTED "[always] madvise never" /* JAX compares the whole line */

int probe_thp(const struct host *h, const struct probe_context *c, struct sink *s) {
        char value[128];
        int r = host_read(h, PATH, value, sizeof(value), NULL), tpu;

        (void) c;
        if (r < 0) {
                probe_tell(s, WORDS_THP_UNREADABLE, NULL, strerror(-r), "%s", "");
                return 0;
        }
        tpu = tpu_are_there(h);
        probe_tell(s,
                   tpu == 0               ? WORDS_THP_UNWANTED :
                   streq(value, WANTED)   ? WORDS_THP :
                   tpu < 0                ? WORDS_THP_UNSURE :
                                            WORDS_THP_OFF,
                   NULL, NULL, "%s", value);
        return 0;
}
