/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_calls.h"
#include "agent_deaths.h"
#include "agent_parts.h"
#include "calls.h"
#include "api_json.h"
#include "calls.h"
#include "clock.h"
#include "deaths_part.h"
#include "http_routes.h"
#include "json_reply.h"
#include "log.h"
#include "member.h"
#include "metrics_text.h"
#include "progress_part.h"
#include "uplink_part.h"
#include "utf8.h"

/* The calls that tell what is, and act on nothing. */

int agent_get_healthz(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        char *text = strdup("ok\n");

        (void) b;
        (void) r;
        *ret = (struct http_reply){ .status = 200,
                                    .content_type = "text/plain; charset=utf-8",
                                    .body = text,
                                    .len = text ? strlen(text) : 0 };
        return 0;
}

int agent_get_status(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        struct uplink_stats uplink;
        const struct api_status s = {
                .host = b->name,
                .boot_id = b->boot_id,
                .started_real = b->started_real,
                .now = host_now(b->host),
                .now_real = host_now_real(b->host),
                .checks = &b->checks,
                .identity = &b->identity,
                .runs = b->runs,
                .uplink = &uplink,
                .endpoint = b->settings.endpoint,
        };
        json_t *status;

        (void) r;
        uplink_get_stats(uplink_of(b), &uplink);
        status = api_json_status(&s);
        for (size_t i = 0; status && i < b->n_parts; i++)
                if (b->parts[i]->status && b->parts[i]->status(b->states[i], status) < 0) {
                        json_decref(status);
                        status = NULL;
                }
        return answer_json(ret, 200, status);
}

int agent_get_checks(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        (void) r;
        return answer_json(ret, 200,
                                 api_json_checks(&b->checks, host_now(b->host), host_now_real(b->host)));
}

int agent_get_runs(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;

        (void) r;
        return answer_json(ret, 200,
                           json_pack("{s:o, s:s, s:o}", "runs", progress_runs_to_json(b),
                                     "registry", registry_kind_name(member_of(b)->kind), "records",
                                     member_run_records(b)));
}

int agent_get_metrics(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        const struct metrics_about about = {
                .version = TPU_HOSTD_VERSION,
                .target = { { "host_name", b->name },
                            { "service_name", "tpu-hostd" },
                            { "service_version", TPU_HOSTD_VERSION },
                            { "tpu_slice_name", identity_get(&b->identity, IDENTITY_SLICE_NAME) },
                            { "tpu_worker_id", identity_get(&b->identity, IDENTITY_WORKER_ID) },
                            { "tpu_accelerator_type",
                              identity_get(&b->identity, IDENTITY_ACCELERATOR_TYPE) } },
        };
        bool open_metrics = exposition_wants_open_metrics(http_header(r, "Accept"));
        struct http_reply answer = { .status = 200, .content_type = exposition_type(open_metrics) };

        char *text;

        if (metrics_text(&b->samples, &about, open_metrics, &text, &answer.len) < 0)
                return answer_error(ret, 500, NULL, "out of memory");
        answer.body = text;
        *ret = answer;
        return 0;
}
