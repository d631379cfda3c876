/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtpu's lock file: while it is there, another user's process cannot load libtpu. It is stale when no
 * process has a chip open (jax-ml/jax#10192, pytorch/xla#3214).
 */
#include <sys/stat.h>

#include "device_owners.h"
#include "words.h"
#include "host_stat.h"

#define PATH "/tmp/libtpu_lockfile"

static void judge_presence(const struct host_stat *st, const struct probe_context *c, struct sink *s) {
        const struct device_owners *o = c->owners;

        if (o && o->error >= 0 && o->n > 0)
                probe_tell(s, WORDS_LOCKFILE_HELD, NULL, NULL, "held: pid %u has %s open", o->owners[0].pid,
                           o->owners[0].device);
        else
                probe_tell(s,
                           !o || o->error < 0 ? WORDS_LOCKFILE_UNASKED :
                           o->incomplete      ? WORDS_LOCKFILE_UNSURE :
                                                WORDS_LOCKFILE_STALE,
                           NULL, o ? o->why : "tpu-launchd was not asked", "there, of uid %u",
                           (unsigned) st->uid);
}

int probe_lockfile(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct host_stat st, tmp;
        int r = host_stat(h, PATH, &st);

        if (r == 0)
                judge_presence(&st, c, s);
        else if (r == -ENOENT && host_stat(h, "/tmp", &tmp) == 0)
                probe_tell(s, WORDS_LOCKFILE_NONE, NULL, NULL, "none");
        else
                probe_tell(s, WORDS_LOCKFILE_UNREADABLE, NULL, strerror(-r), "%s", "");
        return 0;
}
