/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include "clock.h"

/* The record of a stack: exporters map this body as it is (DESIGN, Wire). */
static int on_captured(const struct capture_result *c, uint64_t *ret_seq, void *userdata) {
        struct bus *b = userdata;
        const char *slice = identity_get(&b->identity, IDENTITY_SLICE_NAME),
                   *worker = identity_get(&b->identity, IDENTITY_WORKER_ID);
        char taken[CLOCK_TEXT_MAX];

        return bus_emit(b,
                          EVENT_OF(STACK_CAPTURED, .verb = "stacktraceanalyzer", .node = b->name,
                                   .slice = slice ? slice : "", .worker = worker ? worker : "",
                                   .run = c->run, .taken = clock_text(c->taken_real, taken),
                                   .processes = c->processes, .threads = c->threads, .text = c->text),
                          ret_seq);
}

static const struct captures_handlers captures_handlers = { .captured = on_captured,
                                                            .finished = agent_capture_finished };

int agent_captures_start(struct bus *b) {
        return captures_new(b->event, bus_launchd_socket(b), b->settings.capture_timeout, &captures_handlers, b,
                            &agent_of(b)->captures);
}
