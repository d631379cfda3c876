/* SPDX-License-Identifier: Apache-2.0 */
#include "inside.h"
#include "json_text.h"

struct story {
        struct store *store;
        usec_t now;
        bool *stored;
};

static int add_event(const struct story *y, const struct event *e, const char *host, const char *slice,
                     int64_t worker) {
        int r = store_own_event(y->store, e, host, slice, worker, y->now);

        *y->stored = *y->stored || r > 0;
        return MIN(r, 0);
}

/* --- Slices ---------------------------------------------------------------------------------------- */

/* The first of the missing hosts, and how many more: "worker 1, h1 (10.0.0.2): its lease ended, and
 * 3 more". */
static void missing_text(const json_t *missing, char *buf, size_t size) {
        const json_t *first = json_array_get(missing, 0);
        const char *host = json_text_of(first, "host"),
                   *address = json_string_value(json_array_get(json_object_get(first, "address"), 0));
        char more[40] = "";

        buf[0] = '\0';
        if (!first)
                return;
        if (json_array_size(missing) > 1)
                (void) snprintf(more, sizeof(more), ", and %zu more", json_array_size(missing) - 1);
        (void) snprintf(buf, size, "worker %" JSON_INTEGER_FORMAT "%s%s%s%s%s: %s%s",
                        json_integer_value(json_object_get(first, "worker")), *host ? ", " : "", host,
                        address ? " (" : "", address ? address : "", address ? ")" : "",
                        json_text_of(first, "why"), more);
}

static int report_state(const struct story *y, const json_t *v, bool ready) {
        const json_t *missing = json_object_get(v, "missing"), *roster = json_object_get(v, "roster"),
                     *about = json_array_get(ready ? roster : missing, 0);
        const char *slice = json_text_of(v, "slice");
        char text[400];

        missing_text(missing, text, sizeof(text));
        return add_event(y,
                         EVENT_AS(SLICE_CHANGED, ready ? SEVERITY_INFO : SEVERITY_WARN, .slice = slice,
                                  .generation = json_integer_value(json_object_get(v, "generation")),
                                  .state = json_text_of(v, "state"),
                                  .present = (int64_t) json_array_size(roster),
                                  .hosts = json_integer_value(json_object_get(v, "hosts")), .missing = text),
                         json_text_of(about, "host"), slice,
                         about ? json_integer_value(json_object_get(about, "worker")) : -1);
}

static const json_t *same_worker(const json_t *list, const json_t *entry) {
        size_t i;
        json_t *v;

        json_array_foreach (list, i, v)
                if (json_equal(json_object_get(v, "worker"), json_object_get(entry, "worker")))
                        return v;
        return NULL;
}

static int slice_conflicts(const struct story *y, const json_t *before, const json_t *v) {
        const json_t *list = json_object_get(v, "conflicts"), *old = json_object_get(before, "conflicts");
        size_t i;
        json_t *c;
        int r = 0;

        json_array_foreach (list, i, c) {
                const char *address = json_string_value(json_array_get(json_object_get(c, "address"), 0));
                long long worker = json_integer_value(json_object_get(c, "worker"));
                char machine[200], reason[400];

                if (same_worker(old, c) || r < 0)
                        continue;
                (void) snprintf(machine, sizeof(machine), "%s (%s)", json_text_of(c, "host"),
                                address ? address : "?");
                (void) snprintf(reason, sizeof(reason),
                                "%s holds it, and the other was not let in: is an identity file a copy? If "
                                "%s is gone "
                                "for good: tpuctl fleet release %s %lld 'it is gone'",
                                json_text_of(c, "holder"), json_text_of(c, "holder"),
                                json_text_of(v, "slice"), worker);
                r = add_event(y,
                              EVENT_OF(SLICE_CONFLICT, .slice = json_text_of(v, "slice"), .worker = worker,
                                       .machine = machine, .reason = reason),
                              json_text_of(c, "host"), json_text_of(v, "slice"), worker);
        }
        return r;
}

static int slice_unlike(const struct story *y, const json_t *before, const json_t *v) {
        const json_t *u = json_array_get(json_object_get(v, "unlike"), 0);

        if (!u || json_array_size(json_object_get(before, "unlike")) > 0)
                return 0;
        return add_event(y,
                         EVENT_OF(SLICE_UNLIKE, .slice = json_text_of(v, "slice"),
                                  .host = json_text_of(u, "host"), .part = json_text_of(u, "part"),
                                  .found = json_text_of(u, "found"), .others = json_text_of(u, "others")),
                         json_text_of(u, "host"), json_text_of(v, "slice"),
                         json_integer_value(json_object_get(u, "worker")));
}

static int report_slice(const struct story *y, const json_t *before, const json_t *v) {
        bool was_ready = streq(json_text_of(before, "state"), "ready"),
             ready = streq(json_text_of(v, "state"), "ready");
        int r = 0;

        if (ready != was_ready) /* the first time it forms is no news */
                r = report_state(y, v, ready);
        if (r >= 0)
                r = slice_conflicts(y, before, v);
        return r < 0 ? r : slice_unlike(y, before, v);
}

/* --- Runs ------------------------------------------------------------------------------------------ */

static enum severity run_severity(const char *state, const char *outcome, const char *cause) {
        if (streq(state, "ended"))
                return streq(outcome, "success") || streq(outcome, "stopped") ? SEVERITY_INFO
                                                                              : SEVERITY_ERROR;
        return streq(state, "stopping") && *cause ? SEVERITY_WARN : SEVERITY_INFO;
}

static int report_run(const struct story *y, const json_t *before, const json_t *v) {
        const char *state = json_text_of(v, "state"), *why = json_text_of(v, "why"),
                   *outcome = json_text_of(v, "outcome");
        const json_t *first = json_array_get(json_object_get(v, "slices"), 0);
        const char *blame = json_text_of(v, "blame");
        const char *waits = json_string_value(json_array_get(json_object_get(v, "waits_for"), 0));

        if (before && streq(json_text_of(before, "state"), state) &&
            json_equal(json_object_get(before, "generation"), json_object_get(v, "generation")) &&
            json_equal(json_object_get(before, "serial"), json_object_get(v, "serial")))
                return 0;
        return add_event(y,
                         EVENT_AS(RUN_CHANGED, run_severity(state, outcome, json_text_of(v, "cause")),
                                  .run = json_text_of(v, "name"),
                                  .generation = json_integer_value(json_object_get(v, "generation")),
                                  .state = state, .outcome = outcome, .reason = why,
                                  .cause = json_text_of(v, "cause"), .blame = blame,
                                  .waits_for = streq(state, "waiting") && waits ? waits : "",
                                  .slices = (int64_t) json_array_size(json_object_get(v, "slices"))),
                         *blame ? blame : json_text_of(json_object_get(v, "coordinator"), "host"),
                         json_text_of(first, "slice"), -1);
}

int story_store(struct store *s, const char *key, const json_t *before, const json_t *now_value, usec_t now,
                bool *ret_stored) {
        const struct story y = { .store = s, .now = now, .stored = ret_stored };

        if (!now_value)
                return 0;
        if (startswith(key, "slice/"))
                return report_slice(&y, before, now_value);
        return startswith(key, "run/") ? report_run(&y, before, now_value) : 0;
}
