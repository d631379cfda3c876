/* SPDX-License-Identifier: Apache-2.0 */
/* Transparent huge pages, without which a TPU run starts and ends slowly. */
#include "probe.h"
#include "tpu_sysfs.h"

#define PATH "/sys/kernel/mm/transparent_hugepage/enabled"
#define WANTED "[always] madvise never" /* JAX compares the whole line */

static void judge(const struct host *h, const char *value, struct finding *f) {
        int tpu = tpu_are_there(h);

        finding_set(f->found, "%s", value);
        (void) make_printable(f->found);
        if (tpu == 0) {
                f->verdict = VERDICT_OK; /* no TPU: nothing is wanted */
                return;
        }
        finding_set(f->wanted, WANTED);
        finding_set(f->source,
                    "jax/_src/hardware_utils.py (exactly this line); Google's OS check for TPU7x");
        if (streq(value, WANTED))
                f->verdict = VERDICT_OK;
        else if (tpu < 0)
                finding_set(f->reason, "whether this host has TPU chips cannot be told");
        else {
                f->verdict = VERDICT_WARN;
                finding_set(f->reason, "start and end of a run take longer, and JAX warns about it");
                finding_set(f->remedy, "echo always >" PATH);
        }
}

int probe_thp(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct finding f;
        char value[128];
        int r;

        (void) c;
        finding_init(&f, "thp", NULL);
        r = host_read(h, PATH, value, sizeof(value), NULL);
        if (r < 0)
                finding_set(f.reason, PATH " cannot be read: %s", strerror(-r));
        else
                judge(h, value, &f);
        s->finding(s, &f);
        return 0;
}
