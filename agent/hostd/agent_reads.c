/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that tell what is, and act on nothing. */
#include "agent_calls.h"
#include "agent_deaths.h"
#include "api_json.h"
#include "metrics_text.h"

int agent_get_healthz(struct agent *a, const struct api_request *r, struct api_answer *ret) {
        char *text = strdup("ok\n");

        (void) a;
        (void) r;
        *ret = (struct api_answer){ .status = 200,
                                    .type = "text/plain; charset=utf-8",
                                    .body = text,
                                    .len = text ? strlen(text) : 0 };
        return 0;
}

int agent_get_status(struct agent *a, const struct api_request *r, struct api_answer *ret) {
        struct uplink_stats uplink;
        const struct api_status s = {
                .host = a->name,
                .boot_id = a->boot_id,
                .started_real = a->started_real,
                .now = host_now(a->host),
                .now_real = host_now_real(a->host),
                .checks = &a->checks,
                .identity = &a->identity,
                .jobs = jobs_get(a->jobs),
                .uplink = &uplink,
                .endpoint = a->settings.endpoint,
        };

        (void) r;
        uplink_get_stats(a->uplink, &uplink);
        return agent_answer_json(ret, 200,
                                 agent_registry_to_status(a, agent_orders_status(a, api_json_status(&s))));
}

int agent_get_checks(struct agent *a, const struct api_request *r, struct api_answer *ret) {
        (void) r;
        return agent_answer_json(ret, 200,
                                 api_json_checks(&a->checks, host_now(a->host), host_now_real(a->host)));
}

int agent_get_identity(struct agent *a, const struct api_request *r, struct api_answer *ret) {
        (void) r;
        return agent_answer_json(ret, 200, identity_to_json(&a->identity));
}

static struct job_seen find_progress(const char *job, void *userdata) {
        struct agent *a = userdata;
        const struct suspicion *s = agent_suspicion(a, job);
        const struct job *j = jobs_find(a->jobs, job);
        struct job_seen seen = { .log = a->run_log ? run_log_find(a->run_log, job) : NULL,
                                 .goodput = agent_goodput(a, job),
                                 .suspicion = s ? s->why : NULL };

        if (j && streq(j->state, "exited"))
                (void) agent_killed_by(a, j, seen.killed_by);
        return seen;
}

int agent_get_jobs(struct agent *a, const struct api_request *r, struct api_answer *ret) {
        (void) r;
        if (!jobs_get(a->jobs)->known)
                return agent_answer_error(ret, 503, "systemctl status tpu-launchd",
                                          "tpu-launchd does not answer: the runs of this host are not "
                                          "known");
        return agent_answer_json(ret, 200, api_json_jobs(jobs_get(a->jobs), find_progress, a));
}

int agent_get_metrics(struct agent *a, const struct api_request *r, struct api_answer *ret) {
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
        bool open_metrics = exposition_wants_open_metrics(api_header(r, "Accept"));
        struct api_answer answer = { .status = 200, .type = exposition_type(open_metrics) };

        if (metrics_text(&a->samples, &about, open_metrics, &answer.body, &answer.len) < 0)
                return agent_answer_error(ret, 500, NULL, "out of memory");
        *ret = answer;
        return 0;
}
