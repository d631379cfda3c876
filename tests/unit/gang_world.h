/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Hosts that speak to a planner, for its tests. Hosts are named SLICE-WORKER, their addresses are
 * 10.S.0.W. */
#include "gang.h"
#include "member_part.h"
#include "test.h"

#define WORLD_SLICES 6
#define WORLD_HOSTS  4

struct world_host {
        bool there, unfit, silent_run; /* silent_run: it says nothing of any run */
        unsigned life, machine;        /* another machine under this worker id */
        const char *digest, *parts, *notice, *refuses, *warns, *image;
        bool refuses_for_good;
        struct member_part part; /* of the run "train" */
        char cause[24], code[16], status[16];
        int64_t step;
        usec_t step_time;
        unsigned asked; /* the question that it answered last */
        bool silent_asked, runs_unknown;
        bool may_be_pause;
        unsigned local; /* runs that the registry did not start; the first is suspected like its own */
        usec_t suspected; /* it suspects that the run stalls, since then */
};

struct world {
        struct gang *g;
        usec_t now, next;
        unsigned slices, hosts, changes;
        struct world_host host[WORLD_SLICES][WORLD_HOSTS];
        uint64_t last_generation; /* of run/train */
};

static inline json_t *world_member(const struct world *w, unsigned s, unsigned h) {
        const struct world_host *x = &w->host[s][h];
        char slice[16], name[32], id[32], life[32], address[32];
        json_t *m;

        snprintf(slice, sizeof(slice), "s%u", s);
        snprintf(name, sizeof(name), "s%u-%u%s", s, h, x->machine ? "b" : "");
        snprintf(id, sizeof(id), "id-%u-%u-%u", s, h, x->machine);
        snprintf(life, sizeof(life), "%016x", x->life + 1);
        snprintf(address, sizeof(address), "10.%u.%u.%u", s, x->machine, h);
        m = json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:[s], s:i, s:s, s:{s:s, s:{s:s}}, s:s, s:s, s:s, "
                      "s:b, s:[]}", "v", 1, "slice",
                      slice, "worker", (int) h, "host", name, "id", id, "incarnation", life, "address",
                      address, "hosts",
                      (int) w->hosts, "accelerator", "v6e-16", "fingerprint", "digest",
                      x->digest ? x->digest : "d1",
                      "parts", "libtpu",
                      x->parts    ? x->parts
                      : x->digest ? x->digest
                                  : "d1",
                      "state", x->unfit ? "unfit" : "ready",
                      "reasons",
                      x->unfit ? "nic.mtu eth0 FAIL" : "", "notice", x->notice ? x->notice : "",
                      "runs_known", !x->runs_unknown, "runs");
        ASSERT_TRUE(m);
        if (x->part.state != PART_NONE && !x->silent_run)
                json_array_append_new(json_object_get(m, "runs"),
                                      json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:I, "
                                                "s:b, s:s}", "name", "train", "generation",
                                                (json_int_t) x->part.generation, "state",
                                                part_state_name(x->part.state),
                                                "cause", x->cause, "code", x->code, "status", x->status,
                                                "step",
                                                (json_int_t) x->step, "step_time", (json_int_t) x->step_time,
                                                "asked",
                                                (json_int_t) x->asked, "detail",
                                                x->refuses ? x->refuses
                                                : x->warns ? x->warns
                                                           : "",
                                                "suspected", (json_int_t) x->suspected, "may_be_pause",
                                                x->may_be_pause, "suspicion",
                                                x->suspected ? "no step for 40 s, usually 8 s" : ""));
        if (x->image && json_array_size(json_object_get(m, "runs")) > 0)
                json_object_set_new(json_array_get(json_object_get(m, "runs"), 0), "image",
                                    json_string(x->image));
        for (unsigned i = 0; i < x->local; i++) {
                snprintf(name, sizeof(name), "local-%u-%u", h, i);
                json_object_set_new(m, "local",
                                    i > 0 ? json_incref(json_object_get(m, "local")) : json_array());
                json_array_append_new(json_object_get(m, "local"),
                                      json_pack("{s:s, s:s, s:I, s:b, s:s}", "name", name, "state",
                                                "running", "suspected", (json_int_t) x->suspected, "may_be_pause",
                                                x->may_be_pause, "suspicion", "nothing moves"));
        }
        return m;
}

static inline int world_say(struct world *w, unsigned s, unsigned h) {
        json_t *m = world_member(w, s, h);
        char why[GANG_WHY_MAX];
        int r = gang_say(w->g, m, w->now, why);

        json_decref(m);
        return r;
}

static inline void world_gone(struct world *w, unsigned s, unsigned h) {
        char slice[16], life[32];

        snprintf(slice, sizeof(slice), "s%u", s);
        snprintf(life, sizeof(life), "%016x", w->host[s][h].life + 1);
        ASSERT_OK(gang_gone(w->g, slice, h, life, false, "its lease ended", w->now));
        w->host[s][h].there = false;
}

static inline void world_shut_down(struct world *w, unsigned s, unsigned h) {
        char slice[16], life[32];

        snprintf(slice, sizeof(slice), "s%u", s);
        snprintf(life, sizeof(life), "%016x", w->host[s][h].life + 1);
        ASSERT_OK(gang_gone(w->g, slice, h, life, true, "it was shut down", w->now));
        w->host[s][h].there = false;
}

static inline void world_changed(const char *key, const json_t *value, void *userdata) {
        struct world *w = userdata;

        w->changes++;
        if (streq(key, "run/train") && value) {
                uint64_t generation = (uint64_t) json_integer_value(json_object_get(value, "generation"));

                ASSERT_TRUE(generation >= w->last_generation);
                w->last_generation = generation;
        }
}

static inline unsigned world_step(struct world *w) {
        w->changes = 0;
        w->next = gang_step(w->g, w->now, world_changed, w);
        return w->changes;
}

static inline const json_t *world_run(const struct world *w) {
        return gang_record(w->g, "run/train");
}

static inline const char *world_text(const json_t *record, const char *key) {
        const char *text = json_string_value(json_object_get(record, key));

        return text ? text : "(none)";
}

static inline const char *world_state(const struct world *w) {
        return world_text(world_run(w), "state");
}

static inline unsigned world_generation(const struct world *w) {
        return (unsigned) json_integer_value(json_object_get(world_run(w), "generation"));
}

static inline size_t world_width(const struct world *w) {
        return json_array_size(json_object_get(world_run(w), "slices"));
}

static inline const char *world_waits(const struct world *w) {
        const char *text = json_string_value(json_array_get(json_object_get(world_run(w), "waits_for"), 0));

        return text ? text : "";
}

/* Who is asked for its step says it. */
static inline bool world_answer(struct world *w, unsigned s, unsigned h) {
        struct world_host *x = &w->host[s][h];
        const json_t *ask = json_object_get(world_run(w), "ask");
        unsigned number = (unsigned) json_integer_value(json_object_get(ask, "number"));
        char name[32];

        snprintf(name, sizeof(name), "s%u-%u%s", s, h, x->machine ? "b" : "");
        if (number == 0 || number == x->asked || x->silent_asked ||
            strcmp(world_text(ask, "host"), name) != 0)
                return false;
        x->asked = number;
        ASSERT_OK(world_say(w, s, h));
        return true;
}

/* Each host does what the record tells it, and says so. */
static inline bool world_hosts_act(struct world *w) {
        bool acted = false;

        for (unsigned s = 0; s < w->slices; s++)
                for (unsigned h = 0; h < w->hosts; h++) {
                        struct world_host *x = &w->host[s][h];
                        enum part_action action;
                        char slice[16];

                        snprintf(slice, sizeof(slice), "s%u", s);
                        if (!x->there)
                                continue;
                        acted = world_answer(w, s, h) || acted;
                        ASSERT_OK(part_decide(world_run(w), slice, h, &x->part, &action));
                        if (action == PART_NOTHING)
                                continue;
                        acted = true;
                        if (action == PART_PREPARE)
                                x->part = (struct member_part) { world_generation(w),
                                                                 x->refuses ? PART_REFUSED : PART_PREPARED };
                        else
                                x->part.state = action == PART_START ? PART_RUNNING : PART_STOPPED;
                        if (action != PART_STOP)
                                x->cause[0] = x->code[0] = x->status[0] = '\0';
                        if (x->part.state == PART_REFUSED && x->refuses_for_good)
                                (void) snprintf(x->cause, sizeof(x->cause), PART_NOT_STARTED);
                        ASSERT_OK(world_say(w, s, h));
                }
        return acted;
}

/* Until nothing moves any more without time. */
static inline void world_settle(struct world *w) {
        for (unsigned i = 0; i < 100; i++) {
                bool changed = world_step(w) > 0;

                if (!world_hosts_act(w) && !changed)
                        return;
        }
        test_fail(__FILE__, __LINE__, "it never comes to rest, state %s", world_state(w));
}

static inline void world_wait(struct world *w, usec_t span) {
        w->now += span;
        world_settle(w);
}

static inline void world_exit(struct world *w, unsigned s, unsigned h, const char *cause, const char *code,
                              const char *status) {
        struct world_host *x = &w->host[s][h];

        x->part.state = PART_EXITED;
        snprintf(x->cause, sizeof(x->cause), "%s", cause);
        snprintf(x->code, sizeof(x->code), "%s", code);
        snprintf(x->status, sizeof(x->status), "%s", status);
        ASSERT_OK(world_say(w, s, h));
}

static inline void world_join(struct world *w, unsigned s, unsigned h) {
        w->host[s][h].there = true;
        ASSERT_OK(world_say(w, s, h));
}

static inline void world_new(struct world *w, unsigned slices, unsigned hosts) {
        *w = (struct world) { .now = 1795237200 * USEC_PER_SEC, .slices = slices, .hosts = hosts };
        ASSERT_OK(gang_new(&gang_default_options, &w->g));
}

static inline void world_join_all(struct world *w) {
        for (unsigned s = 0; s < w->slices; s++)
                for (unsigned h = 0; h < w->hosts; h++)
                        world_join(w, s, h);
        world_settle(w);
}

static inline json_t *world_intent(const char *serial, unsigned min, unsigned max, unsigned restarts) {
        return json_pack("{s:i, s:s, s:s, s:s, s:[s], s:[], s:i, s:i, s:i, s:I, s:I}", "v", 1, "name",
                         "train", "serial", serial, "user",
                         "alice", "argv", "train", "slices", "min", (int) min, "max", (int) max, "restarts",
                         (int) restarts,
                         "wait", (json_int_t) (600 * USEC_PER_SEC), "grace",
                         (json_int_t) (30 * USEC_PER_SEC));
}

static inline int world_want(struct world *w, json_t *intent) {
        char why[GANG_WHY_MAX];
        int r = gang_want(w->g, "intent/train", intent, w->now, why);

        json_decref(intent);
        return r;
}

/* Another planner, out of the records of the first. */
static inline struct gang *world_reload(const struct world *w);

struct world_copy {
        struct gang *g;
        usec_t now;
};

static inline void world_copy_record(const char *key, const json_t *value, void *userdata) {
        struct world_copy *c = userdata;
        char why[GANG_WHY_MAX];

        if (gang_load(c->g, key, value, c->now, why) < 0)
                test_fail(__FILE__, __LINE__, "%s", why);
}

static inline struct gang *world_reload(const struct world *w) {
        struct world_copy c = { .now = w->now };

        ASSERT_OK(gang_new(&gang_default_options, &c.g));
        gang_visit(w->g, world_copy_record, &c);
        return c.g;
}
