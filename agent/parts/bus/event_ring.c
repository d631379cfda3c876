/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "event_ring.h"
#include "json_text.h"

void event_ring_init(struct event_ring *r) {
        *r = (struct event_ring) { .next_seq = 1 };
}

void event_ring_clear(struct event_ring *r) {
        for (size_t i = 0; i < EVENT_RING; i++)
                free(r->records[i].body);
        event_ring_init(r);
}

int event_ring_add(struct event_ring *r, const struct event *e, usec_t time_real) {
        struct event_record *slot = &r->records[r->next_seq % EVENT_RING];
        json_t *o = event_to_json(e);
        char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

        json_decref(o);
        if (!text)
                return -ENOMEM;
        free(slot->body);
        *slot = (struct event_record) {
                .seq = r->next_seq++,
                .time_real = time_real,
                .id = e->id,
                .severity = e->severity,
                .body = text,
        };
        return 0;
}

/* Whether its text is stacks: what they show of a run is its owner's. */
static bool holds_stacks(enum event_id id) {
        return id == EVENT_STACK_CAPTURED || id == EVENT_RUN_CAPTURED || id == EVENT_STACK_FILE;
}

static json_t *record_to_json(const struct event_record *e, bool stacks) {
        json_t *body = json_loads(e->body, 0, NULL);
        char time[CLOCK_TEXT_MAX];

        if (!stacks && holds_stacks(e->id))
                (void) json_object_del(body, "text"); /* fails where there is none */
        return json_pack("{s:I, s:s, s:s, s:s, s:o}", "seq", (json_int_t) e->seq, "time",
                         clock_text(e->time_real, time), "name", event_def(e->id)->name, "severity",
                         severity_name(e->severity), "body", body);
}

json_t *event_ring_to_json(const struct event_ring *r, uint64_t since, bool stacks) {
        uint64_t oldest = r->next_seq > EVENT_RING ? r->next_seq - EVENT_RING : 1;
        json_t *list = json_array();

        for (uint64_t seq = MAX(since, oldest); list && seq < r->next_seq; seq++)
                list = json_list_add(list, record_to_json(&r->records[seq % EVENT_RING], stacks));
        return list
               ? json_pack("{s:o, s:I, s:I}", "events", list, "next", (json_int_t) r->next_seq, "missed",
                                (json_int_t) (since > 0 && since < oldest ? oldest - since : 0))
                    : NULL;
}
