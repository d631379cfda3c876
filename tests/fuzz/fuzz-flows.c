/* SPDX-License-Identifier: Apache-2.0 */
/* Any answers of the kernel to three dumps of its sockets, one after the other, and all that is said of
 * them. */
#include <stdlib.h>

#include "flow_samples.h"
#include "flow_words.h"

#define DUMPS 3

struct world {
        struct flows flows;
        uint64_t named;
};

static struct flow_place place_of(const struct tcp_connection *s, void *userdata) {
        struct world *w = userdata;

        return (struct flow_place){ .nic = flows_nic(&w->flows, 1 + s->local[3] % 20, "eth0"),
                                    .run = s->cgroup % 3 == 0 ? FLOW_NOBODY : 1,
                                    .leave_out = s->peer[0] == 127,
                                    .bound = s->interface > 0 };
}

static int take(const struct tcp_connection *c, void *userdata) {
        struct world *w = userdata;

        (void) flows_take(&w->flows, c, place_of, w);
        return 0;
}

static void on_finding(struct sink *s, const struct finding *f) {
        (void) s, (void) f;
}

static void on_sample(struct sink *s, const struct sample *m) {
        (void) s;
        if (!m->name || (m->kind == SAMPLE_COUNTER && m->is_int && m->i < 0))
                abort();
}

static void say(const struct flows *f) {
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;
        struct sink sink = { on_finding, on_sample };
        char text[FLOW_TEXT_MAX];

        for (size_t i = 0; i < f->n_links; i++) {
                if (!f->links[i].used)
                        continue;
                flow_link_text(f, &f->links[i], text);
                if (strlen(text) >= FLOW_TEXT_MAX || f->links[i].nic >= FLOW_NICS_MAX)
                        abort();
        }
        flow_summary(f, text);
        (void) flow_receive_text(f, text);
        flow_samples(f, &sink);
        (void) flow_tell(f, 8, &list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct world w = { 0 };

        if (flows_init(&w.flows) < 0)
                return 0;
        w.flows.receive_max = 6291456;
        (void) flows_run(&w.flows, "run1");
        for (size_t i = 0; i < DUMPS; i++) {
                size_t part = size / DUMPS;
                int r;

                flows_begin(&w.flows, (i + 1) * 10 * USEC_PER_SEC);
                r = tcp_connections_parse(data + i * part, part, take, &w);
                flows_end(&w.flows, r >= 0);
                say(&w.flows);
        }
        flows_clear(&w.flows);
        return 0;
}
