/* SPDX-License-Identifier: Apache-2.0 */
#include "checks_part.h"

#include <fcntl.h>
#include <unistd.h>

#include "log.h"
#include "processes.h"
#include "schedule.h"

#define PROGRAM "tpu-hostd-probe"

_Static_assert(SCHEDULE_PROBES_MAX <= SOURCE_PROBES_MAX, "every probe is a source of its own");

struct checks_state {
        struct bus *bus;
        struct schedule *schedule;
        struct worker_program program;
        int fd; /* of the program: after an upgrade that of this version still runs; -1: it is not there */
        char path[32]; /* of fd, in /proc/self/fd */
};

/*
 * Where there is no program, the installed one is named: each probe that blocks then says what is missing.
 */
static void open_program(struct checks_state *p) {
        char path[PATH_MAX];
        int r = private_program_find(PROGRAM, path);

        p->fd = r < 0 ? -1 : open(path, O_PATH | O_CLOEXEC);
        if (p->fd < 0) {
                p->program.path = PRIVATE_PROGRAMS "/" PROGRAM;
                (void) log_error_errno(r < 0 ? r : -errno,
                                       "%s: %m: what it would look at stays unknown; reinstall the package "
                                       "tpu-hostd",
                                       p->program.path);
                return;
        }
        (void) snprintf(p->path, sizeof(p->path), "/proc/self/fd/%d", p->fd);
        p->program.path = p->path;
}

/* --- What probes say ----------------------------------------------------------------------------------- */

static void on_finding(unsigned source, unsigned round, const struct finding *f, void *userdata) {
        const struct checks_state *p = userdata;

        bus_take_finding(p->bus, source, round, f);
}

static void on_sample(unsigned source, unsigned round, const struct sample *m, void *userdata) {
        const struct checks_state *p = userdata;

        bus_take_sample(p->bus, source, round, m, p->bus->boot_real);
}

static bool on_round_end(unsigned source, unsigned round, bool whole, void *userdata) {
        const struct checks_state *p = userdata;

        if (whole)
                bus_end_round(p->bus, source, round);
        else
                bus_report_state(p->bus);
        return check_table_worsens(&p->bus->checks, source);
}

/* --- The part ------------------------------------------------------------------------------------------ */

static int start_checks(void *self) {
        static const struct schedule_handlers handlers = { .finding = on_finding,
                                                           .sample = on_sample,
                                                           .done = on_round_end };
        struct checks_state *p = self;
        struct bus *b = p->bus;

        open_program(p);
        return schedule_new(b->event, probe_table, &p->program, b->settings.probe_interval, b->host,
                            &b->context, &handlers, p, &p->schedule);
}

static void reload_checks(void *self) {
        struct checks_state *p = self;

        schedule_set_interval(p->schedule, p->bus->settings.probe_interval);
}

static void tick_checks(void *self) {
        struct checks_state *p = self;

        schedule_go_along(p->schedule); /* what they find goes out at once */
}

static void hear_checks(void *self, const struct bus_news *n) {
        struct checks_state *p = self;

        if (n->topic == BUS_IDENTITY && p->schedule)
                schedule_run_all(p->schedule);
}

static void stop_checks(void *self) {
        struct checks_state *p = self;

        p->schedule = schedule_free(p->schedule);
        if (p->program.path) /* else it was not started */
                p->fd = close_fd(p->fd);
}

const struct part checks_part = {
        .name = "checks",
        .size = sizeof(struct checks_state),
        .start = start_checks,
        .reload = reload_checks,
        .tick = tick_checks,
        .hear = hear_checks,
        .stop = stop_checks,
};
