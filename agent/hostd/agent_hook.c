/* SPDX-License-Identifier: Apache-2.0 */
/* Events that the site's hook is run for (hook.h), with the event's fields in its environment. */
#include <ctype.h>

#include "agent.h"
#include "clock.h"
#include "hook_environment.h"
#include "log.h"

#define TELL_AGAIN (60 * USEC_PER_SEC) /* held or failed calls are told once a minute, and counted */
#define COMMAND_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* "main_pid" → "TPU_MAIN_PID" */
static bool add_field(char **list, const struct otlp_attribute *f) {
        char key[64], number[32];
        size_t n = (size_t) snprintf(key, sizeof(key), "TPU_%s", f->key);

        for (size_t i = 0; i < MIN(n, sizeof(key) - 1); i++)
                key[i] = isalnum((unsigned char) key[i]) ? (char) toupper((unsigned char) key[i]) : '_';
        (void) snprintf(number, sizeof(number), "%" PRIi64, f->number);
        if (f->text && strlen(f->text) > EVENT_TEXT_MAX)
                return true; /* a stack is no variable */
        return hook_environment_add(list, key, f->text ? f->text : number);
}

static char **make_environment(struct agent *a, enum event_id id, enum otlp_severity severity,
                               const char *message, const struct otlp_attribute *body, size_t n) {
        const struct hook_options *o = &a->settings.hook;
        const char *slice = identity_get(&a->identity, IDENTITY_SLICE_NAME),
                   *worker = identity_get(&a->identity, IDENTITY_WORKER_ID);
        char **list = calloc(HOOK_ENVIRONMENT_MAX + 1, sizeof(*list)), time[CLOCK_TEXT_MAX];
        bool good;

        if (!list)
                return NULL;
        good = hook_environment_add(list, "PATH", COMMAND_PATH) &&
               hook_environment_add(list, "LANG", "C.UTF-8") &&
               hook_environment_add(list, "TPU_EVENT", event_def(id)->name) &&
               hook_environment_add(list, "TPU_SEVERITY", event_severity_name(severity)) &&
               hook_environment_add(list, "TPU_MESSAGE", message) &&
               hook_environment_add(list, "TPU_TIME", clock_text(host_now_real(a->host), time)) &&
               hook_environment_add(list, "TPU_HOST", a->name) &&
               hook_environment_add(list, "TPU_SLICE", slice ? slice : "") &&
               hook_environment_add(list, "TPU_WORKER", worker ? worker : "") &&
               hook_environment_add(list, "TPU_STATE", host_state_name(a->state)) &&
               hook_brake_environment(list, o->command, o->collector, slice, a->name, o->brake);
        for (size_t i = 0; good && i < n; i++)
                good = add_field(list, &body[i]);
        if (good)
                return list;
        hook_environment_free(list);
        return NULL;
}

static void on_ended(enum hook_result r, const char *event, const char *why, void *userdata) {
        struct agent *a = userdata;
        enum event_id id = r == HOOK_HELD ? EVENT_HOOK_HELD : EVENT_HOOK_FAILED;
        usec_t now = host_now(a->host), *told = &a->hook_told[r == HOOK_HELD];
        const struct otlp_attribute body[] = {
                { .key = "event", .text = event },
                { .key = "command", .text = a->settings.hook.command },
                { .key = "reason", .text = why },
                { .key = "calls", .number = (int64_t) a->hook_calls[r] + 1 },
        };
        char message[640];

        a->hook_calls[r]++;
        if (r == HOOK_DONE || (*told > 0 && now < *told + TELL_AGAIN))
                return;
        *told = now;
        (void) snprintf(message, sizeof(message), "%s for %s: %s", event_def(id)->summary, event, why);
        (void) agent_emit(a, id, event_def(id)->severity, message, body, ELEMENTSOF(body), NULL);
}

void agent_hook(struct agent *a, enum event_id id, enum otlp_severity severity, const char *message,
                const struct otlp_attribute *body, size_t n) {
        const struct hook_options *o = &a->settings.hook;
        char **environment;

        if (!a->hook || !hook_wants(o, event_def(id)->name))
                return;
        if (agent_observes(a) && id != EVENT_MODE_OBSERVE) {
                on_ended(HOOK_HELD, event_def(id)->name, "the agents only observe", a);
                return;
        }
        environment = make_environment(a, id, severity, message, body, n);
        if (!environment || hook_offer(a->hook, o, event_def(id)->name, environment, host_now(a->host)) < 0)
                log_warning("out of memory: the hook is not run for %s", event_def(id)->name);
}

/* This very program, also after an upgrade has put another one in its place. */
int agent_hook_start(struct agent *a) {
        return hook_new(a->event, "/proc/self/exe", on_ended, a, &a->hook);
}

void agent_hook_sample(struct agent *a, struct sink *s) {
        static const char *const results[] = {
                [HOOK_DONE] = "done", [HOOK_FAILED] = "failed", [HOOK_HELD] = "held"
        };
        struct sample m = { .name = "tpu.hook.calls",
                            .unit = "{call}",
                            .description = "Calls of the site's hook, by how they ended",
                            .kind = SAMPLE_COUNTER,
                            .is_int = true,
                            .keys = { "result" } };

        if (!a->settings.hook.command[0])
                return;
        for (size_t r = 0; r < ELEMENTSOF(results); r++) {
                m.values[0] = results[r];
                m.i = (int64_t) a->hook_calls[r];
                s->sample(s, &m);
        }
}
