/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All parts of tpu-hostd, as a table in the order in which they depend on each other, the tick, and the
 * signals. Start, reload, tick, samples and end follow from the table: no other file knows more parts than
 * those it uses.
 */
#include "hostd.h"

#include <assert.h>
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "api_part.h"
#include "bpf_part.h"
#include "calls.h"
#include "capture_part.h"
#include "checks_part.h"
#include "deaths_part.h"
#include "identity_part.h"
#include "leave.h"
#include "libtpu_part.h"
#include "log.h"
#include "loop_timer.h"
#include "member.h"
#include "metrics_part.h"
#include "net_part.h"
#include "notice_part.h"
#include "orders_part.h"
#include "pairs_part.h"
#include "progress_part.h"
#include "runs_part.h"
#include "stack_files_part.h"
#include "uplink_part.h"
#include "watch_part.h"

/* --- The parts ----------------------------------------------------------------------------------------- */

static const struct part *const parts[] = {
        &bpf_part, /* before there is a socket or a thread: it gives our capabilities up */
        &identity_part,
        &uplink_part,
        &calls_part,
        &orders_part,
        &metrics_part,
        &kernel_part,
        &libtpu_part,
        &deaths_part,
        &runs_part,
        &progress_part,
        &notice_part,
        &stack_files_part,
        &checks_part,
        &contests_part,
        &watch_part,
        &member_part,
        &pairs_part,
        &net_part,
        &path_part,
        &capture_part,
        &api_part,
        &leave_part,
};
#define PARTS ELEMENTSOF(parts)

struct agent {
        struct bus bus;
        void *states[PARTS];
        sd_event_source *tick;
        bool ticking; /* the tick has found its moment: see arm_tick() */
};

/* Samples and findings of all parts. */
static void sample_parts(struct agent *a) {
        struct bus *b = &a->bus;

        b->round++;
        for (unsigned i = 0; i < PARTS; i++) {
                struct bus_sink s = bus_sink(b, SOURCE_PROBES_MAX + i, b->round);

                if (!parts[i]->sample)
                        continue;
                parts[i]->sample(a->states[i], &s);
                bus_end_round(b, s.source, s.round);
        }
}

static int start_parts(struct agent *a) {
        for (size_t i = 0; i < PARTS; i++) {
                int r = parts[i]->start ? parts[i]->start(a->states[i]) : 0;

                if (r < 0)
                        return log_error_errno(r, "tpu-hostd cannot start its part %s: %m", parts[i]->name);
        }
        return 0;
}

static int make_parts(struct agent *a) {
        for (size_t i = 0; i < PARTS; i++) {
                struct bus **state; /* the first member of each */

                assert(parts[i]->size >= sizeof(*state));
                state = calloc(1, parts[i]->size);
                if (!state)
                        return log_error_errno(ENOMEM, "tpu-hostd cannot start: %m");
                *state = &a->bus;
                a->states[i] = state;
        }
        return 0;
}

/* --- The tick ------------------------------------------------------------------------------------------ */

#define ACCURACY (1 * USEC_PER_SEC)

/*
 * sd-event prefers moments that are the same in every minute, every ten seconds and every second, for all
 * programs of the host. The second tick may choose among a whole interval's, which brings us onto the
 * coarsest that there is; the later ones may come a little early and no later, which keeps us on it.
 */
static int arm_tick(struct agent *a, sd_event_source *source) {
        usec_t interval = a->bus.settings.metrics_interval, accuracy = MIN(ACCURACY, interval / 10);
        bool first = !a->ticking;
        int r;

        a->ticking = true;
        r = sd_event_source_set_time_accuracy(source, MAX(first ? interval : accuracy, (usec_t) 1));
        if (r < 0)
                return r;
        return loop_timer_in(source, first ? interval / 2 : interval - accuracy);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata) {
        struct agent *a = userdata;
        int r;

        (void) usec;
        for (size_t i = 0; i < PARTS; i++)
                if (parts[i]->tick)
                        parts[i]->tick(a->states[i]);
        sample_parts(a);
        bus_push(&a->bus);
        r = arm_tick(a, source);
        if (r < 0)
                (void) log_error_errno(r, "metrics are not collected any more: %m");
        return 0;
}

static int start_tick(struct agent *a) {
        usec_t interval = a->bus.settings.metrics_interval;
        int r;

        r = loop_timer_new(a->bus.event, CLOCK_BOOTTIME, MIN(ACCURACY, interval / 10), "tick", on_tick, a,
                           &a->tick);
        if (r == 0)
                r = loop_timer_in(a->tick, MIN(interval, USEC_PER_SEC));
        return r < 0 ? log_error_errno(r, "metrics cannot be collected: %m") : 0;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static struct agent *agent_free(struct agent *a) {
        if (!a)
                return NULL;
        a->tick = sd_event_source_disable_unref(a->tick);
        for (size_t i = PARTS; i > 0; i--)
                if (a->states[i - 1] && parts[i - 1]->stop)
                        parts[i - 1]->stop(a->states[i - 1]);
        bus_clear(&a->bus);
        for (size_t i = 0; i < PARTS; i++)
                free(a->states[i]);
        free(a);
        return NULL;
}
DEFINE_CLEANUP(struct agent *, agent_free)

/*
 * When this returns, every probe that does not block has run, and the workers of the others have been
 * started. What fails is logged with what to do; -errno then.
 */
static int agent_new(sd_event *e, const struct host *h, const char *config_file, const struct settings *s,
                     struct agent **ret) {
        _cleanup_(agent_freep) struct agent *a = calloc(1, sizeof(*a));
        int r;

        if (!a)
                return log_error_errno(ENOMEM, "tpu-hostd cannot start: %m");
        a->bus = (struct bus){ .event = e,
                               .host = h,
                               .config_file = config_file,
                               .settings = *s,
                               .parts = parts,
                               .states = a->states,
                               .n_parts = PARTS };
        if (bus_init(&a->bus) < 0)
                return log_error_errno(ENOMEM, "tpu-hostd cannot start: %m");
        r = make_parts(a);
        if (r >= 0)
                r = start_parts(a);
        if (r < 0)
                return r;
        sample_parts(a);
        a->bus.watching = a->bus.status_stale = true;
        bus_report_state(&a->bus);
        r = start_tick(a);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(a);
        return 0;
}

/* Identity, wanted values and the settings that can change are read again. */
static void agent_reload(struct agent *a) {
        struct settings_source source;
        struct settings fresh = { 0 };
        int r;

        r = settings_load(&fresh, &source, a->bus.host, a->bus.config_file);
        if (r < 0)
                (void) log_error_errno(r, "the configuration cannot be read again, the old one stays: %m");
        else {
                (void) settings_keep_fixed(&fresh, &source, &a->bus.settings);
                a->bus.settings = fresh;
        }
        config_clear(&source.config);
        for (size_t i = PARTS; i > 0; i--)
                if (parts[i - 1]->reload)
                        parts[i - 1]->reload(a->states[i - 1]);
        log_info("%sidentity and wanted values were read again", r < 0 ? "" : "configuration, ");
}

/* --- Signals ------------------------------------------------------------------------------------------- */

static int on_exit_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        const struct agent *a = userdata;

        (void) source;
        (void) sd_notify(false, "STOPPING=1\nSTATUS=stopping");
        log_info("signal %u from pid %u: stopping", si->ssi_signo, si->ssi_pid);
        leave_begin(&a->bus);
        return 0;
}

static int on_reload_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        (void) source;
        (void) si;
        (void) sd_notify(false, "RELOADING=1");
        agent_reload(userdata);
        (void) sd_notify(false, "READY=1");
        return 0;
}

static int watch_signal(sd_event *e, int signal, sd_event_signal_handler_t handler, void *userdata,
                        const char *name) {
        _cleanup_(sd_event_source_unrefp) sd_event_source *source = NULL;
        int r = sd_event_add_signal(e, &source, signal, handler, userdata);

        if (r < 0)
                return r;
        (void) sd_event_source_set_description(source, name);
        return sd_event_source_set_floating(source, true);
}

/* Before any thread starts, so that none of them takes a signal. */
static int block_signals(void) {
        sigset_t set;

        if (sigemptyset(&set) < 0 || sigaddset(&set, SIGTERM) < 0 || sigaddset(&set, SIGINT) < 0 ||
            sigaddset(&set, SIGHUP) < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        return signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -errno : 0;
}

int agent_run(const struct host *h, const char *config_file, const struct settings *s) {
        _cleanup_(sd_event_unrefp) sd_event *e = NULL;
        _cleanup_(agent_freep) struct agent *a = NULL;
        int r;

        r = block_signals();
        if (r >= 0)
                r = sd_event_default(&e);
        if (r >= 0)
                r = sd_event_set_watchdog(e, true);
        if (r < 0)
                return log_error_errno(r, "the event loop cannot be set up: %m");
        r = agent_new(e, h, config_file, s, &a);
        if (r < 0)
                return r; /* it has said why */
        r = watch_signal(e, SIGTERM, on_exit_signal, a, "SIGTERM");
        if (r >= 0)
                r = watch_signal(e, SIGINT, on_exit_signal, a, "SIGINT");
        if (r >= 0)
                r = watch_signal(e, SIGHUP, on_reload_signal, a, "SIGHUP");
        if (r < 0)
                return log_error_errno(r, "signals cannot be watched: %m");
        (void) sd_notify(false, "READY=1");
        r = sd_event_loop(e);
        return r < 0 ? log_error_errno(r, "the event loop failed: %m") : r;
}
