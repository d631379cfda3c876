/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight.h"

#include <assert.h>
#include <stdarg.h>

#include "check_words.h"
#include "json_text.h"
#include "loop_timer.h"
#include "pathproof.h"
#include "utf8.h"
#include "worker_names.h"

struct preflight {
        sd_event *event;
        const char *name; /* of this host */
        const char *socket;
        struct local_call *call;
        struct run_ports *ports;
        struct worker_names *names;
        struct pathproof *proof;
        sd_event_source *end; /* all is known, or the time is over */
        usec_t up;            /* since the boot */
        unsigned open;        /* questions without an answer */
        struct preflight_result result;
        void (*done)(const struct preflight_result *r, void *userdata);
        void *userdata;
};

/* --- What was found ------------------------------------------------------------------------------------ */

static void refuse_run(struct preflight *p, const char *reason, const char *remedy) {
        if (p->result.refused) /* the first says enough */
                return;
        p->result.refused = true;
        (void) snprintf(p->result.text, sizeof(p->result.text), "%.270s\n%.200s", reason, remedy);
        (void) utf8_scrub(p->result.text, strlen(p->result.text));
}

/* Out of the list of checks, with its fields. */
#define refuse_as(p, w, ...)                                                                        \
        do {                                                                                        \
                struct finding _f;                                                                  \
                check_tell(&_f, (w), "", ##__VA_ARGS__);                                            \
                refuse_run((p), _f.reason, _f.remedy);                                              \
        } while (0)

_printf_(2, 3) static void add_warning(struct preflight *p, const char *fmt, ...) {
        size_t n = strlen(p->result.text);
        char text[200];
        va_list ap;

        if (p->result.refused)
                return;
        va_start(ap, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        (void) snprintf(p->result.text + n, sizeof(p->result.text) - n, "%s%s", n > 0 ? "; " : "", text);
        (void) utf8_scrub(p->result.text, strlen(p->result.text));
}

static void end_at(struct preflight *p, usec_t after) {
        (void) loop_timer_in(p->end, after); /* fails only when the loop ends */
}

static void count_answer(struct preflight *p) {
        assert(p->open > 0);
        if (--p->open == 0 || p->result.refused)
                end_at(p, 0);
}

static int on_end(sd_event_source *source, uint64_t usec, void *userdata) {
        struct preflight *p = userdata;

        (void) source, (void) usec;
        if (p->call)
                add_warning(p, "not known: whether tpu-launchd would start it (it has not answered yet)");
        if (p->proof)
                add_warning(p, "not known: whether full-size packets reach the peers (the proof has not "
                               "ended)");
        p->done(&p->result, p->userdata); /* and p may be gone */
        return 0;
}

/* --- tpu-launchd --------------------------------------------------------------------------------------- */

static void take_image(struct preflight *p, const struct local_answer *a) {
        Local__RunReply *m = local__run_reply__unpack(NULL, a->len, a->data);

        if (!m)
                return; /* it is not known then */
        if (strlen(m->image_id) < sizeof(p->result.image))
                (void) snprintf(p->result.image, sizeof(p->result.image), "%s", m->image_id);
        local__run_reply__free_unpacked(m, NULL);
}

static void on_checked(const struct local_answer *a, void *userdata) {
        struct preflight *p = userdata;

        /* EBADMSG, EOPNOTSUPP: it does not know the kind. */
        if (a->no_answer || a->error == -EBADMSG || a->error == -EOPNOTSUPP)
                add_warning(p, "not known: whether tpu-launchd would start it (%.120s)", a->text);
        else if (a->error < 0)
                refuse_run(p, a->text, a->remedy);
        else
                take_image(p, a);
        p->result.final = start_is_final(a, p->up);
        p->call = local_call_free(p->call);
        count_answer(p);
}

/* --- The ports ----------------------------------------------------------------------------------------- */

static void on_ports(const struct run_port *ports, size_t n, void *userdata) {
        struct preflight *p = userdata;
        struct finding f;

        if (run_ports_judge(ports, n, p->name, &f))
                refuse_run(p, f.reason, f.remedy);
        for (size_t i = 0; i < n; i++)
                if (!ports[i].answered)
                        add_warning(p, "not known: whether %s (%s) can be reached at port %u", ports[i].host,
                                    ports[i].address[0] ? ports[i].address : "no address", ports[i].port);
        p->ports = run_ports_free(p->ports);
        count_answer(p);
}

static void look_at_own_port(struct preflight *p, const struct preflight_options *o) {
        struct run_coordinator c;
        char port[8];
        int r;

        run_coordinator_of(o->run, &c);
        if (c.port == 0 || !run_is_coordinator(o->run, o->slice, o->worker))
                return;
        (void) snprintf(port, sizeof(port), "%u", c.port);
        r = port_is_free(c.port);
        if (r == -EADDRINUSE)
                refuse_as(p, WORDS_PORT_TAKEN, port, o->name);
        else if (r < 0)
                add_warning(p, "not known: whether port %u is free (%s)", c.port, strerror(-r));
}

static void ask_ports(struct preflight *p, const struct preflight_options *o) {
        struct run_port ports[RUN_PORTS_MAX];
        size_t n = run_ports_of(o->run, o->request->spec, o->slice, o->worker, o->chips, ports);
        int r = run_ports_new(p->event, ports, n, on_ports, p, &p->ports);

        if (r < 0)
                add_warning(p, "not known: whether the ports of the run can be reached (%s)", strerror(-r));
        else
                p->open++;
}

/* --- The names ----------------------------------------------------------------------------------------- */

static void on_names(const struct finding *f, void *userdata) {
        struct preflight *p = userdata;

        if (f->verdict == VERDICT_FAIL)
                refuse_run(p, f->reason, f->remedy);
        else if (f->verdict != VERDICT_OK)
                add_warning(p, "%s", f->reason);
        p->names = worker_names_free(p->names);
        count_answer(p);
}

static void ask_names(struct preflight *p, const struct preflight_options *o) {
        const json_t *s;
        size_t i;

        if (!o->host->real_root)
                return;
        json_array_foreach(json_object_get(o->run, "slices"), i, s)
                if (streq(json_text_of(s, "slice"), o->slice) && !p->names &&
                    worker_names_new(p->event, o->workers, json_object_get(s, "hosts"), o->worker, on_names,
                                     p, &p->names) == 0)
                        p->open++; /* else nothing is named, or it is looked at again as a check */
}

/* --- The paths ----------------------------------------------------------------------------------------- */

static void take_paths(struct preflight *p, const struct path_report *report) {
        const struct finding *worst = NULL;
        char text[300];

        for (size_t i = 0; i < report->findings.n; i++) {
                const struct finding *f = &report->findings.items[i];

                if (streq(f->check, "path.tcp"))
                        continue; /* the run's own ports are tried beside */
                if (f->verdict == VERDICT_FAIL) {
                        (void) snprintf(text, sizeof(text), "%.63s: path %.100s: %.120s", p->name,
                                        f->subject, f->reason);
                        refuse_run(p, text, f->remedy);
                        return;
                }
                if (f->verdict != VERDICT_OK && !worst)
                        worst = f;
        }
        if (worst)
                add_warning(p, "path %.80s: %.100s", worst->subject, worst->reason);
}

static void on_paths(struct path_report *report, void *userdata) {
        struct preflight *p = userdata;

        take_paths(p, report);
        p->proof = pathproof_free(p->proof);
        count_answer(p);
}

struct peers_of {
        struct path_peers peers;
        size_t n;
};

static bool add_peer(const char *host, const char *address, void *userdata) {
        struct peers_of *x = userdata;
        struct path_peer one = { .nic = "" };
        char why[96];

        (void) host;
        if (address[0]) {
                (void) snprintf(one.name, sizeof(one.name), "%.*s", (int) sizeof(one.name) - 1, address);
                (void) path_peers_add_one(&x->peers, &one, why); /* what is no peer's address is not tried */
        }
        return ++x->n < PREFLIGHT_PEERS;
}

static void ask_paths(struct preflight *p, const struct preflight_options *o) {
        struct peers_of x = { .n = 0 };
        int r = 0;

        run_visit_peers(o->run, o->slice, o->worker, add_peer, &x);
        if (x.peers.n > 0)
                r = pathproof_new(p->event, o->host, o->intent, &x.peers, true, on_paths, p, &p->proof);
        if (r < 0)
                add_warning(p, "not known: whether full-size packets reach the peers (%s)",
                     r == -EOPNOTSUPP ? "--root names another machine's files" : strerror(-r));
        else if (x.peers.n > 0)
                p->open++;
        path_peers_clear(&x.peers);
}

/* --- All ----------------------------------------------------------------------------------------------- */

int preflight_new(sd_event *e, const struct preflight_options *o,
                  void (*done)(const struct preflight_result *r, void *userdata), void *userdata,
                  struct preflight **ret) {
        _cleanup_(preflight_freep) struct preflight *p = calloc(1, sizeof(*p));
        int r;

        if (!p)
                return -ENOMEM;
        p->event = e;
        p->name = o->name;
        p->socket = o->launchd_socket;
        p->up = host_now(o->host);
        p->done = done;
        p->userdata = userdata;
        r = loop_timer_new(e, CLOCK_BOOTTIME, 10 * USEC_PER_MSEC, "preflight", on_end, p, &p->end);
        if (r >= 0)
                r = loop_timer_in(p->end, PREFLIGHT_TIME);
        if (r < 0)
                return r;
        r = local_call_new(e,
                           &(struct local_question){ "tpu-launchd", p->socket,
                                                     LOCAL__KIND__KIND_CHECK_REQUEST,
                                                     LOCAL__KIND__KIND_RUN_REPLY, &o->request->base,
                                                     PREFLIGHT_TIME },
                           on_checked, p, &p->call);
        if (r < 0)
                return r;
        p->open++;
        look_at_own_port(p, o);
        if (!p->result.refused) {
                ask_ports(p, o);
                ask_names(p, o);
                ask_paths(p, o);
        }
        if (p->result.refused)
                end_at(p, 0);
        *ret = TAKE_PTR(p);
        return 0;
}

struct preflight *preflight_free(struct preflight *p) {
        if (!p)
                return NULL;
        p->end = sd_event_source_disable_unref(p->end);
        p->call = local_call_free(p->call);
        p->ports = run_ports_free(p->ports);
        p->names = worker_names_free(p->names);
        p->proof = pathproof_free(p->proof);
        free(p);
        return NULL;
}
