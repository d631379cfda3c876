/* SPDX-License-Identifier: Apache-2.0 */
#include "member_part.h"

static const char *const names[_PART_STATE_MAX] = {
        [PART_NONE] = "none",       [PART_PREPARING] = "preparing", [PART_PREPARED] = "prepared",
        [PART_REFUSED] = "refused", [PART_STARTING] = "starting",   [PART_RUNNING] = "running",
        [PART_EXITED] = "exited",   [PART_STOPPED] = "stopped",
};

const char *part_state_name(enum part_state s) {
        return s >= 0 && s < _PART_STATE_MAX ? names[s] : "none";
}

int part_state_parse(const char *name, enum part_state *ret) {
        for (int i = PART_PREPARING; i < _PART_STATE_MAX; i++)
                if (streq(names[i], name)) {
                        *ret = (enum part_state) i;
                        return 0;
                }
        return -EINVAL;
}

enum wanted { WANTED_NOTHING, WANTED_PREPARED, WANTED_STARTED, WANTED_STOPPED };

static int wanted_of(const json_t *run, enum wanted *ret) {
        static const struct {
                const char *state;
                enum wanted wanted;
        } states[] = {
                { "waiting", WANTED_NOTHING }, { "preparing", WANTED_PREPARED },
                { "running", WANTED_STARTED }, { "stopping", WANTED_STOPPED },
                { "ended", WANTED_STOPPED },
        };
        const char *state = json_string_value(json_object_get(run, "state"));

        for (size_t i = 0; state && i < ELEMENTSOF(states); i++)
                if (streq(states[i].state, state)) {
                        *ret = states[i].wanted;
                        return 0;
                }
        return -EBADMSG;
}

static bool has_worker(const json_t *hosts, unsigned worker) {
        size_t i;
        json_t *v;

        json_array_foreach (hosts, i, v)
                if (json_is_integer(json_object_get(v, "worker")) &&
                    json_integer_value(json_object_get(v, "worker")) == (json_int_t) worker)
                        return true;
        return false;
}

static bool is_in(const json_t *slices, const char *slice, unsigned worker) {
        size_t i;
        json_t *v;

        json_array_foreach (slices, i, v) {
                const char *name = json_string_value(json_object_get(v, "slice"));

                if (name && streq(name, slice))
                        return has_worker(json_object_get(v, "hosts"), worker);
        }
        return false;
}

/* It is in the run, and what it has is of this generation or of none. */
static enum part_action next_action(enum wanted wanted, enum part_state state) {
        switch (wanted) {
        case WANTED_PREPARED:
                return state == PART_NONE ? PART_PREPARE : PART_NOTHING;
        /* who did not prepare it is not started into what the others have begun already */
        case WANTED_STARTED:
                return state == PART_PREPARED ? PART_START : PART_NOTHING;
        case WANTED_STOPPED:
                return state == PART_STARTING || state == PART_RUNNING ? PART_STOP : PART_NOTHING;
        case WANTED_NOTHING:
                break;
        }
        return PART_NOTHING;
}

int part_decide(const json_t *run, const char *slice, unsigned worker, const struct member_part *mine,
                enum part_action *ret) {
        const json_t *generation = json_object_get(run, "generation"),
                     *slices = json_object_get(run, "slices");
        bool runs = mine->state == PART_STARTING || mine->state == PART_RUNNING, older;
        enum wanted wanted;

        if (!run) {
                *ret = PART_NOTHING;
                return 0;
        }
        if (!json_is_integer(generation) || json_integer_value(generation) < 0 || !json_is_array(slices) ||
            wanted_of(run, &wanted) < 0)
                return -EBADMSG;
        *ret = PART_NOTHING;
        if (mine->state != PART_NONE && mine->generation > (uint64_t) json_integer_value(generation))
                return 0; /* an older record than is known */
        older = mine->state == PART_NONE || mine->generation < (uint64_t) json_integer_value(generation);
        if (!is_in(slices, slice, worker)) /* while it waits nobody is in it yet, or again */
                *ret = runs && (wanted != WANTED_NOTHING || older) ? PART_STOP : PART_NOTHING;
        else if (older && runs)
                *ret = wanted == WANTED_NOTHING ? PART_NOTHING : PART_STOP;
        else
                *ret = next_action(wanted, older ? PART_NONE : mine->state);
        return 0;
}
