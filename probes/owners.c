/* SPDX-License-Identifier: Apache-2.0 */
/* Who has each chip's device open. Being busy is no fault: it is what a person asks before starting a run.
 */
#include "device_owners.h"
#include "probe.h"
#include "tpu_sysfs.h"

struct walk {
        const struct device_owners *owners;
        struct sink *s;
        size_t n;
};

/* "pid 812 tpu-run-train.service: python3 train.py", and how many more. */
static void describe(const struct device_owners *o, const char *node, struct finding *f) {
        const struct device_owner *first = NULL;
        size_t more = 0;

        for (size_t i = 0; i < o->n; i++)
                if (streq(o->owners[i].device, node)) {
                        more += first != NULL;
                        first = first ? first : &o->owners[i];
                }
        if (!first) {
                finding_set(f->found, "free");
                return;
        }
        finding_set(f->found, "pid %u %s: %s", first->pid, first->unit[0] ? first->unit : "(in no unit)",
                    first->command);
        if (more > 0)
                finding_set(f->reason, "and %zu more processes", more);
        (void) make_printable(f->found);
}

static int visit(const char *node, void *userdata) {
        struct walk *w = userdata;
        struct finding f;

        w->n++;
        if (!w->owners || w->owners->error < 0)
                return 0;
        finding_init(&f, "owners", node);
        f.verdict = VERDICT_OK;
        describe(w->owners, node, &f);
        if (w->owners->incomplete && streq(f.found, "free")) {
                f.verdict = VERDICT_UNKNOWN;
                finding_set(f.reason, "tpu-launchd could not look into every process");
        }
        w->s->finding(w->s, &f);
        return 0;
}

int probe_owners(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct walk w = { c->owners, s, 0 };
        struct finding f;
        int r;

        r = tpu_visit_nodes(h, visit, &w);
        if (r < 0 || (w.n > 0 && c->owners && c->owners->error == 0))
                return r;
        finding_init(&f, "owners", NULL);
        if (w.n == 0) {
                f.verdict = VERDICT_OK;
                finding_set(f.found, "no TPU device");
        } else {
                finding_set(f.reason, "%s", c->owners ? c->owners->why : "tpu-launchd was not asked");
                finding_set(f.remedy,
                            "systemctl status tpu-launchd; as root: fuser -v /dev/accel* /dev/vfio/*");
        }
        s->finding(s, &f);
        return 0;
}
