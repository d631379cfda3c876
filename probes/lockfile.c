/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtpu's lock file: while it is there, another user's process cannot load libtpu. It is stale when no
 * process has a chip open (jax-ml/jax#10192, pytorch/xla#3214).
 */
#include <sys/stat.h>

#include "device_owners.h"
#include "probe.h"
#include "host_stat.h"

#define PATH "/tmp/libtpu_lockfile"

static void judge_presence(const struct host_stat *st, const struct probe_context *c, struct finding *f) {
        const struct device_owners *o = c->owners;

        finding_set(f->found, "there, of uid %u", (unsigned) st->uid);
        finding_set(f->source, "jax-ml/jax#10192, pytorch/xla#3214");
        if (!o || o->error < 0) {
                finding_set(f->reason, "whether a process holds the chips is not known: %s",
                            o ? o->why : "tpu-launchd was not asked");
                finding_set(f->remedy, "systemctl status tpu-launchd");
        } else if (o->n > 0) {
                f->verdict = VERDICT_OK;
                finding_set(f->found, "held: pid %u has %s open", o->owners[0].pid, o->owners[0].device);
        } else if (o->incomplete)
                finding_set(f->reason, "tpu-launchd could not look into every process");
        else {
                f->verdict = VERDICT_WARN;
                finding_set(f->wanted, "absent while no process has a chip open");
                finding_set(f->reason,
                            "stale: a run of another user will say that libtpu is already in use");
                finding_set(f->remedy, "rm " PATH);
        }
}

int probe_lockfile(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct host_stat st, tmp;
        struct finding f;
        int r;

        finding_init(&f, "lockfile", NULL);
        r = host_stat(h, PATH, &st);
        if (r == 0)
                judge_presence(&st, c, &f);
        else if (r == -ENOENT && host_stat(h, "/tmp", &tmp) == 0) {
                f.verdict = VERDICT_OK;
                finding_set(f.found, "none");
        } else
                finding_set(f.reason, PATH ": %s", strerror(-r));
        s->finding(s, &f);
        return 0;
}
