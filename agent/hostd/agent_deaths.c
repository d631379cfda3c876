/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_deaths.h"

#include "agent_bpf.h"
#include "agent_run_totals.h"
#include "deaths_figures.h"
#include "log.h"
#include "ring_reader.h"

#define SET "deaths"
#define BATCH 512u
/* Processes of one run that one sender ends so soon after each other are told once. */
#define TOGETHER (10 * USEC_PER_SEC)
#define TOLD_MAX 32u

struct told {
        char run[DEATH_RUN_MAX];
        int signal;
        pid_t sender;
        usec_t at;
};

struct agent_deaths {
        struct death_log log;
        struct ring_reader ring;
        sd_event_source *source;
        struct told told[TOLD_MAX];
        size_t next;
};

/* --- Events -------------------------------------------------------------------------------------------- */

static bool is_told(struct agent_deaths *d, const struct death *e, const char *run) {
        struct told *t = &d->told[d->next];

        for (size_t i = 0; i < TOLD_MAX; i++)
                if (d->told[i].signal == e->signal && d->told[i].sender == e->sender && streq(d->told[i].run, run) &&
                    e->at < d->told[i].at + TOGETHER)
                        return true;
        d->next = (d->next + 1) % TOLD_MAX;
        *t = (struct told){ .signal = e->signal, .sender = e->sender, .at = e->at };
        (void) snprintf(t->run, sizeof(t->run), "%s", run);
        return false;
}

/*
 * The run by its control group, else by its first process: who dies may have left its group. Empty: none that
 * tpu-launchd tells of; on one kernel there may be several hosts.
 */
static const char *run_of(const struct bus *b, const struct death *e) {
        const struct host_runs *l = b->runs;

        if (e->run[0])
                return host_runs_find(b->runs, e->run) ? e->run : "";
        for (size_t i = 0; l->known && i < l->n; i++)
                if (l->runs[i].last_pid == (uint32_t) e->victim && host_run_lives(&l->runs[i]))
                        return l->runs[i].name;
        return "";
}

/* Who ends a run as people asked it to is the service manager. */
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

static void tell(struct bus *b, const struct death *e, const char *run) {
        char text[DEATH_TEXT_MAX], signal[DEATH_SIGNAL_TEXT_MAX], group[DEATH_GROUP_MAX];

        if (is_told(agent_of(b)->deaths, e, run))
                return;
        (void) bus_emit(b,
                          EVENT_AS(RUN_KILLED_BY, is_usual(e) ? SEVERITY_INFO : SEVERITY_WARN, .run = run,
                                   .pid = e->victim, .comm = e->victim_comm, .group = group_of(e, group),
                                   .signal = death_signal(e->signal, signal),
                                   .killed_by = death_text(e, text),
                                   .sender = !e->sender_known ? "unknown" : e->by_kernel ? "kernel" : "process",
                                   .sender_pid = e->sender,
                                   .sender_uid = e->sender_known && !e->by_kernel ? (int64_t) e->sender_uid : -1,
                                   .sender_comm = e->sender_comm, .sender_group = e->sender_group,
                                   .out_of_memory = e->out_of_memory),
                          NULL);
}

/* --- The ring ------------------------------------------------------------------------------------------ */

static void take(const void *data, size_t len, void *userdata) {
        struct bus *b = userdata;
        const struct death *e = deaths_take(&agent_of(b)->deaths->log, data, len);
        const char *run = e ? run_of(b, e) : "";

        if (run[0] == '\0')
                return;
        agent_run_totals_died(b, run, e);
        tell(b, e, run);
}

static void drain(struct bus *b) {
        int r = ring_reader_read(&agent_of(b)->deaths->ring, BATCH, take, b);

        if (r >= 0)
                return;
        (void) log_error_errno(r, "who ends processes is not seen any more: the ring of the BPF program cannot be read: %m");
        agent_of(b)->deaths->source = sd_event_source_disable_unref(agent_of(b)->deaths->source);
        ring_reader_close(&agent_of(b)->deaths->ring);
}

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        (void) source;
        (void) fd;
        (void) events;
        drain(userdata);
        return 0;
}

static int start(struct bus *b, int fd) {
        int r;

        agent_of(b)->deaths = calloc(1, sizeof(*agent_of(b)->deaths));
        if (!agent_of(b)->deaths)
                return -ENOMEM;
        r = ring_reader_open(fd, DEATH_RING_BYTES, &agent_of(b)->deaths->ring);
        if (r < 0)
                return r;
        r = sd_event_add_io(b->event, &agent_of(b)->deaths->source, fd, EPOLLIN, on_readable, b);
        return r < 0 ? r : sd_event_source_set_description(agent_of(b)->deaths->source, "deaths");
}

void agent_deaths_tick(struct bus *b) {
        struct bpf_sets *sets = agent_bpf_sets(b);
        int fd = agent_of(b)->deaths || !sets ? -1 : bpf_sets_map(sets, SET, "death_ring"), r;

        if (fd >= 0) {
                r = start(b, fd);
                if (r < 0)
                        (void) log_error_errno(r, "who ends processes is not seen: the ring of the BPF program cannot be mapped: %m");
        }
        if (agent_of(b)->deaths && agent_of(b)->deaths->source)
                drain(b);
}

void agent_deaths_stop(struct bus *b) {
        if (!agent_of(b)->deaths)
                return;
        agent_of(b)->deaths->source = sd_event_source_disable_unref(agent_of(b)->deaths->source);
        ring_reader_close(&agent_of(b)->deaths->ring);
        free(agent_of(b)->deaths);
        agent_of(b)->deaths = NULL;
}

/* --- What ended a run ---------------------------------------------------------------------------------- */

/* What was sent explains an end that it did not bring about itself where the program ended on being told. */
static bool explains(const struct death *e, const struct host_run *run) {
        return e->ended || streq(run->cause, "stopped") || streq(run->cause, "preempted") || streq(run->cause, "timeout");
}

const char *agent_killed_by(struct bus *b, const struct host_run *run, char buf[static DEATH_TEXT_MAX]) {
        usec_t now = host_now(b->host), real = host_now_real(b->host), since = 0;
        const struct death *e = NULL;

        buf[0] = '\0';
        if (!agent_of(b)->deaths || streq(run->cause, "success"))
                return buf;
        if (run->started_real > 0 && run->started_real < real && real - run->started_real < now)
                since = now - (real - run->started_real);
        if (agent_of(b)->deaths->source)
                drain(b);
        if (run->last_pid > 0)
                e = deaths_find(&agent_of(b)->deaths->log, run->name, (pid_t) run->last_pid, since);
        if (!e)
                e = deaths_find(&agent_of(b)->deaths->log, run->name, 0, since);
        if (e && explains(e, run))
                (void) death_text(e, buf);
        return buf;
}
