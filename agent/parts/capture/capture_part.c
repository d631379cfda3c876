/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_part.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "calls.h"
#include "capture_host.h"
#include "capture_rounds.h"
#include "capture_shelf.h"
#include "capture_write.h"
#include "clock.h"
#include "local.pb-c.h"
#include "loop_timer.h"
#include "run_key.h"
#include "uplink_part.h"

#define STACK_CALLS_MAX    4
#define RECORD_TEXT_MAX    (900 * 1024) /* leaves room for the rest of a record of 1 MiB */
#define STACK_BUSY_AGAIN   1            /* seconds: somebody else's capture is in progress */
#define CAPTURE_BUSY_AGAIN 5            /* seconds: a round takes about as long */
#define SHOWN              2            /* of GET /v1/captures: a round */
#define RUN_NAME_SIZE      sizeof(((struct host_run *) NULL)->name)

/* A caller waits for the stacks of a run, and for their record. */
struct stack_call {
        struct late_call call; /* the first member */
        struct stack_call **slot;
        struct local_call *asked;
        sd_event_source *timer; /* the record becomes durable within it */
        char run[RUN_NAME_SIZE];
        struct capture_text captured; /* its text is set: the record was submitted */
        usec_t taken;                 /* real time */
        uint64_t seq;                 /* of the record */
};

struct capture_state {
        struct bus *bus;
        struct capture_rounds *rounds;
        struct stack_call *stacks[STACK_CALLS_MAX];
};

/* --- POST /v1/runs/NAME/capture ------------------------------------------------------------------------ */

static void clear_stacks(struct late_call *call) {
        struct stack_call *c = (struct stack_call *) call;

        *c->slot = NULL;
        c->asked = local_call_free(c->asked);
        c->timer = sd_event_source_disable_unref(c->timer);
        free(c->captured.text);
}

/* retry_after: seconds; 0: it is not said. */
static void fail_stacks(struct stack_call *c, unsigned status, const char *why, const char *remedy,
                        unsigned retry_after) {
        struct http_reply answer;
        char result[320];

        (void) snprintf(result, sizeof(result), "failed: %s", why);
        call_audit(c->call.bus, c->call.what, &c->call.caller, result);
        (void) answer_error(&answer, status, remedy, "%s", why);
        answer.retry_after = retry_after;
        late_call_answer(&c->call, &answer);
}

/* What tpu-launchd says against it. */
static unsigned status_of_errno(int code) {
        switch (code) {
        case ENOENT:
        case ESRCH:
                return 404;
        case EPERM:
        case EACCES:
                return 403;
        case EBUSY:
        case EAGAIN:
                return 503;
        case ETIMEDOUT:
                return 504;
        default: /* errno is not an enum of ours */
                return 502;
        }
}

static void answer_stacks(struct stack_call *c) {
        struct bus *b = c->call.bus;
        char taken[CLOCK_TEXT_MAX], spool[17], result[64];
        uint64_t id = 0, next;
        struct http_reply answer;

        (void) snprintf(result, sizeof(result), "captured, record %" PRIu64, c->seq);
        call_audit(b, c->call.what, &c->call.caller, result);
        /* A durable record has a spool. */
        (void) uplink_next(uplink_of(b), UPLINK_EVENTS, &id, &next);
        (void) snprintf(spool, sizeof(spool), "%016" PRIx64, id);
        (void) answer_json(&answer, 200,
                           json_pack("{s:s, s:s, s:I, s:I, s:s, s:{s:s, s:s, s:I}}", "name", c->run, "taken",
                                     clock_text(c->taken, taken), "processes",
                                     (json_int_t) c->captured.processes, "threads",
                                     (json_int_t) c->captured.threads, "text", c->captured.text, "record",
                                     "spool", spool, "class", uplink_class_name(UPLINK_EVENTS), "seq",
                                     (json_int_t) c->seq));
        late_call_answer(&c->call, &answer);
}

static int on_not_durable(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source, (void) usec;
        fail_stacks(userdata, 504, "the stacks were captured, but their record is not durable yet",
                    "tpuctl status", 0);
        return 0;
}

/* The record of a stack: exporters map this body as it is (DESIGN, Wire). It goes on in answer_durable(). */
static int submit_stacks(struct stack_call *c) {
        struct bus *b = c->call.bus;
        const char *slice = identity_get(&b->identity, IDENTITY_SLICE_NAME),
                   *worker = identity_get(&b->identity, IDENTITY_WORKER_ID);
        char taken[CLOCK_TEXT_MAX];
        int r = loop_timer_new(b->event, CLOCK_BOOTTIME, USEC_PER_SEC / 4, "capture-timeout",
                               on_not_durable, c, &c->timer);

        if (r >= 0)
                r = loop_timer_in(c->timer, b->settings.capture_timeout);
        if (r < 0)
                return r;
        return bus_emit(b,
                        EVENT_OF(STACK_CAPTURED, .verb = "stacktraceanalyzer", .node = b->name,
                                 .slice = slice ? slice : "", .worker = worker ? worker : "", .run = c->run,
                                 .taken = clock_text(c->taken, taken), .processes = c->captured.processes,
                                 .threads = c->captured.threads, .text = c->captured.text),
                        &c->seq);
}

static void take_stacks(struct stack_call *c, const Local__CaptureReply *m) {
        char text[420], why[CAPTURE_WHY_MAX];
        int r = capture_text_make(m->capture.data, m->capture.len, RECORD_TEXT_MAX, &c->captured, why);

        if (r < 0) {
                c->captured.text = NULL;
                (void) snprintf(text, sizeof(text), "tpu-launchd sent a capture that cannot be read: %s",
                                why);
                fail_stacks(c, 502, text, "journalctl -u tpu-launchd", 0);
                return;
        }
        if (c->captured.processes == 0) {
                (void) snprintf(text, sizeof(text), "run %s: no Python process in it: %s", c->run,
                                c->captured.unread);
                fail_stacks(c, 404, text, "only Python processes have stacks to show", 0);
                return;
        }
        c->taken = m->taken_real_usec;
        r = submit_stacks(c);
        if (r == 0)
                return;
        (void) snprintf(text, sizeof(text), "the stacks were captured, but the spool does not take them: %s",
                        strerror(-r));
        fail_stacks(c, 503, text, "tpuctl status", 0);
}

static void on_stacks(const struct local_answer *a, void *userdata) {
        struct stack_call *c = userdata;
        Local__CaptureReply *m;

        if (a->no_answer) {
                bool odd = a->error == -ETIMEDOUT || a->error == -EPROTO;
                unsigned status = a->error == -ETIMEDOUT ? 504 : odd ? 502 : 503;

                fail_stacks(c, status, a->text,
                            odd ? "journalctl -u tpu-launchd" : "systemctl status tpu-launchd", 0);
                return;
        }
        if (a->error < 0) {
                unsigned status = status_of_errno(-a->error);

                fail_stacks(c, status, a->text[0] ? a->text : "tpu-launchd refused the capture", a->remedy,
                            status == 503 ? STACK_BUSY_AGAIN : 0);
                return;
        }
        m = local__capture_reply__unpack(NULL, a->len, a->data);
        c->asked = local_call_free(c->asked);
        if (!m) {
                fail_stacks(c, 502, "tpu-launchd sent an answer that is none", "journalctl -u tpu-launchd",
                            0);
                return;
        }
        take_stacks(c, m);
        local__capture_reply__free_unpacked(m, NULL);
}

/* Every record up to seq is durable. */
static void answer_durable(struct capture_state *p, uint64_t seq) {
        for (size_t i = 0; i < STACK_CALLS_MAX; i++)
                if (p->stacks[i] && p->stacks[i]->captured.text && p->stacks[i]->seq <= seq)
                        answer_stacks(p->stacks[i]);
}

/*
 * Whether uid owns the main process of a run that lives. The process is asked, not the name service: that
 * one may block, and the run's user may be known to the network only.
 */
static bool owns_run(const struct bus *b, const char *run, uid_t uid) {
        const struct host_run *r = host_runs_find(b->runs, run);
        _cleanup_close_ int fd = -1;
        char path[64];
        struct stat st;

        if (!r || r->main_pid == 0 || !host_run_lives(r) || !b->runs->known)
                return false;
        (void) snprintf(path, sizeof(path), "/proc/%" PRIu32, r->main_pid);
        fd = host_open_file(b->host, path, O_PATH | O_DIRECTORY);
        return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == uid;
}

/*
 * As tpu-launchd decides when it is asked directly (authority.h): we are trusted with the stacks of any run,
 * and must not let anybody get round its answer. Members of tpu-run may start runs, but not look into those
 * of others.
 */
static bool may_act(const struct bus *b, const struct http_caller *caller, const char *run) {
        return caller->remote ? caller->acts : caller->peer.uid == 0 || owns_run(b, run, caller->peer.uid);
}

static int refuse_start(struct capture_state *p, const char *what, const struct http_request *r, int error,
                        struct http_reply *ret) {
        call_audit_refusal(p->bus, what, r->caller, strerror(-error));
        if (error == -EBUSY)
                return answer_error(ret, 503, "try again in a minute", "%d captures are in progress already",
                                    STACK_CALLS_MAX);
        return answer_error(ret, 503, "systemctl status tpu-launchd", "tpu-launchd cannot be asked: %s",
                            strerror(-error));
}

static int post_stacks(void *self, const struct http_request *r, struct http_reply *ret) {
        struct capture_state *p = self;
        struct stack_call *c, **slot = p->stacks;
        char what[sizeof(c->call.what)], caller[CALLER_TEXT_MAX];
        const char *run = route_part(r, 0);
        int error;

        if (!run_name_is_valid(run))
                return answer_error(ret, 404, "GET /v1/runs has the names",
                                    "the path holds no name of a run");
        (void) snprintf(what, sizeof(what), "POST /v1/runs/%s/capture", run);
        if (!may_act(p->bus, r->caller, run)) {
                call_audit_refusal(p->bus, what, r->caller, "refused: no right to act");
                return answer_error(ret, 403, "run it as root, or as the run's own user",
                                    "%s may not capture stacks of run %s", caller_text(r->caller, caller),
                                    run);
        }
        if (!bus_launchd_socket(p->bus))
                return refuse_start(p, what, r, -ENOENT, ret);
        while (slot < p->stacks + STACK_CALLS_MAX && *slot)
                slot++;
        if (slot == p->stacks + STACK_CALLS_MAX)
                return refuse_start(p, what, r, -EBUSY, ret);
        c = *slot = late_call_new(p->bus, r, sizeof(*c), what);
        if (!c)
                return answer_error(ret, 500, NULL, "out of memory");
        c->slot = slot;
        c->call.clear = clear_stacks;
        (void) snprintf(c->run, sizeof(c->run), "%s", run);
        error = capture_ask(p->bus, c->run, false, p->bus->settings.capture_timeout, on_stacks, c,
                            &c->asked);
        if (error == 0)
                return 1;
        late_call_free(&c->call);
        return refuse_start(p, what, r, error, ret);
}

/* --- GET and POST /v1/captures: this host's part of a diagnosis without a collector -------------------- */

/* A Captures message that grows. */
struct captures {
        uint8_t *data;
        size_t len, size;
};

static int add_capture(struct captures *c, const uint8_t *data, size_t len) {
        Capture__Captured item = CAPTURE__CAPTURED__INIT, *list[] = { &item };
        Capture__Captures m = CAPTURE__CAPTURES__INIT;

        item.capture.data = (uint8_t *) (uintptr_t) data; /* only read */
        item.capture.len = len;
        m.captured = list;
        m.n_captured = 1;
        return captures_pack(&m, &c->data, &c->len, &c->size);
}

static int answer_captures(struct http_reply *ret, struct captures *c) {
        *ret = (struct http_reply) {
                .status = 200, .content_type = "application/x-protobuf", .body = c->data, .len = c->len
        };
        return 0;
}

struct newest {
        char names[SHOWN][SHELF_NAME_MAX];
        size_t n;
};

static bool on_name(const char *name, void *userdata) {
        struct newest *w = userdata;

        if (w->n == SHOWN)
                memmove(w->names[0], w->names[1], sizeof(w->names[0]) * (SHOWN - 1));
        else
                w->n++;
        (void) snprintf(w->names[w->n - 1], SHELF_NAME_MAX, "%s", name);
        return true;
}

static int add_kept(struct captures *c, const char *directory, const char *name) {
        _cleanup_free_ uint8_t *data = NULL;
        size_t len;
        int r = capture_shelf_read(directory, name, CAPTURE_POST_MAX, &data, &len);

        return r < 0 ? (r == -ENOENT ? 0 : r) /* a newer one has pushed it out */
                     : add_capture(c, data, len);
}

static int get_captures(void *self, const struct http_request *r, struct http_reply *ret) {
        const struct capture_state *p = self;
        const char *directory = capture_rounds_directory(p->rounds);
        struct newest newest = { .n = 0 };
        struct captures all = { .len = 0 };
        int k;

        if (!caller_may_see_stacks(r->caller))
                return call_refuse(p->bus, r, ret, NULL, 403,
                                   "no right to see the stacks of everybody's runs",
                                   "run it as root, or: tpuctl stack RUN, of a run of your own");
        k = capture_shelf_visit(directory, on_name, &newest);
        for (size_t i = 0; i < newest.n && k == 0; i++)
                k = add_kept(&all, directory, newest.names[i]);
        if (k < 0) {
                free(all.data);
                return answer_error(ret, 500, "ls -l the directory, and journalctl -u tpu-hostd",
                                    "%s cannot be read: %s", directory, strerror(-k));
        }
        return answer_captures(ret, &all);
}

static void on_captured(void *token, const uint8_t *data, size_t len, const char *why) {
        struct late_call *c = token;
        struct captures one = { .len = 0 };
        struct http_reply reply;

        if (data && add_capture(&one, data, len) < 0)
                why = "out of memory";
        call_audit(c->bus, c->what, &c->caller, one.data ? "captured" : why);
        if (one.data)
                (void) answer_captures(&reply, &one);
        else
                (void) answer_error(&reply, 503, "tpuctl runs", "%s", why);
        late_call_answer(c, &reply);
}

static int post_capture(void *self, const struct http_request *r, struct http_reply *ret) {
        struct capture_state *p = self;
        const char *run = route_text(r, "run");
        struct late_call *c;

        if (!caller_may_order(r->caller))
                return call_refuse(p->bus, r, ret, NULL, 403,
                                   "no right to act: this caller may not capture stacks",
                                   "run it as root, or with a certificate that may act");
        if (run && *run && !run_name_is_valid(run))
                return answer_error(ret, 400, "GET /v1/runs has the names",
                                    "argument run: no name of a run");
        c = late_call_new(p->bus, r, sizeof(*c), "POST /v1/captures");
        if (!c)
                return answer_error(ret, 500, NULL, "out of memory");
        if (capture_rounds_order(p->rounds, run ? run : "", on_captured, c) == 0)
                return 1;
        late_call_free(c);
        (void) answer_error(ret, 503, "try again in a minute", "captures are in progress already");
        ret->retry_after = CAPTURE_BUSY_AGAIN;
        return 0;
}

/* --- The part ------------------------------------------------------------------------------------------ */

static const struct part_route routes[] = {
        { ROUTE("POST", "/v1/runs/NAME/capture"), .call = post_stacks },
        { ROUTE("GET", "/v1/captures"), .call = get_captures },
        { ROUTE_WITH("POST", "/v1/captures", ARGUMENTS(TAKES_SOME("run"))), .call = post_capture },
        PART_ROUTES_END,
};

static int start_capture(void *self) {
        struct capture_state *p = self;

        return capture_rounds_new(p->bus, &p->rounds);
}

static void hear_capture(void *self, const struct bus_news *n) {
        struct capture_state *p = self;

        if (!p->rounds)
                return;
        if (n->topic == BUS_DURABLE && n->durable.class == UPLINK_EVENTS)
                answer_durable(p, n->durable.seq);
        if (n->topic == BUS_REGISTRY)
                capture_rounds_registry(p->rounds, n->registry.other);
        if (n->topic == BUS_RECORD && startswith(n->record.key, "capture/"))
                capture_rounds_record(p->rounds, n->record.value, n->record.fresh);
        if (n->topic == BUS_SUSPICION && n->suspicion.now && n->suspicion.now->counts)
                capture_rounds_suspected(p->rounds, n->suspicion.run, n->suspicion.generation,
                                         n->suspicion.now);
}

static void stop_capture(void *self) {
        struct capture_state *p = self;

        for (size_t i = 0; i < STACK_CALLS_MAX; i++)
                if (p->stacks[i])
                        late_call_free(&p->stacks[i]->call);
        p->rounds = capture_rounds_free(p->rounds);
}

const struct part capture_part = {
        .name = "capture",
        .size = sizeof(struct capture_state),
        .routes = routes,
        .start = start_capture,
        .hear = hear_capture,
        .stop = stop_capture,
};
