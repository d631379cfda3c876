/* SPDX-License-Identifier: Apache-2.0 */
/* Open files: a run gets RUN_NOFILE from its unit, within what the kernel allows. */
#include "paths.h"
#include "words.h"

int probe_limits(const struct host *h, const struct probe_context *c, struct sink *s) {
        uint64_t most;
        int r = host_read_u64(h, "/proc/sys/fs/nr_open", &most);

        (void) c;
        if (r < 0)
                probe_tell(s, WORDS_NOFILE_UNREADABLE, NULL, strerror(-r), "%s", "");
        else if (most < RUN_NOFILE)
                probe_tell(s, WORDS_NOFILE_LOW, NULL, NULL, "%" PRIu64, most);
        else
                probe_tell(s, WORDS_NOFILE, NULL, NULL, "%d in a run", RUN_NOFILE);
        return 0;
}
