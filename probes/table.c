/* SPDX-License-Identifier: Apache-2.0 */
/* The list of the probes: it knows each of them, and none of them needs it (what they share is words.c). */
#include "probe.h"

#define PROBE(id, in, every, within, flags, says)                    \
        static const struct probe definition_of_##id = {             \
                .name = #id,                                         \
                .summary = says,                                     \
                .group = GROUP_##in,                                 \
                .interval = every * USEC_PER_SEC,                    \
                .timeout = within * USEC_PER_SEC,                    \
                .blocks = ((flags) & PROBE_BLOCKS) != 0,             \
                .asks_owners = ((flags) & PROBE_ASKS_OWNERS) != 0,   \
                .asks_daemons = ((flags) & PROBE_ASKS_DAEMONS) != 0, \
                .run = probe_##id,                                   \
        };
#include "probes.def"
#undef PROBE

const struct probe *const probe_table[] = {
#define PROBE(id, in, every, within, flags, says) &definition_of_##id,
#include "probes.def"
#undef PROBE
        NULL,
};

const char *probe_group_title(enum probe_group g) {
        static const char *const titles[] = {
                [GROUP_CHIPS] = "Chips",
                [GROUP_NETWORK] = "Network",
                [GROUP_HOST] = "Host",
                [GROUP_SOFTWARE] = "Software",
                [GROUP_IDENTITY] = "Identity",
                [GROUP_PEERS] = "Registry and other hosts",
                [GROUP_BPF] = "BPF programs",
        };
        _Static_assert(ELEMENTSOF(titles) == _GROUP_MAX, "every group has a title");

        return titles[g];
}

const struct probe *probe_find(const char *name) {
        for (size_t i = 0; probe_table[i]; i++)
                if (streq(probe_table[i]->name, name))
                        return probe_table[i];
        return NULL;
}

int probe_run(const struct probe *p, const struct host *h, const struct probe_context *c, struct sink *s) {
        struct finding f;
        int r = p->run(h, c, s);

        if (r >= 0)
                return r;
        finding_init(&f, p->name, NULL);
        finding_set(f.found, "nothing");
        finding_set(f.reason, "nothing could be looked at: %s", strerror(-r));
        s->finding(s, &f);
        return r;
}
