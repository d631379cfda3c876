/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host's part of one generation of a run: whether it may start, what tpu-launchd is asked for, and what
 * is kept of it.
 */
#include <assert.h>
#include <fcntl.h>

#include "check_words.h"
#include "json_text.h"
#include "log.h"
#include "loop_timer.h"
#include "member_state.h"
#include "orders_part.h"
#include "texts.h"
#include "utf8.h"

#define AGAIN (1 * USEC_PER_SEC)

/* --- Its state ----------------------------------------------------------------------------------------- */

void run_part_enter(struct run_part *p, uint64_t generation, enum part_state state, const char *detail) {
        char text[sizeof(p->detail)];

        assert(state < _PART_STATE_MAX);
        utf8_copy(text, sizeof(text), detail); /* it goes into the member report, and may be cut anywhere */
        p->now = (struct member_part){ .generation = generation, .state = state };
        memcpy(p->detail, text, sizeof(text));
        p->step_said = p->step;
        p->absent = 0;
        if (state != PART_EXITED && state != PART_STOPPED)
                p->cause[0] = p->code[0] = p->status[0] = '\0';
        bus_tell(p->owner->bus, BUS_MEMBER);
        if (state == PART_PREPARED)
                run_parts_keep(p->owner);
}

void run_parts_try_again(struct member_state *m) {
        (void) loop_timer_in(m->runs.again, AGAIN); /* fails only when the loop ends */
}

/* --- Prepared ------------------------------------------------------------------------------------------ */

static void report_refused(struct run_part *p) {
        size_t line = strcspn(p->detail, "\n");
        char reason[300];

        (void) snprintf(reason, sizeof(reason), "%.*s", (int) MIN(line, sizeof(reason) - 1), p->detail);
        (void) bus_emit(p->owner->bus,
                        EVENT_OF(RUN_REFUSED, .run = p->name, .generation = (int64_t) p->now.generation,
                                 .reason = reason, .remedy = p->detail + line + (p->detail[line] == '\n')),
                        NULL);
}

static void refuse_part(struct run_part *p, const char *detail, bool final) {
        run_part_enter(p, p->now.generation, PART_REFUSED, detail);
        if (final)
                (void) snprintf(p->cause, sizeof(p->cause), PART_NOT_STARTED);
        report_refused(p);
}

/* What this host's checks of its place among the others warn of, with what the preflight does. */
static void add_warnings(const struct bus *b, char *text, size_t size) {
        for (size_t i = 0; i < b->checks.n; i++) {
                struct finding f;

                kept_finding_unpack(b->checks.entries[i].latest, &f);
                if (f.verdict == VERDICT_WARN &&
                    (startswith(f.check, "enroll.") || streq(f.check, "preflight.alike") ||
                     streq(f.check, "preflight.pairs") || startswith(f.check, "clock.")))
                        text_append(text, size, "; ", "%.250s", f.reason);
        }
}

/* Which image the run's name for it means here: what is reported, and what tpu-launchd is to start. */
static int set_image(struct run_part *p, const char *id) {
        char *copy = strdup(id);

        if (!copy)
                return -ENOMEM;
        (void) snprintf(p->image, sizeof(p->image), "%s", id);
        if (p->request->image_id[0])
                free(p->request->image_id);
        p->request->image_id = copy;
        return 0;
}

static void on_preflight(const struct preflight_result *r, void *userdata) {
        struct run_part *p = userdata;
        char warnings[sizeof(p->detail)];

        (void) snprintf(warnings, sizeof(warnings), "%s", r->text);
        if (!r->refused)
                add_warnings(p->owner->bus, warnings, sizeof(warnings));
        if (r->refused)
                refuse_part(p, r->text, r->final);
        else if (r->image[0] && set_image(p, r->image) < 0)
                refuse_part(p, "out of memory", false);
        else
                run_part_enter(p, p->now.generation, PART_PREPARED, warnings);
        if (!r->refused && warnings[0])
                log_notice("run %s, generation %" PRIu64 ": %s", p->name, p->now.generation, warnings);
        p->preflight = preflight_free(p->preflight);
        run_part_act(p);
}

/* In what this host differs from the others of its slice: "libtpu 0.0.39, others 0.0.41". */
static void judge_unlike_host(const struct member_state *m, struct finding *f) {
        const json_t *u = slice_entry(m->slice_record, "unlike", m->who.worker);

        if (u)
                check_tell(f, WORDS_PART_UNLIKE, "", m->who.host, m->who.slice, json_text_of(u, "part"),
                           json_text_of(u, "found"), json_text_of(u, "others"));
}

/* What this host itself knows against it, the remedy behind a line feed; empty: nothing. */
static void own_objection(const struct member_state *m, char *buf, size_t size) {
        struct bus *b = m->bus;
        const struct order *cordon = orders_find(&b->orders, ORDER_CORDON),
                           *drain = orders_find(&b->orders, ORDER_DRAIN);
        struct finding f = { .verdict = VERDICT_OK };
        char reasons[200];

        if (b->state == HOST_UNFIT)
                check_tell(&f, WORDS_PART_UNFIT, "", m->who.host,
                           check_table_reasons(&b->checks, reasons, sizeof(reasons)));
        else if (cordon || drain)
                check_tell(&f, WORDS_PART_CORDONED, "", m->who.host, drain ? "draining" : "cordoned",
                           drain ? drain->reason : cordon->reason);
        else if (bus_observes(b))
                check_tell(&f, WORDS_PART_OBSERVES, "", m->who.host);
        else
                judge_unlike_host(m, &f);
        (void) snprintf(buf, size, "%s%s%s", f.reason, f.reason[0] ? "\n" : "", f.remedy);
        (void) utf8_scrub(buf, strlen(buf));
}

static int start_preflight(struct run_part *p) {
        struct member_state *m = p->owner;
        struct bus *b = m->bus;
        uint32_t chips = 0;
        bool known = identity_get_u32(&b->identity, IDENTITY_CHIPS, &chips) == 0;
        const struct preflight_options o = { .host = b->host,
                                             .intent = &b->intent,
                                             .launchd_socket = bus_launchd_socket(b),
                                             .run = p->record,
                                             .name = m->who.host,
                                             .slice = m->who.slice,
                                             .workers = identity_get(&b->identity,
                                                                     identity_workers(&b->identity)),
                                             .worker = m->who.worker,
                                             .chips = known && chips > 0,
                                             .request = p->request };

        return preflight_new(b->event, &o, on_preflight, p, &p->preflight);
}

static void data_nics(const struct bus *b, char nics[static INTENT_NICS_TEXT_MAX]) {
        _cleanup_links_ struct link_table links = LINK_TABLE_NULL;

        nics[0] = '\0';
        if (links_read(b->host, &links) >= 0)
                intent_data_nics(&b->intent, &links, nics);
}

/* What tpu-launchd will be asked for. why: as run_request_make(). */
static int make_request(struct run_part *p, char why[static RUN_WHY_MAX]) {
        const struct member_state *m = p->owner;
        char nics[INTENT_NICS_TEXT_MAX];

        (void) snprintf(p->serial, sizeof(p->serial), "%s", json_text_of(p->record, "serial"));
        p->step = -1;
        data_nics(m->bus, nics);
        local__run_request__free_unpacked(TAKE_PTR(p->request), NULL);
        return run_request_make(p->record, m->who.slice, m->who.worker, &m->bus->identity, nics, &p->request,
                                why);
}

/* The preflight of the record's generation; ends in prepared or refused. */
static void prepare_part(struct run_part *p) {
        char why[sizeof(p->detail)] = "";
        int r;

        p->preflight = preflight_free(p->preflight);
        p->image[0] = '\0';
        run_part_enter(p, json_number_of(p->record, "generation"), PART_PREPARING, "");
        own_objection(p->owner, why, sizeof(why));
        if (why[0]) {
                refuse_part(p, why, false);
                return;
        }
        r = make_request(p, why);
        if (r == 0) {
                (void) snprintf(why, sizeof(why), "out of memory");
                r = start_preflight(p);
        }
        if (r < 0)
                refuse_part(p, why, false);
}

/* --- Started and stopped ------------------------------------------------------------------------------- */

#define START_TIME                                                                                          \
        (120 * USEC_PER_SEC) /* starting a unit waits for its exec, and for the end of an older one */
#define STOP_MARGIN (30 * USEC_PER_SEC) /* beyond the grace */

/* What of the user's own environment differs from ours, as who built it says it. */
static void log_conflicts(const struct run_part *p, const struct local_answer *a) {
        Local__RunReply *m = local__run_reply__unpack(NULL, a->len, a->data);

        for (size_t i = 0; m && i < m->n_conflict; i++)
                log_notice("run %s: %.300s", p->name, m->conflict[i]);
        if (m)
                local__run_reply__free_unpacked(m, NULL);
}

/* What could not be asked is asked again: the same generation is never started twice. */
static void on_started(const struct local_answer *a, void *userdata) {
        struct run_part *p = userdata;
        struct local_call *call = TAKE_PTR(p->call); /* what follows may ask again */
        char text[sizeof(p->detail)];

        if (a->no_answer) {
                run_part_enter(p, p->now.generation, PART_PREPARED, a->text);
                run_parts_try_again(p->owner);
        } else if (a->error < 0) {
                (void) snprintf(text, sizeof(text), "%.300s\n%.200s", a->text, a->remedy);
                refuse_part(p, text, start_is_final(a, host_now(p->owner->bus->host)));
        } else
                log_conflicts(p, a);
        (void) local_call_free(call);
        bus_tell(p->owner->bus, BUS_ASK_RUNS); /* its list says how far it is */
}

static void start_part(struct run_part *p) {
        struct bus *b = p->owner->bus;
        int r;

        assert(p->request && !p->call);
        run_part_enter(p, p->now.generation, PART_STARTING, p->detail);
        log_info("run %s, generation %" PRIu64 " is started", p->name, p->now.generation);
        r = local_call_new(b->event,
                           &(struct local_question){ "tpu-launchd", bus_launchd_socket(b),
                                                     LOCAL__KIND__KIND_RUN_REQUEST,
                                                     LOCAL__KIND__KIND_RUN_REPLY, &p->request->base,
                                                     START_TIME },
                           on_started, p, &p->call);
        if (r < 0) {
                run_part_enter(p, p->now.generation, PART_PREPARED, strerror(-r));
                run_parts_try_again(p->owner);
        }
}

static void on_stopped(const struct local_answer *a, void *userdata) {
        struct run_part *p = userdata;

        if (a->error < 0) {
                log_warning("run %s, generation %" PRIu64 " cannot be stopped: %s", p->name, p->stop_asked,
                            a->text);
                run_parts_try_again(p->owner);
        }
        p->call = local_call_free(p->call);
        p->stopping = false;
        bus_tell(p->owner->bus, BUS_ASK_RUNS);
}

static void stop_part(struct run_part *p) {
        Local__StopRequest m = LOCAL__STOP_REQUEST__INIT;
        struct bus *b = p->owner->bus;
        static const Run__Spec standard = RUN__SPEC__INIT;
        usec_t grace = json_number_of(json_object_get(p->record, "intent"), "grace");
        int r;

        if (p->call && p->stopping)
                return;
        p->call = local_call_free(p->call); /* a start at work: it is stopped as soon as it is there */
        m.name = p->name;
        m.generation = p->now.generation;
        p->stop_asked = p->now.generation;
        p->stopping = true;
        log_info("run %s, generation %" PRIu64 " is stopped: %s", p->name, p->now.generation,
                 json_text_of(p->record, "why"));
        r = local_call_new(b->event,
                           &(struct local_question){ "tpu-launchd", bus_launchd_socket(b),
                                                     LOCAL__KIND__KIND_STOP_REQUEST,
                                                     LOCAL__KIND__KIND_STOP_REPLY, &m.base,
                                                     (grace > 0 ? grace : standard.grace) + STOP_MARGIN },
                           on_stopped, p, &p->call);
        if (r < 0) {
                p->stopping = false;
                run_parts_try_again(p->owner);
        }
}

/* --- Kept ---------------------------------------------------------------------------------------------- */

/*
 * What is prepared outlives this process, not this boot: the hosts of a run start a generation when all have
 * prepared it, and a host that had forgotten that would keep the others waiting until the next one. In the
 * state file (state_file.h) /var/lib/tpu-hostd/prepared.json, mode 0600:
 *
 *   {"boot_id": "…", "parts": [{"name": "train", "serial": "…", "generation": 2, "image": ""}],
 *    "leader": "https://…"}
 *
 * The collector that led last stands there, too, and outlives the boot: a fleet that starts again goes to it
 * at once. Whether a prepared generation was started since, tpu-launchd knows.
 */
static const struct state_format prepared_file = {
        .what = "prepared", .version = 1, .max = 64 * 1024, .options = { .mode = 0600 }
};

static json_t *prepared_to_json(const struct member_state *m) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < m->runs.n; i++) {
                const struct run_part *p = m->runs.parts[i];

                if (p->now.state != PART_PREPARED)
                        continue;
                list = json_list_add(list, json_pack("{s:s, s:s, s:I, s:s}", "name", p->name, "serial",
                                                     p->serial, "generation",
                                                     (json_int_t) p->now.generation, "image", p->image));
        }
        return json_pack("{s:s, s:o, s:s}", "boot_id", m->bus->boot_id, "parts", list, "leader", m->leader);
}

void run_parts_keep(struct member_state *m) {
        int r = m->runs.writer ? file_writer_put_json(m->runs.writer, prepared_to_json(m), NULL) : 0;

        if (r < 0) /* it is prepared again after a restart, or waited for */
                (void) log_warning_errno(r, "what is prepared is not kept: %m");
}

/* NULL: it was not. */
static const json_t *find_prepared(const struct run_part *p) {
        uint64_t generation = json_number_of(p->record, "generation");
        const json_t *v;
        size_t i;

        json_array_foreach(json_object_get(p->owner->runs.kept, "parts"), i, v)
                if (streq(json_text_of(v, "name"), p->name) && generation > 0 &&
                    streq(json_text_of(v, "serial"), json_text_of(p->record, "serial")) &&
                    json_number_of(v, "generation") == generation)
                        return v;
        return NULL;
}

/* Prepared, where the previous agent prepared the generation of its record: what it found then holds. */
static void restore_part(struct run_part *p) {
        const json_t *before = find_prepared(p);
        const char *image = json_text_of(before, "image");
        char why[sizeof(p->detail)] = "";

        if (!before || make_request(p, why) < 0)
                return; /* it is prepared again, and refused with that reason */
        p->image[0] = '\0';
        if (strlen(image) >= sizeof(p->image) || (image[0] && set_image(p, image) < 0))
                return;
        log_info("run %s, generation %" PRIu64 " was prepared before tpu-hostd was restarted", p->name,
                 json_number_of(p->record, "generation"));
        run_part_enter(p, json_number_of(p->record, "generation"), PART_PREPARED, "");
}

int run_parts_keep_start(struct member_state *m) {
        const struct bus *b = m->bus;
        const char *health = orders_file(b), *slash = health ? strrchr(health, '/') : NULL;
        _cleanup_free_ char *path = NULL;
        json_t *o;

        if (!slash)
                return 0;
        if (asprintf(&path, "%.*s/prepared.json", (int) (slash - health), health) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        if (state_file_load_json(AT_FDCWD, path, &prepared_file, &o) == 0) {
                (void) snprintf(m->leader, sizeof(m->leader), "%s", json_text_of(o, "leader"));
                /* Of this boot, or nothing: a run's processes end with the boot. */
                if (b->boot_id[0] && streq(json_text_of(o, "boot_id"), b->boot_id))
                        m->runs.kept = json_incref(o);
                json_decref(o);
        }
        return file_writer_new(b->event, path, &prepared_file, NULL, NULL, &m->runs.writer);
}

/* --- What to do ---------------------------------------------------------------------------------------- */

/* A preflight for what is not wanted any more. */
static void drop_preflight(struct run_part *p) {
        bool wanted = p->record && streq(json_text_of(p->record, "state"), "preparing") &&
                      json_number_of(p->record, "generation") == p->now.generation;

        if (!p->preflight || wanted)
                return;
        p->preflight = preflight_free(p->preflight);
        run_part_enter(p, p->now.generation, PART_NONE, "");
}

/* The agent was killed between its report that it is prepared and the start. */
static void restore_prepared(struct run_part *p) {
        const char *state = json_text_of(p->record, "state");
        bool older = p->now.state == PART_NONE ||
                     p->now.generation < json_number_of(p->record, "generation"),
             runs = p->now.state == PART_STARTING || p->now.state == PART_RUNNING;

        if (older && !runs && !p->preflight && (streq(state, "preparing") || streq(state, "running")))
                restore_part(p);
}

void run_part_act(struct run_part *p) {
        const struct member_state *m = p->owner;
        enum part_action action;
        int r;

        /* Nothing is started or stopped on the word of a registry that is not there. */
        if (!m->runs.known || !m->complete || m->status.state != REGISTRY_MEMBER)
                return;
        drop_preflight(p);
        restore_prepared(p);
        r = part_decide(p->record, m->who.slice, m->who.worker, &p->now, &action);
        if (r < 0) {
                log_warning("run %s: its record cannot be understood and is passed over", p->name);
                return;
        }
        switch (action) {
        case PART_PREPARE:
                prepare_part(p);
                break;
        case PART_START:
                if (!p->call)
                        start_part(p);
                break;
        case PART_STOP:
                stop_part(p);
                break;
        case PART_NOTHING:
        case _PART_ACTION_MAX:
                break;
        }
}
