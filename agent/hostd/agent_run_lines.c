/* SPDX-License-Identifier: Apache-2.0 */
/* What runs print, into the uplink's class of its own: the wire names are those of docs/metrics.md. */
#include "agent.h"
#include "log.h"

#define BATCH_MAX ((size_t) 192 * 1024) /* below SPOOL_PENDING_MAX: a batch alone never forces a sync in the loop */
#define STATE_FILE "run-lines"

static enum otlp_severity severity_of(int priority) {
        return priority <= 2   ? OTLP_FATAL
               : priority == 3 ? OTLP_ERROR
               : priority == 4 ? OTLP_WARN
               : priority <= 6 ? OTLP_INFO
                               : OTLP_DEBUG;
}

static int add(const struct run_line *l, void *userdata) {
        struct agent *a = userdata;
        const struct job *j = jobs_find(a->jobs, l->run);
        const char *slice = identity_get(&a->identity, IDENTITY_SLICE_NAME);
        uint32_t worker;
        struct otlp_attribute attributes[8] = {
                { .key = "tpu.run.name", .text = l->run },
                { .key = "tpu.run.invocation", .text = l->invocation },
                { .key = "tpu.run.line", .number = (int64_t) l->number },
                { .key = "tpu.run.priority", .number = l->priority },
        };
        size_t n = 4;

        if (j && j->generation > 0)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.run.generation", .number = (int64_t) j->generation };
        if (slice)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.slice.name", .text = slice };
        if (identity_get_u32(&a->identity, IDENTITY_WORKER_ID, &worker) >= 0)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.worker.id", .number = worker };
        const struct otlp_line line = {
                .name = "tpu.run.line",
                .severity = severity_of(l->priority),
                .time_real = l->time_real,
                .text = l->text,
                .attributes = attributes,
                .n_attributes = n,
        };

        return otlp_add_line(a->telemetry.otlp, &line, MIN(BATCH_MAX, uplink_record_max(a->uplink)));
}

static int submit(uint64_t *ret_seq, void *userdata) {
        struct agent *a = userdata;
        const void *data;
        size_t len;
        int r;

        r = otlp_encode_lines(a->telemetry.otlp, &data, &len);
        if (r >= 0)
                r = uplink_submit(a->uplink, UPLINK_LOGS, data, len, ret_seq);
        otlp_drop_output(a->telemetry.otlp);
        if (r >= 0)
                uplink_sync_now(a->uplink, UPLINK_LOGS); /* the next batch waits for it */
        return r;
}

static void drop(void *userdata) {
        struct agent *a = userdata;

        otlp_drop_lines(a->telemetry.otlp);
}

static const struct run_lines_handlers handlers = { .add = add, .submit = submit, .drop = drop };

void agent_run_lines_start(struct agent *a) {
        const char *journal = a->settings.journal[0] ? a->settings.journal : NULL;
        char state[sizeof(a->settings.spool_directory) + sizeof(STATE_FILE) + 1];
        int r;

        (void) snprintf(state, sizeof(state), "%s/" STATE_FILE, a->settings.spool_directory);
        if (!a->settings.run_logs) {
                (void) unlink(state); /* switched on again, lines go out from then on */
                return;
        }
        r = run_lines_new(a->event, journal, state, &handlers, a, &a->run_lines);
        if (r < 0)
                (void) log_warning_errno(r, "the journal cannot be read, lines of runs are not sent (is the "
                                            "user in systemd-journal?): %m");
}
