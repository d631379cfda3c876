/* SPDX-License-Identifier: Apache-2.0 */
#include "api_state.h"

#include "answer.h"
#include "answer_lines.h"
#include "authority.h"
#include "check_words.h"
#include "daemon_status.h"
#include "holders.h"
#include "local.pb-c.h"
#include "log.h"
#include "owners.h"
#include "questions.h"
#include "rights.h"
#include "unpack.h"

#define COMMAND_TEXT_MAX 256
#define USER_NAME_MAX 256
#define DEPTH_MAX 8 /* messages in one another; a request has three */

/* --- Requests ------------------------------------------------------------------------------------------ */

/* Whether its start is still to be reported. */
static bool is_coming(const struct launch_api *a, const struct kept_run *kept) {
        return kept->state == LAUNCH_STARTING ||
               runs_next_generation(a->runs, kept->name) == kept->generation;
}

/* The answer of a start comes later, from what the runs report. */
static int begin_start(struct launch_api *a, struct frame_peer *peer, const struct caller *c,
                       struct request_result *result, struct problem *p) {
        const struct kept_run *kept = NULL;
        char command[COMMAND_TEXT_MAX];
        struct asker *w = NULL;
        int r = runs_start(a->runs, TAKE_PTR(result->kept), &kept, p);

        if (r == 1 && !is_coming(a, kept)) {
                answer_run(peer, kept, true, NULL);
                return 0;
        }
        if (r >= 0)
                w = asker_new(&a->askers, peer, ACTION_START, kept->name);
        if (!w)
                return r < 0 ? r : problem_no_memory(p);
        w->generation = kept->generation;
        w->conflicts = TAKE_PTR(result->conflicts);
        log_notice("run %s: start asked for by %s (pid %d) as %s%s%s: %s", kept->name, c->name, (int) c->pid,
                   kept->user, kept_run_has_image(kept) ? ", image " : "", kept->spec->image,
                   run_command(kept, command, sizeof(command)));
        return 0;
}

/* As a start is answered, and nothing begins. */
static int answer_check(struct launch_api *a, struct frame_peer *peer, const struct request_result *result,
                        struct problem *p) {
        int r = runs_check(a->runs, result->kept, p);

        if (r >= 0)
                answer_run(peer, result->kept, false, result->conflicts);
        return MIN(r, 0);
}

static int refuse_unanswered(const struct question *q, int error, struct problem *p) {
        const struct ucred *creds = frame_peer_creds(q->peer);
        char remedy[256];

        if (error != -ETIMEDOUT)
                return problem_set(p, error, "see: journalctl -b -u tpu-launchd",
                                   "what the request needs cannot be found out: %s", strerror(-error));
        if (!q->result.kept) {
                (void) snprintf(remedy, sizeof(remedy), "id %u # must answer; see: systemctl --failed",
                                (unsigned) creds->uid);
                return problem_set(p, -EAGAIN, remedy,
                                   "the user database of this host does not answer (asked for uid %u)",
                                   (unsigned) creds->uid);
        }
        (void) snprintf(remedy, sizeof(remedy), "sudo -u %.64s timeout 5 ls %.100s", q->result.kept->user,
                        q->result.kept->spec->directory[0] ? q->result.kept->spec->directory : "~");
        return problem_set(p, -EAGAIN, remedy,
                           "run %s: its directory or its command lies on a mount that does not answer",
                           q->result.kept->name[0] ? q->result.kept->name : "without a name");
}

/* What its user sees of it is known. */
static void on_looked(struct question *q, int error, const char *answer, size_t len) {
        struct request_result result = q->result;
        struct caller c = q->who.caller;
        struct frame_peer *peer = q->peer;
        struct asked asked = { .action = q->frame.kind == LOCAL__KIND__KIND_CHECK_REQUEST ? ACTION_LIST
                                                                                        : ACTION_START };
        struct launch_api *a = q->userdata;
        struct problem p = { 0 };
        int r = error < 0 ? refuse_unanswered(q, error, &p) : request_finish(answer, len, &result, &p);

        asked_note(&asked, asked.action, result.kept->name, result.kept->user);
        q->result = (struct request_result){ 0 };
        (void) question_free(q);
        if (r >= 0)
                r = rights_check_replacing(a->runs, &c, result.kept, &p);
        if (r >= 0)
                r = asked.action == ACTION_START ? begin_start(a, peer, &c, &result, &p) :
                                                   answer_check(a, peer, &result, &p);
        asked_record(&a->refusals, host_now(a->host), &c, &asked, r, p.text);
        if (r < 0)
                answer_problem(peer, r, &p);
        request_result_clear(&result);
}

/* Returns 1: on_looked() answers. */
static int handle_run(struct launch_api *a, struct question *question, const Local__RunRequest *q,
                      struct problem *p) {
        struct request_look look = { .host = a->host, .identity_config = a->identity_config, .request = q,
                                     .target = &question->who.target };
        struct child_work work = { .name = "run-paths", .timeout = QUESTION_LOOK_TIMEOUT,
                                   .max = REQUEST_LOOKED_MAX, .run = request_look, .data = &look };
        int r;

        r = request_begin(a->host, a->identity_config, q, &question->who, &question->result, p);
        if (r < 0)
                return r;
        look.kept = question->result.kept;
        r = rights_check_replacing(a->runs, &question->who.caller, look.kept, p);
        if (r >= 0)
                r = question_start(question, work, on_looked, p);
        return r < 0 ? r : 1;
}

static int handle_stop(struct launch_api *a, struct frame_peer *peer, const struct caller *c,
                       const Local__StopRequest *q, struct problem *p) {
        int r;

        r = rights_check(a->runs, c, ACTION_STOP, q->name, p);
        if (r < 0)
                return r;
        r = runs_stop(a->runs, q->name, q->generation, p);
        if (r < 0)
                return r;
        if (r == 1) {
                Local__StopReply reply = LOCAL__STOP_REPLY__INIT;

                reply.name = q->name;
                answer(peer, LOCAL__KIND__KIND_STOP_REPLY, &reply.base);
                return 0;
        }
        return asker_new(&a->askers, peer, ACTION_STOP, q->name) ? 0 : problem_no_memory(p);
}

static int handle_capture(struct launch_api *a, struct frame_peer *peer, const struct caller *c,
                          const Local__CaptureRequest *q, struct problem *p) {
        int r;

        r = rights_check(a->runs, c, ACTION_CAPTURE, q->name, p);
        if (r < 0)
                return r;
        r = runs_capture(a->runs, q->name, q->native, c->remote, p);
        if (r < 0)
                return r;
        return asker_new(&a->askers, peer, ACTION_CAPTURE, q->name) ? 0 : problem_no_memory(p);
}

static void add_watcher(struct launch_api *a, struct frame_peer *peer) {
        size_t at = WATCHERS_MAX;

        for (size_t i = WATCHERS_MAX; i > 0; i--) {
                if (a->watchers[i - 1] == peer)
                        return;
                if (!a->watchers[i - 1])
                        at = i - 1;
        }
        if (at < WATCHERS_MAX)
                a->watchers[at] = peer;
}

static int handle_run_list(struct launch_api *a, struct frame_peer *peer, const Local__RunListRequest *q,
                           struct problem *p) {
        struct run_list list;
        int r = run_list_make(a->runs, q->name, frame_peer_creds(peer)->uid, &list);

        if (q->watch)
                add_watcher(a, peer);

        if (r == 0)
                answer(peer, LOCAL__KIND__KIND_RUN_LIST_REPLY, &list.reply.base);
        run_list_clear(&list);
        if (r == -ENOENT)
                return no_such_run(a->runs, q->name, p);
        return r < 0 ? problem_no_memory(p) : 0;
}

static int handle_signal(struct launch_api *a, struct frame_peer *peer, const struct caller *c,
                         const Local__SignalRequest *q, struct problem *p) {
        Local__SignalReply reply = LOCAL__SIGNAL_REPLY__INIT;
        char done[160];
        int r;

        r = rights_check(a->runs, c, ACTION_SIGNAL, q->name, p);
        if (r == 0)
                r = runs_signal(a->runs, q->name, q->generation, done, sizeof(done), p);
        if (r < 0)
                return r;
        reply.name = q->name;
        reply.done = done;
        answer(peer, LOCAL__KIND__KIND_SIGNAL_REPLY, &reply.base);
        return 0;
}

static int handle_log(struct launch_api *a, struct frame_peer *peer, const struct caller *c,
                      const Local__LogRequest *q, struct problem *p) {
        const struct kept_run *kept = runs_find(a->runs, q->name);
        Local__LogReply reply = LOCAL__LOG_REPLY__INIT;
        const char *form;
        int fd, r = authority_decide(c, ACTION_LOG, c->uid, c->name, p);

        if (r < 0)
                return r;
        if (!kept || !kept_run_is_shown_to(kept, c->uid))
                return no_such_run(a->runs, q->name, p);
        fd = kept->held ? container_open_log(a->host, kept->held->control_group, &form) : -ENOENT;
        if (fd < 0)
                return problem_set(p, fd, "docker logs, or podman logs, with the container's name",
                                   "run %s: what it prints cannot be read here: %s", q->name, strerror(-fd));
        reply.form = wire_text(form);
        r = frame_peer_send_fd(peer, LOCAL__KIND__KIND_LOG_REPLY, &reply.base, fd);
        return r < 0 ? problem_set(p, r, "try again", "run %s: its log cannot be handed over: %s", q->name,
                                   strerror(-r))
                     : 0;
}

/* What this daemon cannot do now. */
static int handle_status(struct launch_api *a, struct frame_peer *peer) {
        struct finding f;
        int k = runs_state(a->runs);

        check_tell(&f,
                   k >= 0 ? WORDS_DAEMON_DISK :
                   k == -EROFS ? WORDS_DAEMON_DISK_READ_ONLY :
                                 WORDS_DAEMON_DISK_FAILS,
                   "tpu-launchd", PATH_LAUNCHD_STATE,
                   "no run is started; those that run can be listed and stopped",
                   strerror(-k));
        finding_set(f.found, "%s", k >= 0 ? "can be written" : strerror(-k));
        return daemon_status_send(peer, &f, 1);
}

static int malformed(uint16_t kind, struct problem *p) {
        return problem_set(p, -EBADMSG, "are tpuctl and tpu-launchd of one version?",
                           "a request of kind %u cannot be understood", (unsigned) kind);
}

/* Anybody may ask. protobuf-c merges a spec that is given again and again in quadratic time: for minutes, in
 * which nobody else is answered. */
static bool is_sound(const struct frame *f, const ProtobufCMessageDescriptor *d) {
        return wire_check(d, f->data, f->len, DEPTH_MAX) == 0;
}

#define HANDLE(KIND, type, Type, action, run, detail, call)                                                 \
        if (f->kind == LOCAL__KIND__##KIND) {                                                               \
                Local__##Type *q = is_sound(f, &local__##type##__descriptor)                                \
                                           ? local__##type##__unpack(NULL, f->len, f->data)                 \
                                           : NULL;                                                          \
                int k = malformed(f->kind, p);                                                              \
                                                                                                            \
                if (q) {                                                                                    \
                        asked_note(asked, action, run, detail);                                             \
                        k = call;                                                                           \
                }                                                                                           \
                local__##type##__free_unpacked(q, NULL);                                                    \
                return k;                                                                                   \
        }

/* One without a spec asks for nothing, and is refused as such. */
static const Run__Spec *spec_of(const Local__RunRequest *q) {
        static const Run__Spec nothing = RUN__SPEC__INIT;

        return q->spec ? q->spec : &nothing;
}

/* Returns 1: it is answered, and recorded, later. question: NULL for what needs none. */
static int handle(struct launch_api *a, struct frame_peer *peer, const struct frame *f,
                  const struct caller *c, struct question *question, struct asked *asked,
                  struct problem *p) {
        HANDLE(KIND_RUN_REQUEST, run_request, RunRequest, ACTION_START, spec_of(q)->name, spec_of(q)->user,
               handle_run(a, question, q, p))
        HANDLE(KIND_CHECK_REQUEST, run_request, RunRequest, ACTION_LIST, spec_of(q)->name, spec_of(q)->user,
               handle_run(a, question, q, p))
        HANDLE(KIND_RUN_LIST_REQUEST, run_list_request, RunListRequest, ACTION_LIST, q->name, "",
               handle_run_list(a, peer, q, p))
        HANDLE(KIND_STOP_REQUEST, stop_request, StopRequest, ACTION_STOP, q->name, "",
               handle_stop(a, peer, c, q, p))
        HANDLE(KIND_CAPTURE_REQUEST, capture_request, CaptureRequest, ACTION_CAPTURE, q->name, "",
               handle_capture(a, peer, c, q, p))
        HANDLE(KIND_SIGNAL_REQUEST, signal_request, SignalRequest, ACTION_SIGNAL, q->name, q->reason,
               handle_signal(a, peer, c, q, p))
        HANDLE(KIND_ENVIRONMENT_REQUEST, environment_request, EnvironmentRequest,
               environment_is_anothers(a->runs, c, q->name) ? ACTION_ENVIRONMENT : ACTION_LIST, q->name, "",
               answer_environment(a->runs, peer, c, q->name, p))
        HANDLE(KIND_LINES_REQUEST, lines_request, LinesRequest, ACTION_LINES, q->name, "",
               answer_lines(&a->askers, a->event, a->host, a->runs, peer, c, q, p))
        HANDLE(KIND_LOG_REQUEST, log_request, LogRequest, ACTION_LIST, q->name, "",
               handle_log(a, peer, c, q, p))
        if (f->kind == LOCAL__KIND__KIND_OWNERS_REQUEST)
                return answer_owners(owners_get(a->host, &a->owners), peer, p);
        if (f->kind == LOCAL__KIND__KIND_STATUS_REQUEST)
                return handle_status(a, peer);
        return malformed(f->kind, p);
}

/* --- Who asks ------------------------------------------------------------------------------------------ */

/* What the caller's rights are for; ACTION_LIST: everybody has it. */
static enum action action_of(uint16_t kind) {
        switch (kind) {
        case LOCAL__KIND__KIND_RUN_REQUEST:
        case LOCAL__KIND__KIND_CHECK_REQUEST:
                return ACTION_START;
        case LOCAL__KIND__KIND_STOP_REQUEST:
                return ACTION_STOP;
        case LOCAL__KIND__KIND_CAPTURE_REQUEST:
                return ACTION_CAPTURE;
        case LOCAL__KIND__KIND_SIGNAL_REQUEST:
                return ACTION_SIGNAL;
        case LOCAL__KIND__KIND_ENVIRONMENT_REQUEST:
                return ACTION_ENVIRONMENT;
        case LOCAL__KIND__KIND_LINES_REQUEST:
                return ACTION_LINES;
        case LOCAL__KIND__KIND_LOG_REQUEST:
                return ACTION_LOG;
        default:
                return ACTION_LIST;
        }
}

static void on_who(struct question *q, int error, const char *answer, size_t len) {
        bool start = action_of(q->frame.kind) == ACTION_START;
        struct asked asked = { .action = ACTION_LIST };
        struct frame_peer *peer = q->peer;
        struct launch_api *a = q->userdata;
        struct problem p = { 0 };
        struct caller c;
        int r = error < 0 ? error : who_take(answer, len, &q->who);

        if (r < 0)
                r = refuse_unanswered(q, r, &p);
        else {
                if (!start)
                        question_release(q);
                r = handle(a, peer, &q->frame, &q->who.caller, q, &asked, &p);
        }
        if (r == 1)
                return;
        c = q->who.caller;
        (void) question_free(q);
        asked_record(&a->refusals, host_now(a->host), &c, &asked, r, p.text);
        if (r < 0)
                answer_problem(peer, r, &p);
}

static int ask_who(struct launch_api *a, struct frame_peer *peer, const struct frame *f, struct problem *p) {
        const struct ucred *creds = frame_peer_creds(peer);
        struct who_asked asked = { .host = a->host, .config = a->identity_config,
                                   .action = action_of(f->kind), .uid = creds->uid, .pid = creds->pid,
                                   .groups = { creds->gid }, .n_groups = 1 };
        Local__RunRequest *run = NULL;
        struct question *q = NULL;
        int r;

        if (asked.action == ACTION_START) {
                run = is_sound(f, &local__run_request__descriptor)
                              ? local__run_request__unpack(NULL, f->len, f->data)
                              : NULL;
                if (!run)
                        return malformed(f->kind, p);
                asked.user = strlen(spec_of(run)->user) < USER_NAME_MAX ? spec_of(run)->user : "?";
        }
        asked.n_groups += frame_peer_groups(peer, asked.groups + 1, WHO_GROUPS_MAX - 1);
        r = question_new(&a->questions, &a->askers, peer, f, a, &q, p);
        if (r >= 0)
                r = question_start(q,
                                   (struct child_work){ .name = "who", .timeout = QUESTION_WHO_TIMEOUT,
                                                        .max = sizeof(struct who), .run = who_look,
                                                        .data = &asked },
                                   on_who, p);
        if (run)
                local__run_request__free_unpacked(run, NULL);
        if (r < 0)
                (void) question_free(q);
        return r;
}

static void on_frame(struct frame_peer *peer, const struct frame *f, void *userdata) {
        uid_t uid = frame_peer_creds(peer)->uid;
        struct caller c = { .uid = uid, .pid = frame_peer_creds(peer)->pid, .reads_journal = uid == 0 };
        enum action action = action_of(f->kind);
        struct asked asked = { .action = ACTION_LIST };
        struct launch_api *a = userdata;
        struct problem p = { 0 };
        int r;

        if (frame_peer_state(peer))
                r = problem_set(&p, -EBUSY, "wait for the answer, or open another connection",
                                "this connection still waits for an answer");
        else if (action != ACTION_LIST && (uid != 0 || action == ACTION_START))
                r = ask_who(a, peer, f, &p);
        else {
                (void) snprintf(c.name, sizeof(c.name), uid == 0 ? "root" : "%u", (unsigned) uid);
                r = handle(a, peer, f, &c, NULL, &asked, &p);
                asked_record(&a->refusals, host_now(a->host), &c, &asked, r, p.text);
        }
        if (r < 0)
                answer_problem(peer, r, &p);
}

static void on_closed(struct frame_peer *peer, void *userdata) {
        struct asker *w = frame_peer_state(peer);
        struct launch_api *a = userdata;

        for (size_t i = 0; i < WATCHERS_MAX; i++)
                if (a->watchers[i] == peer)
                        a->watchers[i] = NULL;
        if (w && w->question)
                (void) question_free(w->question);
        else if (w)
                asker_free(w);
}

const struct frame_handlers api_frame_handlers = { .frame = on_frame, .closed = on_closed };

int api_new(sd_event *e, const struct host *h, const char *identity_config, struct launch_api **ret) {
        struct launch_api *a = calloc(1, sizeof(*a));

        if (!a)
                return -ENOMEM;
        a->event = sd_event_ref(e);
        a->questions.event = e;
        a->host = h;
        a->identity_config = identity_config;
        *ret = a;
        return 0;
}

void api_attach(struct launch_api *a, struct runs *r) {
        a->runs = r;
}

struct launch_api *api_free(struct launch_api *a) {
        if (!a)
                return NULL;
        for (struct asker *w; (w = asker_find(&a->askers, _ACTION_MAX, ""));)
                (void) question_free(w->question);
        askers_clear(&a->askers);
        a->event = sd_event_unref(a->event);
        free(a);
        return NULL;
}
