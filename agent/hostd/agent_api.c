/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "agent_calls.h"
#include "agent_deaths.h"
#include "agent_parts.h"
#include "api_json.h"
#include "clock.h"
#include "json_reply.h"
#include "log.h"
#include "metrics_text.h"
#include "utf8.h"

/* The calls that tell what is, and act on nothing. */

int agent_get_healthz(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        char *text = strdup("ok\n");

        (void) a;
        (void) r;
        *ret = (struct http_reply){ .status = 200,
                                    .content_type = "text/plain; charset=utf-8",
                                    .body = text,
                                    .len = text ? strlen(text) : 0 };
        return 0;
}

int agent_get_status(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        struct uplink_stats uplink;
        const struct api_status s = {
                .host = a->name,
                .boot_id = a->boot_id,
                .started_real = a->started_real,
                .now = host_now(a->host),
                .now_real = host_now_real(a->host),
                .checks = &a->checks,
                .identity = &a->identity,
                .runs = launchd_runs_get(a->runs),
                .uplink = &uplink,
                .endpoint = a->settings.endpoint,
        };

        (void) r;
        uplink_get_stats(a->uplink, &uplink);
        return agent_answer_json(ret, 200,
                                 agent_registry_to_status(a, agent_orders_status(a, api_json_status(&s))));
}

int agent_get_checks(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        (void) r;
        return agent_answer_json(ret, 200,
                                 api_json_checks(&a->checks, host_now(a->host), host_now_real(a->host)));
}

int agent_get_identity(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        (void) r;
        return agent_answer_json(ret, 200, identity_to_json(&a->identity));
}

static struct run_seen find_progress(const char *run, void *userdata) {
        struct agent *a = userdata;
        const struct suspicion *s = agent_suspicion(a, run);
        const struct launchd_run *j = launchd_runs_find(a->runs, run);
        struct run_seen seen = { .log = a->run_log ? run_log_find(a->run_log, run) : NULL,
                                 .goodput = agent_goodput(a, run),
                                 .suspicion = s ? s->why : NULL };

        if (j && streq(j->state, "exited"))
                (void) agent_killed_by(a, j, seen.killed_by);
        return seen;
}

int agent_get_runs(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        const struct agent_registry *g = a->enrollment;

        (void) r;
        return agent_answer_json(
                ret, 200,
                json_pack("{s:o, s:s, s:o}", "runs", api_json_runs(launchd_runs_get(a->runs), find_progress, a),
                          "registry", g ? registry_kind_name(g->kind) : "none", "records",
                          g && g->parts ? agent_parts_records(g->parts) : json_array()));
}

int agent_get_metrics(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        const struct metrics_about about = {
                .version = TPU_HOSTD_VERSION,
                .target = { { "host_name", a->name },
                            { "service_name", "tpu-hostd" },
                            { "service_version", TPU_HOSTD_VERSION },
                            { "tpu_slice_name", identity_get(&a->identity, IDENTITY_SLICE_NAME) },
                            { "tpu_worker_id", identity_get(&a->identity, IDENTITY_WORKER_ID) },
                            { "tpu_accelerator_type",
                              identity_get(&a->identity, IDENTITY_ACCELERATOR_TYPE) } },
        };
        bool open_metrics = exposition_wants_open_metrics(http_header(r, "Accept"));
        struct http_reply answer = { .status = 200, .content_type = exposition_type(open_metrics) };

        char *text;

        if (metrics_text(&a->samples, &about, open_metrics, &text, &answer.len) < 0)
                return agent_answer_error(ret, 500, NULL, "out of memory");
        answer.body = text;
        *ret = answer;
        return 0;
}

/* What every answer is made with, and captures of stacks: the acting call that waits for others. */

/* --- Answers ------------------------------------------------------------------------------------------- */

int agent_answer_json(struct http_reply *ret, unsigned status, json_t *v) {
        *ret = (struct http_reply){ 0 };
        api_reply(ret, status, v);
        return 0;
}

int agent_answer_error(struct http_reply *ret, unsigned status, const char *remedy, const char *fmt, ...) {
        char text[320];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        (void) utf8_scrub(text, strlen(text)); /* it may show what came */
        *ret = (struct http_reply){ 0 };
        api_reply_error(ret, status, text, remedy);
        return 0;
}

/* --- Acting calls -------------------------------------------------------------------------------------- */

/*
 * Whether uid owns the main process of a run that lives. The process is asked, not the name service: that
 * one may block, and the run's user may be known to the network only.
 */
static bool owns_run(const struct agent *a, const char *run, uid_t uid) {
        const struct launchd_run *j = launchd_runs_find(a->runs, run);
        _cleanup_close_ int fd = -1;
        char path[64];
        struct stat st;

        if (!j || j->main_pid == 0 || streq(j->state, "exited") || !launchd_runs_get(a->runs)->known)
                return false;
        (void) snprintf(path, sizeof(path), "/proc/%" PRIu32, j->main_pid);
        fd = host_open_file(a->host, path, O_PATH | O_DIRECTORY);
        return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == uid;
}

/*
 * As tpu-launchd decides when it is asked directly (authority.h): we are trusted with the stacks of any run,
 * and must not be the way round its answer. Members of tpu-run may start runs, but not look into those of
 * others.
 */
static bool may_act(const struct agent *a, const struct http_request *r, const char *run) {
        return r->caller->remote ? r->caller->acts :
                                  r->caller->peer.uid == 0 || owns_run(a, run, r->caller->peer.uid);
}

static int refuse_start(struct agent *a, const struct agent_call *p, int error, struct http_reply *ret) {
        agent_audit_refusal(a, p->what, &p->caller, strerror(-error));
        if (error == -EBUSY)
                return agent_answer_error(ret, 503, "try again in a minute",
                                          "%d captures are under way already", CAPTURES_MAX);
        return agent_answer_error(ret, 503, "systemctl status tpu-launchd",
                                  "tpu-launchd cannot be asked: %s", strerror(-error));
}

#define SHOWN_NAME_SIZE sizeof(((struct launchd_run *) NULL)->name)

/* "/v1/runs/NAME/capture" → NAME. */
static bool stack_path(const char *path, char run[static SHOWN_NAME_SIZE]) {
        static const char prefix[] = "/v1/runs/", suffix[] = "/capture";
        size_t len = strlen(path), p = sizeof(prefix) - 1, s = sizeof(suffix) - 1;

        if (len <= p + s || len - p - s >= SHOWN_NAME_SIZE)
                return false;
        memcpy(run, path + p, len - p - s);
        run[len - p - s] = 0;
        return run_name_is_valid(run);
}

int agent_post_stack(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        char run[SHOWN_NAME_SIZE];
        struct agent_call *p;
        char what[sizeof(p->what)];
        int error;

        if (!stack_path(r->path, run))
                return agent_answer_error(ret, 404, "GET /v1/runs has the names",
                                          "the path holds no name of a run");
        (void) snprintf(what, sizeof(what), "POST /v1/runs/%s/capture", run);
        if (!may_act(a, r, run)) {
                char caller[AGENT_CALLER_MAX];

                agent_audit_refusal(a, what, r->caller, "refused: no right to act");
                return agent_answer_error(ret, 403,
                                          "run it as root, or as the run's own user",
                                          "%s may not capture stacks of run %s",
                                          agent_caller_text(r->caller, caller), run);
        }
        p = agent_call_new(a, r, sizeof(*p), what);
        if (!p)
                return agent_answer_error(ret, 500, NULL, "out of memory");
        error = captures_start(a->captures, run, p);
        if (error < 0) {
                (void) refuse_start(a, p, error, ret);
                agent_call_free(p);
                return 0;
        }
        return 1;
}

static int answer_capture(struct http_reply *ret, const struct agent *a, const struct capture_result *c) {
        char taken[CLOCK_TEXT_MAX], spool[17];
        uint64_t id = 0, next;

        (void) uplink_next(a->uplink, UPLINK_EVENTS, &id, &next); /* a durable record has a spool */
        (void) snprintf(spool, sizeof(spool), "%016" PRIx64, id);
        return agent_answer_json(ret, 200,
                                 json_pack("{s:s, s:s, s:I, s:I, s:s, s:{s:s, s:s, s:I}}", "name", c->run,
                                           "taken", clock_text(c->taken_real, taken), "processes",
                                           (json_int_t) c->processes, "threads", (json_int_t) c->threads,
                                           "text", c->text, "record", "spool", spool, "class",
                                           uplink_class_name(UPLINK_EVENTS), "seq", (json_int_t) c->seq));
}

void agent_capture_finished(void *token, unsigned status, const struct capture_result *c, const char *error,
                            const char *remedy, void *userdata) {
        struct agent_call *p = token;
        struct agent *a = userdata;
        struct http_reply answer;
        char result[320];

        if (c)
                (void) snprintf(result, sizeof(result), "captured, record %" PRIu64, c->seq);
        else
                (void) snprintf(result, sizeof(result), "failed: %s", error);
        agent_audit(a, p->what, &p->caller, result);
        (void) (c ? answer_capture(&answer, a, c)
                  : agent_answer_error(&answer, status == CAPTURE_BUSY ? 503 : status, remedy, "%s", error));
        answer.retry_after = status == CAPTURE_BUSY ? CAPTURE_BUSY_AGAIN : 0;
        agent_call_answer(p, &answer);
}
