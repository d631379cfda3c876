/* SPDX-License-Identifier: Apache-2.0 */
#include "deaths_part.h"

#include "bpf_part.h"
#include "deaths_figures.h"
#include "log.h"
#include "ring_reader.h"

#define SET "deaths"
#define BATCH 512u
/* Processes of one run that one sender ends so soon after each other are reported once. */
#define TOGETHER (10 * USEC_PER_SEC)
#define REPORTED_MAX 32u

struct reported {
        char run[DEATH_RUN_MAX];
        int signal;
        pid_t sender;
        usec_t at;
};

struct deaths_state {
        struct bus *bus;
        struct death_log log;
        struct ring_reader ring;
        sd_event_source *source; /* NULL: the ring is not read (yet, or any more) */
        bool tried;              /* to open the ring: it is tried once */
        struct reported reported[REPORTED_MAX];
        size_t next;
};

/* --- Events -------------------------------------------------------------------------------------------- */

/* Remembers it, too, when it was not. */
static bool was_reported(struct deaths_state *d, const struct death *e, const char *run) {
        struct reported *t = &d->reported[d->next];

        for (size_t i = 0; i < REPORTED_MAX; i++)
                if (d->reported[i].signal == e->signal && d->reported[i].sender == e->sender &&
                    streq(d->reported[i].run, run) && e->at < d->reported[i].at + TOGETHER)
                        return true;
        d->next = (d->next + 1) % REPORTED_MAX;
        *t = (struct reported){ .signal = e->signal, .sender = e->sender, .at = e->at };
        (void) snprintf(t->run, sizeof(t->run), "%s", run);
        return false;
}

/*
 * The run by its control group, else by its first process, because a process may have left the group. Empty:
 * none that tpu-launchd reports; on one kernel there may be several hosts.
 */
static const char *run_of(const struct bus *b, const struct death *e) {
        const struct host_runs *l = b->runs;

        if (e->run[0])
                return host_runs_find(l, e->run) ? e->run : "";
        for (size_t i = 0; l->known && i < l->n; i++)
                if (l->runs[i].last_pid == (uint32_t) e->victim && host_run_lives(&l->runs[i]))
                        return l->runs[i].name;
        return "";
}

/* The service manager ends a run when people asked for it. */
static bool is_usual(const struct death *e) {
        return e->sender_known && !e->by_kernel && e->sender == 1;
}

/* The control group that the victim was in; empty: in none of a run's own. */
static const char *group_of(const struct death *e, char buf[static DEATH_GROUP_MAX]) {
        buf[0] = '\0';
        if (e->run[0])
                (void) snprintf(buf, DEATH_GROUP_MAX, "tpu-run-%s.slice", e->run);
        for (char *p = buf + MIN(strlen("tpu-run-"), strlen(buf)); *p; p++)
                if (*p == '-')
                        *p = '_';
        return buf;
}

static void report_death(struct deaths_state *d, const struct death *e, const char *run) {
        char text[DEATH_TEXT_MAX], signal[DEATH_SIGNAL_TEXT_MAX], group[DEATH_GROUP_MAX];

        if (was_reported(d, e, run))
                return;
        (void) bus_emit(
                d->bus,
                EVENT_AS(RUN_KILLED_BY, is_usual(e) ? SEVERITY_INFO : SEVERITY_WARN, .run = run,
                         .pid = e->victim, .comm = e->victim_comm, .group = group_of(e, group),
                         .signal = death_signal(e->signal, signal), .killed_by = death_text(e, text),
                         .sender = !e->sender_known ? "unknown"
                                   : e->by_kernel   ? "kernel"
                                                    : "process",
                         .sender_pid = e->sender,
                         .sender_uid = e->sender_known && !e->by_kernel ? (int64_t) e->sender_uid : -1,
                         .sender_comm = e->sender_comm, .sender_group = e->sender_group,
                         .out_of_memory = e->out_of_memory),
                NULL);
}

/* --- The ring ------------------------------------------------------------------------------------------ */

static void take_record(const void *data, size_t len, void *userdata) {
        struct deaths_state *d = userdata;
        const struct death *e = deaths_take(&d->log, data, len);
        const char *run = e ? run_of(d->bus, e) : "";

        if (run[0] == '\0')
                return;
        report_death(d, e, run);
}

static void read_ring(struct deaths_state *d) {
        int r = d->source ? ring_reader_read(&d->ring, BATCH, take_record, d) : 0;

        if (r >= 0)
                return;
        (void) log_error_errno(
                r,
                "who ends processes is not seen any more: the ring of the BPF program cannot be read: %m");
        d->source = sd_event_source_disable_unref(d->source);
        ring_reader_close(&d->ring);
}

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        (void) source;
        (void) fd;
        (void) events;
        read_ring(userdata);
        return 0;
}

static int open_ring(struct deaths_state *d, int fd) {
        int r = ring_reader_open(fd, DEATH_RING_BYTES, &d->ring);

        if (r >= 0)
                r = sd_event_add_io(d->bus->event, &d->source, fd, EPOLLIN, on_readable, d);
        return r < 0 ? r : sd_event_source_set_description(d->source, "deaths");
}

/* --- What ended a run ---------------------------------------------------------------------------------- */

/* A signal that did not end it by itself explains an end where the program ended because of it. */
static bool explains(const struct death *e, const struct host_run *run) {
        return e->ended || streq(run->cause, "stopped") || streq(run->cause, "preempted") ||
               streq(run->cause, "timeout");
}

const char *deaths_killed_by(const struct bus *b, const struct host_run *run,
                             char buf[static DEATH_TEXT_MAX]) {
        usec_t now = host_now(b->host), real = host_now_real(b->host), since = 0;
        struct deaths_state *d = bus_part(b, &deaths_part);
        const struct death *e = NULL;

        buf[0] = '\0';
        if (streq(run->cause, "success"))
                return buf;
        if (run->started_real > 0 && run->started_real < real && real - run->started_real < now)
                since = now - (real - run->started_real);
        read_ring(d);
        if (run->last_pid > 0)
                e = deaths_find(&d->log, run->name, (pid_t) run->last_pid, since);
        if (!e)
                e = deaths_find(&d->log, run->name, 0, since);
        if (e && explains(e, run))
                (void) death_text(e, buf);
        return buf;
}

/* --- The part ------------------------------------------------------------------------------------------ */

/* The sets come some time after the start. */
static void tick_deaths(void *self) {
        struct deaths_state *d = self;
        struct bpf_sets *sets = bpf_sets_of(d->bus);
        int fd = d->tried || !sets ? -1 : bpf_sets_map(sets, SET, "death_ring"), r;

        if (fd >= 0) {
                d->tried = true;
                r = open_ring(d, fd);
                if (r < 0)
                        (void) log_error_errno(r, "who ends processes is not seen: the ring of the BPF "
                                                  "program cannot be mapped: %m");
        }
        read_ring(d);
}

static void stop_deaths(void *self) {
        struct deaths_state *d = self;

        d->source = sd_event_source_disable_unref(d->source);
        ring_reader_close(&d->ring);
}

const struct part deaths_part = {
        .name = "deaths",
        .size = sizeof(struct deaths_state),
        .tick = tick_deaths,
        .stop = stop_deaths,
};
