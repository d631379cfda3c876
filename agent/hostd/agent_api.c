/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "agent_calls.h"
#include "calls.h"
#include "agent_deaths.h"
#include "agent_parts.h"
#include "clock.h"
#include "http_routes.h"
#include "log.h"
#include "runs_json.h"
#include "uplink_part.h"
#include "utf8.h"

static struct run_seen find_progress(const char *run, void *userdata) {
        struct bus *b = userdata;
        const struct suspicion *s = agent_suspicion(b, run);
        const struct host_run *j = host_runs_find(b->runs, run);
        struct run_seen seen = { .log = agent_of(b)->run_log ? run_log_find(agent_of(b)->run_log, run) : NULL,
                                 .goodput = agent_goodput(b, run),
                                 .suspicion = s ? s->why : NULL };

        if (j && !host_run_lives(j))
                (void) agent_killed_by(b, j, seen.killed_by);
        return seen;
}

int agent_get_runs(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        const struct agent_registry *g = agent_of(b)->enrollment;

        (void) r;
        return answer_json(
                ret, 200,
                json_pack("{s:o, s:s, s:o}", "runs", runs_to_json(b->runs, find_progress, b),
                          "registry", g ? registry_kind_name(g->kind) : "none", "records",
                          g && g->parts ? agent_parts_records(g->parts) : json_array()));
}

/* --- Acting calls -------------------------------------------------------------------------------------- */

/*
 * Whether uid owns the main process of a run that lives. The process is asked, not the name service: that
 * one may block, and the run's user may be known to the network only.
 */
static bool owns_run(const struct bus *b, const char *run, uid_t uid) {
        const struct host_run *j = host_runs_find(b->runs, run);
        _cleanup_close_ int fd = -1;
        char path[64];
        struct stat st;

        if (!j || j->main_pid == 0 || !host_run_lives(j) || !b->runs->known)
                return false;
        (void) snprintf(path, sizeof(path), "/proc/%" PRIu32, j->main_pid);
        fd = host_open_file(b->host, path, O_PATH | O_DIRECTORY);
        return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == uid;
}

/*
 * As tpu-launchd decides when it is asked directly (authority.h): we are trusted with the stacks of any run,
 * and must not be the way round its answer. Members of tpu-run may start runs, but not look into those of
 * others.
 */
static bool may_act(const struct bus *b, const struct http_request *r, const char *run) {
        return r->caller->remote ? r->caller->acts :
                                  r->caller->peer.uid == 0 || owns_run(b, run, r->caller->peer.uid);
}

static int refuse_start(struct bus *b, const struct late_call *p, int error, struct http_reply *ret) {
        call_audit_refusal(b, p->what, &p->caller, strerror(-error));
        if (error == -EBUSY)
                return answer_error(ret, 503, "try again in a minute",
                                          "%d captures are under way already", CAPTURES_MAX);
        return answer_error(ret, 503, "systemctl status tpu-launchd",
                                  "tpu-launchd cannot be asked: %s", strerror(-error));
}

#define SHOWN_NAME_SIZE sizeof(((struct host_run *) NULL)->name)

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

int agent_post_stack(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        char run[SHOWN_NAME_SIZE];
        struct late_call *p;
        char what[sizeof(p->what)];
        int error;

        if (!stack_path(r->path, run))
                return answer_error(ret, 404, "GET /v1/runs has the names",
                                          "the path holds no name of a run");
        (void) snprintf(what, sizeof(what), "POST /v1/runs/%s/capture", run);
        if (!may_act(b, r, run)) {
                char caller[CALLER_TEXT_MAX];

                call_audit_refusal(b, what, r->caller, "refused: no right to act");
                return answer_error(ret, 403,
                                          "run it as root, or as the run's own user",
                                          "%s may not capture stacks of run %s",
                                          caller_text(r->caller, caller), run);
        }
        p = late_call_new(b, r, sizeof(*p), what);
        if (!p)
                return answer_error(ret, 500, NULL, "out of memory");
        error = captures_start(agent_of(b)->captures, run, p);
        if (error < 0) {
                (void) refuse_start(b, p, error, ret);
                late_call_free(p);
                return 0;
        }
        return 1;
}

static int answer_capture(struct http_reply *ret, const struct bus *b, const struct capture_result *c) {
        char taken[CLOCK_TEXT_MAX], spool[17];
        uint64_t id = 0, next;

        (void) uplink_next(uplink_of(b), UPLINK_EVENTS, &id, &next); /* a durable record has a spool */
        (void) snprintf(spool, sizeof(spool), "%016" PRIx64, id);
        return answer_json(ret, 200,
                                 json_pack("{s:s, s:s, s:I, s:I, s:s, s:{s:s, s:s, s:I}}", "name", c->run,
                                           "taken", clock_text(c->taken_real, taken), "processes",
                                           (json_int_t) c->processes, "threads", (json_int_t) c->threads,
                                           "text", c->text, "record", "spool", spool, "class",
                                           uplink_class_name(UPLINK_EVENTS), "seq", (json_int_t) c->seq));
}

void agent_capture_finished(void *token, unsigned status, const struct capture_result *c, const char *error,
                            const char *remedy, void *userdata) {
        struct late_call *p = token;
        struct bus *b = userdata;
        struct http_reply answer;
        char result[320];

        if (c)
                (void) snprintf(result, sizeof(result), "captured, record %" PRIu64, c->seq);
        else
                (void) snprintf(result, sizeof(result), "failed: %s", error);
        call_audit(b, p->what, &p->caller, result);
        (void) (c ? answer_capture(&answer, b, c)
                  : answer_error(&answer, status == CAPTURE_BUSY ? 503 : status, remedy, "%s", error));
        answer.retry_after = status == CAPTURE_BUSY ? CAPTURE_BUSY_AGAIN : 0;
        late_call_answer(p, &answer);
}
