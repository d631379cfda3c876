/* SPDX-License-Identifier: Apache-2.0 */
/* Who has each chip's device open. Being busy is no fault: it is what a person asks before starting a
 * run. */
#include "device_owners.h"
#include "tpu_sysfs.h"
#include "words.h"

struct walk {
        const struct device_owners *owners;
        struct sink *s;
        size_t n;
};

/* "pid 812 tpu-run-train.service: python3 train.py", and how many more. */
static void describe_owner(const struct device_owners *o, const char *node, struct sink *s) {
        const struct device_owner *first = NULL;
        size_t more = 0;
        char others[24];

        for (size_t i = 0; i < o->n; i++)
                if (streq(o->owners[i].device, node)) {
                        more += first != NULL;
                        first = first ? first : &o->owners[i];
                }
        (void) snprintf(others, sizeof(others), "%zu", more);
        if (first)
                probe_tell(s, more > 0 ? WORDS_OWNERS_MORE : WORDS_OWNER, node, others, "pid %u %s: %s",
                           first->pid, first->unit[0] ? first->unit : "(in no unit)", first->command);
        else
                probe_tell(s, o->incomplete ? WORDS_OWNER_UNSURE : WORDS_OWNER, node, NULL, "free");
}

static int visit(const char *node, void *userdata) {
        struct walk *w = userdata;

        w->n++;
        if (w->owners && w->owners->error >= 0)
                describe_owner(w->owners, node, w->s);
        return 0;
}

int probe_owners(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct walk w = { c->owners, s, 0 };
        int r;

        r = tpu_visit_nodes(h, visit, &w);
        if (r < 0 || (w.n > 0 && c->owners && c->owners->error == 0))
                return r;
        if (w.n == 0)
                probe_tell(s, WORDS_OWNER, NULL, NULL, "no TPU device");
        else
                probe_tell(s, WORDS_OWNERS_UNASKED, NULL,
                           c->owners ? c->owners->why : "tpu-launchd was not asked", "%s", "");
        return 0;
}
