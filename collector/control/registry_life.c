/* SPDX-License-Identifier: Apache-2.0 */
/* The registry is made, takes the records over when this collector leads, resigns and ends. */
#include <assert.h>
#include <sys/random.h>

#include "inside.h"
#include "log.h"
#include "loop_timer.h"

/* --- It leads -------------------------------------------------------------------------------------- */

static int load_record(struct registry *r, const char *key, json_t *v) {
        char why[GANG_WHY_MAX];
        int x = 0;

        if (!startswith(key, REGISTRY_OWN))
                x = gang_load(r->gang, key, v, registry_now(r), why);
        if (x == -EBADMSG) {
                log_error("registry: a record is left out: %s: %s", key, why);
                return 0;
        }
        if (x >= 0 && registry_is_published(key))
                x = records_put(&r->records, key, json_incref(v), true, 1);
        return x < 0 ? x : json_object_set(r->kept, key, v) < 0 ? -ENOMEM : 0;
}

static int load_records(struct registry *r, const json_t *records) {
        struct gang_options o = gang_default_options;
        uint64_t random;
        const char *key;
        json_t *v;
        int x;

        o.lease = r->o.lease;
        o.preflight_pairs = r->o.preflight_pairs;
        if (getrandom(&random, sizeof(random), 0) != (ssize_t) sizeof(random))
                return -errno;
        r->answers.lease = registry_lease_seconds(r);
        r->answers.term = r->control->term;
        (void) snprintf(r->answers.store, sizeof(r->answers.store), "%s", r->control->id);
        (void) snprintf(r->answers.epoch, sizeof(r->answers.epoch), "%016" PRIx64, random);
        r->time = (struct clock_steady) { .real = 0 };
        r->pending = json_object();
        r->kept = json_object();
        x = r->pending && r->kept ? gang_new(&o, &r->gang) : -ENOMEM;
        if (x >= 0)
                x = records_init(&r->records);
        json_object_foreach ((json_t *) (uintptr_t) records, key, v)
                if (x >= 0)
                        x = load_record(r, key, v);
        return x;
}

static int on_led(const json_t *records, void *userdata) {
        struct registry *r = userdata;
        int x;

        assert(!r->gang);
        r->decided = r->covers = r->stored = 0;
        r->own_loaded = true;
        r->sessions.turned = registry_boot_now(r) / WHEEL_SLOT * WHEEL_SLOT;
        x = load_records(r, records);
        if (x < 0) {
                (void) log_error_errno(x, "registry: cannot take over: %m");
                registry_forget_all(r);
                return x;
        }
        if (r->control->term > 0)
                log_notice("registry: this collector leads (term %" PRIu64 "), with %zu records",
                           r->control->term, json_object_size(records));
        if (r->o.leads)
                r->o.leads(true, r->o.userdata);
        registry_decide_soon(r);
        registry_arm(r);
        return 0;
}

static void on_lost(const char *why, void *userdata) {
        registry_lose_lead(userdata, why);
}

static void on_resigned(void *userdata) {
        struct registry *r = userdata;

        r->o.resigned(r->o.userdata);
}

int registry_resign(struct registry *r) {
        if (r->control->ops->takes_along)
                return 0;
        registry_lose_lead(r, "it is being stopped");
        return r->control->ops->resign(r->control);
}

/* --- Life ------------------------------------------------------------------------------------------ */

int control_registry_new(const struct control_registry_options *o, struct registry **ret) {
        static const struct control_events events = {
                .led = on_led,
                .lost = on_lost,
                .wrote = registry_wrote,
                .along = registry_store_story,
                .resigned = on_resigned,
        };
        _cleanup_(control_freep) struct control_store *control = o->control;
        _cleanup_(control_registry_freep) struct registry *r = calloc(1, sizeof(*r));
        int x;

        if (!r)
                return -ENOMEM;
        r->o = *o;
        r->control = TAKE_PTR(control);
        r->gang_at = USEC_INFINITY;
        x = loop_timer_new(r->o.event, CLOCK_BOOTTIME, USEC_PER_MSEC, "registry", registry_on_timer, r,
                           &r->timer);
        if (x >= 0)
                x = control_start(r->control, &events, r);
        if (x < 0)
                return x;
        *ret = TAKE_PTR(r);
        return 0;
}

struct registry *control_registry_free(struct registry *r) {
        if (!r)
                return NULL;
        registry_answer_all(r, "the collector stops");
        registry_forget_all(r);
        r->control = control_free(r->control);
        (void) sd_event_source_unref(r->timer);
        free(r);
        return NULL;
}
