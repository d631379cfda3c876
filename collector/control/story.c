/* SPDX-License-Identifier: Apache-2.0 */
#include "inside.h"
#include "json_text.h"

#define SEVERITY_INFO  9 /* OpenTelemetry, logs data model */
#define SEVERITY_WARN  13
#define SEVERITY_ERROR 17

struct story {
        struct store *store;
        const char *own_host;
        usec_t now;
        bool *told;
};

/* Takes attributes over. host "": nobody's. */
static int add(const struct story *y, const char *host, const char *slice, int64_t worker, const char *name,
               unsigned severity, const char *body, json_t *attributes) {
        const struct store_identity identity = { .slice = *slice ? slice : NULL, .worker_id = worker };
        json_t *text = json_string(body);
        _cleanup_free_ char *b = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL,
                            *a = attributes ? json_dumps(attributes, JSON_COMPACT) : NULL;
        struct store_event e = { .service = STORE_OWN_NAME,
                                 .name = name,
                                 .body = b,
                                 .attributes = a,
                                 .severity = severity,
                                 .time = y->now,
                                 .received = y->now };
        int64_t id;
        int r;

        json_decref(text);
        json_decref(attributes);
        if (!a || !b)
                return -ENOMEM;
        r = store_find_host(y->store, *host ? host : y->own_host, y->now, &id);
        if (r == -EDQUOT)
                return 0; /* as many hosts are known as may be: the record itself still says it */
        if (r >= 0)
                r = store_add_event(y->store, id, *slice ? &identity : NULL, &e);
        *y->told = *y->told || r >= 0;
        return r;
}

/* --- Slices ------------------------------------------------------------------------------------------ */

static int slice_forming(const struct story *y, const json_t *v) {
        const json_t *missing = json_object_get(v, "missing"), *first = json_array_get(missing, 0);
        const char *host = json_text_of(first, "host"),
                   *address = json_string_value(json_array_get(json_object_get(first, "address"), 0));
        json_int_t worker = json_integer_value(json_object_get(first, "worker"));
        char body[600], more[40] = "";

        if (json_array_size(missing) > 1)
                (void) snprintf(more, sizeof(more), ", and %zu more", json_array_size(missing) - 1);
        (void) snprintf(body, sizeof(body), "slice %s is not whole: worker %lld%s%s%s%s%s is missing: %s%s",
                        json_text_of(v, "slice"), (long long) worker, *host ? ", " : "", host,
                        address ? " (" : "", address ? address : "", address ? ")," : "",
                        json_text_of(first, "why"), more);
        return add(y, host, json_text_of(v, "slice"), first ? worker : -1, "tpu.slice.forming", SEVERITY_WARN,
                   body,
                   json_pack("{s:O, s:O}", "generation", json_object_get(v, "generation"), "missing",
                             missing));
}

static int slice_ready(const struct story *y, const json_t *v) {
        const json_t *first = json_array_get(json_object_get(v, "roster"), 0);
        char body[200];

        (void) snprintf(body, sizeof(body), "slice %s is ready: all of its %lld hosts are there",
                        json_text_of(v, "slice"), (long long) json_integer_value(json_object_get(v, "hosts")));
        return add(y, json_text_of(first, "host"), json_text_of(v, "slice"), 0, "tpu.slice.ready", SEVERITY_INFO, body,
                   json_pack("{s:O, s:O}", "generation", json_object_get(v, "generation"), "hosts",
                             json_object_get(v, "hosts")));
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
                char body[600];

                if (same_worker(old, c) || r < 0)
                        continue;
                (void) snprintf(
                        body, sizeof(body),
                        "%s (%s) says that it is worker %lld of slice %s, which %s is: it was not let in. "
                        "Is an identity file a copy? If %s is gone for good: tpuctl fleet release %s %lld",
                        json_text_of(c, "host"), address ? address : "?", worker, json_text_of(v, "slice"),
                        json_text_of(c, "holder"), json_text_of(c, "holder"), json_text_of(v, "slice"), worker);
                r = add(y, json_text_of(c, "host"), json_text_of(v, "slice"), worker, "tpu.slice.conflict",
                        SEVERITY_ERROR, body, json_deep_copy(c));
        }
        return r;
}

static int slice_unlike(const struct story *y, const json_t *before, const json_t *v) {
        const json_t *list = json_object_get(v, "unlike"), *u = json_array_get(list, 0);
        char body[600];

        if (!u || json_array_size(json_object_get(before, "unlike")) > 0)
                return 0;
        (void) snprintf(
                body, sizeof(body),
                "%s is unlike the others of slice %s: %s is %s there, %s on the others; no run is begun on it",
                json_text_of(u, "host"), json_text_of(v, "slice"), json_text_of(u, "part"), json_text_of(u, "found"),
                json_text_of(u, "others"));
        return add(y, json_text_of(u, "host"), json_text_of(v, "slice"),
                   json_integer_value(json_object_get(u, "worker")), "tpu.slice.unlike", SEVERITY_WARN, body,
                   json_pack("{s:O}", "unlike", list));
}

static int tell_slice(const struct story *y, const json_t *before, const json_t *v) {
        bool was_ready = streq(json_text_of(before, "state"), "ready"),
             ready = streq(json_text_of(v, "state"), "ready");
        int r = 0;

        if (ready && !was_ready)
                r = slice_ready(y, v);
        else if (!ready && was_ready) /* the first time it forms is no news */
                r = slice_forming(y, v);
        if (r >= 0)
                r = slice_conflicts(y, before, v);
        return r < 0 ? r : slice_unlike(y, before, v);
}

/* --- Runs ---------------------------------------------------------------------------------------------- */

static unsigned run_severity(const char *state, const char *outcome, const char *cause) {
        if (streq(state, "ended"))
                return streq(outcome, "success") || streq(outcome, "stopped") ? SEVERITY_INFO
                                                                              : SEVERITY_ERROR;
        return streq(state, "stopping") && *cause ? SEVERITY_WARN : SEVERITY_INFO;
}

/* An event is one line: a remedy stands behind a line feed in the record. */
static void one_line(const char *from, char *to, size_t size) {
        size_t n = 0;

        for (; *from != '\0' && n + 2 < size; from++) {
                to[n++] = *from == '\n' ? ';' : *from;
                if (*from == '\n')
                        to[n++] = ' ';
        }
        to[n] = '\0';
}

static int tell_run(const struct story *y, const json_t *before, const json_t *v) {
        const char *state = json_text_of(v, "state"), *why = json_text_of(v, "why"), *outcome = json_text_of(v, "outcome");
        const json_t *first = json_array_get(json_object_get(v, "slices"), 0);
        const char *blame = json_text_of(v, "blame");
        const char *waits = json_string_value(json_array_get(json_object_get(v, "waits_for"), 0));
        char text[1400], body[1450];

        if (before && streq(json_text_of(before, "state"), state) &&
            json_equal(json_object_get(before, "generation"), json_object_get(v, "generation")) &&
            json_equal(json_object_get(before, "serial"), json_object_get(v, "serial")))
                return 0;
        (void) snprintf(text, sizeof(text), "run %s, generation %lld: %s%s%s%s%s%s%s", json_text_of(v, "name"),
                        (long long) json_integer_value(json_object_get(v, "generation")), state,
                        *outcome ? ", " : "", outcome, *why ? ": " : "", why,
                        streq(state, "waiting") && waits ? "; waits for " : "",
                        streq(state, "waiting") && waits ? waits : "");
        one_line(text, body, sizeof(body));
        return add(y, *blame ? blame : json_text_of(json_object_get(v, "coordinator"), "host"),
                   json_text_of(first, "slice"), -1, "tpu.run.state",
                   run_severity(state, outcome, json_text_of(v, "cause")), body,
                   json_pack("{s:s, s:O, s:s, s:s, s:s, s:s, s:O, s:I}", "run", json_text_of(v, "name"),
                             "generation", json_object_get(v, "generation"), "state", state, "outcome",
                             outcome, "cause", json_text_of(v, "cause"), "blame", blame, "waits_for",
                             json_object_get(v, "waits_for"), "slices",
                             (json_int_t) json_array_size(json_object_get(v, "slices"))));
}

int story_tell(struct store *s, const char *own_host, const char *key, const json_t *before,
               const json_t *now_value, usec_t now, bool *ret_told) {
        const struct story y = { .store = s, .own_host = own_host, .now = now, .told = ret_told };

        if (!now_value)
                return 0;
        if (startswith(key, "slice/"))
                return tell_slice(&y, before, now_value);
        return startswith(key, "run/") ? tell_run(&y, before, now_value) : 0;
}
