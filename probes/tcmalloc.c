/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator that runs preload: there, and loadable. */
#include "host_stat.h"
#include "paths.h"
#include "tpu_sysfs.h"
#include "words.h"

int probe_tcmalloc(const struct host *h, const struct probe_context *c, struct sink *s) {
        char why[ELF_WHY_MAX], unknown[128];
        int r = elf_check_library(h, PATH_TCMALLOC, why), tpu = r < 0 ? tpu_are_there(h) : 1;

        (void) c;
        (void) snprintf(unknown, sizeof(unknown), PATH_TCMALLOC ": %s", strerror(-r));
        if (r == 0 || (r == -ENOENT && tpu == 0)) /* no TPU: nothing is wanted */
                probe_tell(s, WORDS_TCMALLOC, NULL, NULL, "%s", r < 0 ? why : "loadable");
        else if (r == -ENOENT && tpu < 0)
                probe_tell(s, WORDS_TCMALLOC_UNKNOWN, NULL, "whether this host has TPU chips is not known",
                           "%s", why);
        else if (r == -ENOENT || r == -ENOEXEC)
                probe_tell(s, r == -ENOENT ? WORDS_TCMALLOC_ABSENT : WORDS_TCMALLOC_BROKEN, NULL,
                           PATH_TCMALLOC, "%s", why);
        else
                probe_tell(s, WORDS_TCMALLOC_UNKNOWN, NULL, unknown, "%s", why);
        return 0;
}
