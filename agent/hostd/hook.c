/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "hook.h"
#include "hook_brake.h"
#include "hook_environment.h"
#include "spawn_program.h"

#define MINUTE (60 * USEC_PER_SEC)

struct hook_call {
        char *event, **environment;
        struct hook_options options;
        struct hook_call *next;
};

struct hook {
        sd_event *event;
        const char *program;
        void (*ended)(enum hook_result r, const char *event, const char *why, void *userdata);
        void *userdata;
        struct hook_call *first, **last;
        size_t n;
        sd_event_source *timer; /* the delay before the first call, or its timeout */
        sd_event_source *child;
        pid_t pid;      /* 0: nothing runs */
        bool timed_out; /* and was killed */
        usec_t minute;
        unsigned in_minute;
};

static void call_free(struct hook_call *c) {
        hook_environment_free(c->environment);
        free(c->event);
        free(c);
}

bool hook_wants(const struct hook_options *o, const char *event) {
        size_t n = strlen(event);

        if (!o->command[0] || startswith(event, "tpu.hook."))
                return false;
        for (const char *at = o->events; (at = strstr(at, event)); at += n)
                if ((at == o->events || at[-1] == ' ') && (at[n] == 0 || at[n] == ' '))
                        return true;
        return false;
}

/* --- One call ------------------------------------------------------------------------------------------ */

static void next(struct hook *h);

static void finish(struct hook *h, enum hook_result r, const char *why) {
        struct hook_call *c = h->first;

        h->first = c->next;
        if (!h->first)
                h->last = &h->first;
        h->n--;
        h->pid = 0;
        h->child = sd_event_source_disable_unref(h->child);
        h->ended(r, c->event, why, h->userdata);
        call_free(c);
        next(h);
}

static int on_child(sd_event_source *s, const siginfo_t *si, void *userdata) {
        struct hook *h = userdata;
        char why[64];

        (void) s;
        (void) kill(-h->pid,
                    SIGKILL); /* what it left running; its group is still its own: it is not reaped yet */
        if (h->timed_out)
                (void) snprintf(why, sizeof(why), "killed after %" PRIu64 " s",
                                h->first->options.timeout / USEC_PER_SEC);
        else if (si->si_code == CLD_EXITED)
                (void) snprintf(why, sizeof(why), "exit code %d", si->si_status);
        else
                (void) snprintf(why, sizeof(why), "killed by signal %d", si->si_status);
        if (!h->timed_out && si->si_code == CLD_EXITED && hook_brake_text(si->si_status))
                finish(h, HOOK_HELD, hook_brake_text(si->si_status));
        else
                finish(h,
                       !h->timed_out && si->si_code == CLD_EXITED && si->si_status == 0 ? HOOK_DONE
                                                                                        : HOOK_FAILED,
                       why);
        return 0;
}

static int spawn(struct hook *h, const struct hook_call *c) {
        const char *argv[] = { h->program, "--hook", NULL };
        const struct spawn_options o = {
                .path = h->program, .argv = argv, .environment = c->environment, .out = -1, .error = -1, .own_group = true
        };
        int r = spawn_program(&o, &h->pid);

        if (r < 0)
                h->pid = 0;
        return r;
}

static int start(struct hook *h, const struct hook_call *c) {
        int r = spawn(h, c);

        h->timed_out = false;
        if (r >= 0)
                r = sd_event_add_child(h->event, &h->child, h->pid, WEXITED, on_child, h);
        if (r >= 0)
                r = sd_event_source_set_time_relative(h->timer, c->options.timeout);
        if (r >= 0)
                r = sd_event_source_set_enabled(h->timer, SD_EVENT_ONESHOT);
        if (r < 0) {
                if (h->pid > 0)
                        (void) kill(-h->pid, SIGKILL);
                return r;
        }
        (void) sd_event_source_set_description(h->child, "hook");
        return 0;
}

/* The end of the delay, or of the command's time. One that cannot be killed holds the next ones back. */
static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct hook *h = userdata;
        int r;

        (void) s, (void) usec;
        if (h->pid > 0) {
                h->timed_out = true;
                (void) kill(-h->pid, SIGKILL);
                return 0;
        }
        if (!h->first)
                return 0;
        r = start(h, h->first);
        if (r < 0)
                finish(h, HOOK_FAILED, strerror(-r));
        return 0;
}

static usec_t random_below(usec_t most) {
        uint64_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK); /* without entropy yet: at once */
        return most > 0 ? random % (most + 1) : 0;
}

static void next(struct hook *h) {
        if (!h->first) {
                (void) sd_event_source_set_enabled(h->timer, SD_EVENT_OFF);
                return;
        }
        (void) sd_event_source_set_time_relative(
                h->timer, random_below(h->first->options.jitter)); /* both fail only without a timer */
        (void) sd_event_source_set_enabled(h->timer, SD_EVENT_ONESHOT);
}

/* --- The queue ----------------------------------------------------------------------------------------- */

static const char *why_not(struct hook *h, const struct hook_options *o, usec_t now) {
        if (h->minute == 0 || now >= h->minute + MINUTE) {
                h->minute = now;
                h->in_minute = 0;
        }
        if (h->n >= HOOK_QUEUE_MAX)
                return "too many calls wait already";
        return h->in_minute++ >= o->per_minute ? "more calls in this minute than PerMinute= allows" : NULL;
}

int hook_offer(struct hook *h, const struct hook_options *o, const char *event, char **environment,
               usec_t now) {
        const char *why = why_not(h, o, now);
        struct hook_call *c;

        if (why) {
                hook_environment_free(environment);
                h->ended(HOOK_HELD, event, why, h->userdata);
                return 0;
        }
        c = calloc(1, sizeof(*c));
        if (!c) {
                hook_environment_free(environment);
                return -ENOMEM;
        }
        *c = (struct hook_call){ .event = strdup(event), .environment = environment, .options = *o };
        if (!c->event) {
                call_free(c);
                return -ENOMEM;
        }
        *h->last = c;
        h->last = &c->next;
        if (h->n++ == 0)
                next(h);
        return 0;
}

int hook_new(sd_event *e, const char *program,
             void (*ended)(enum hook_result r, const char *event, const char *why, void *userdata),
             void *userdata, struct hook **ret) {
        _cleanup_(hook_freep) struct hook *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return -ENOMEM;
        *h = (struct hook){
                .event = sd_event_ref(e), .program = program, .ended = ended, .userdata = userdata
        };
        h->last = &h->first;
        r = sd_event_add_time_relative(e, &h->timer, CLOCK_BOOTTIME, 0, 50 * USEC_PER_MSEC, on_timer, h);
        if (r >= 0)
                r = sd_event_source_set_enabled(h->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(h->timer, "hook-time");
        *ret = TAKE_PTR(h);
        return 0;
}

struct hook *hook_free(struct hook *h) {
        struct hook_call *c;

        if (!h)
                return NULL;
        h->child = sd_event_source_disable_unref(h->child);
        h->timer = sd_event_source_disable_unref(h->timer);
        if (h->pid > 0) {
                (void) kill(-h->pid, SIGKILL);
                (void) waitpid(h->pid, NULL, WNOHANG); /* else it is init's, with us */
        }
        while ((c = h->first)) {
                h->first = c->next;
                call_free(c);
        }
        h->event = sd_event_unref(h->event);
        free(h);
        return NULL;
}
