/* SPDX-License-Identifier: Apache-2.0 */
/* The daemons of this host: whether each runs, answers and hears, and what it says that it cannot do. */
#include "daemon_states.h"
#include "memory.h"
#include "words.h"

/* One that has run for so long has recovered. */
#define SETTLED (60 * USEC_PER_SEC)
/* So many within an hour are a loop, however long it lives each time. Who may not read the journal knows
 * systemd's count since a person started it, but not when they were: then one that lived for less on average
 * restarts again and again. */
#define LOOP_RESTARTS 3
#define LOOP_LIFE (600 * USEC_PER_SEC)

#define TASKS_LEAST 4096

static const struct {
        const char *name, *without;
} daemons[] = {
        [DAEMON_HOSTD] = { "tpu-hostd", "nothing watches this host, and the fleet hears nothing of it" },
        [DAEMON_LAUNCHD] = { "tpu-launchd", "no run can be started, stopped or captured here" },
        [DAEMON_NETCFG] = { "tpu-netcfg", "network settings that drift are not repaired" },
        [DAEMON_JOURNALD] = { "systemd-journald",
                              "step lines of runs do not arrive, and no stall is seen" },
};
_Static_assert(ELEMENTSOF(daemons) == _DAEMON_MAX, "every daemon is judged");

static bool is_up(const struct daemon_state *d) {
        return streq(d->active, "active") || streq(d->active, "reloading");
}

/* since: it was not started before. */
static bool loops(const struct daemon_state *d, usec_t since) {
        if (d->failures >= LOOP_RESTARTS && (is_up(d) || startswith(d->sub, "auto-restart")))
                return true;
        if (is_up(d))
                return d->restarts >= LOOP_RESTARTS && d->up < SETTLED && since / d->restarts < LOOP_LIFE;
        return startswith(d->sub, "auto-restart") && d->restarts > 0 && d->lived < SETTLED;
}

static bool is_frozen(const struct daemon_state *d) {
        return d->process == 'T' || d->process == 't';
}

/* What the socket and the process tell of one that systemd calls active, or says nothing of. */
static void judge_answer(const char *without, const struct daemon_state *d, struct finding *f) {
        bool gone = d->answer == -ENOENT || d->answer == -ECONNREFUSED;

        if (is_frozen(d))
                check_say(f, WORDS_DAEMON_STUCK, without, "its process was stopped by a signal (SIGSTOP)");
        else if (streq(d->sub, "stop-watchdog"))
                check_say(f, WORDS_DAEMON_STUCK, without,
                          "it did not answer systemd's watchdog, which ends it");
        else if (!d->asked || d->answer == 0)
                check_say(f, WORDS_DAEMON);
        else if (d->error < 0 && gone)
                check_say(f, WORDS_DAEMON_AWAY, without);
        else if (gone)
                check_say(f, WORDS_DAEMON_NO_SOCKET, without, strerror(-d->answer));
        else if (d->answer == -ETIMEDOUT)
                check_say(f, WORDS_DAEMON_STUCK, without, "it runs, and does not answer within 2 s");
        else
                check_say(f, WORDS_DAEMON_STUCK, without, strerror(-d->answer));
        finding_set(f->found, "%s",
                    f->verdict == VERDICT_OK               ? "running"
                    : f->verdict == VERDICT_WARN && !gone ? "stuck"
                                                           : "not reachable");
}

static void judge_daemon(enum daemon_id i, const struct daemon_state *d, usec_t since, struct finding *f) {
        const char *without = daemons[i].without;
        char restarts[16], seconds[24], count[40];

        (void) snprintf(restarts, sizeof(restarts), "%u", d->restarts);
        finding_set(f->found, "%s", d->active);
        if (d->error < 0 && !d->asked)
                check_say(f, WORDS_DAEMON_UNSURE, strerror(-d->error));
        else if (d->error < 0)
                judge_answer(without, d, f);
        else if (streq(d->load, "masked"))
                check_say(f, WORDS_DAEMON_OFF, d->load);
        else if (loops(d, since)) {
                finding_set(f->found, "%s, last end: %s", d->sub, d->result);
                if (d->failures >= LOOP_RESTARTS)
                        (void) snprintf(count, sizeof(count), "%u times within an hour", d->failures);
                else
                        (void) snprintf(count, sizeof(count), "restarts: %u", d->restarts);
                check_say(f, WORDS_DAEMON_LOOPS, without, count);
        } else if (is_up(d) || is_frozen(d) || streq(d->sub, "stop-watchdog"))
                judge_answer(without, d, f);
        else if ((streq(d->active, "activating") && !streq(d->sub, "auto-restart")) ||
                 streq(d->active, "deactivating"))
                check_say(f, WORDS_DAEMON);
        else if (streq(d->enabled, "disabled"))
                check_say(f, WORDS_DAEMON_OFF, d->enabled);
        else
                check_say(f, WORDS_DAEMON_AWAY, without);
        if (f->verdict != VERDICT_OK || !is_up(d) || d->restarts == 0 || d->up >= SETTLED)
                return;
        (void) snprintf(seconds, sizeof(seconds), "%" PRIu64, d->up / USEC_PER_SEC);
        check_say(f, WORDS_DAEMON_RESTARTED, seconds, restarts);
}

/* Memory: that of the host, 0: not known. */
static bool is_low(const struct run_limit *l, uint64_t memory) {
        if (startswith(l->property, "Memory"))
                return l->value < memory / 2;
        return l->value < (strstr(l->property, "Tasks") || streq(l->property, "DefaultLimitNPROC") ?
                                   TASKS_LEAST :
                                   UINT64_MAX);
}

/* daemon.slice: what systemd holds back from all runs, which are services in tpu-run.slice. */
static void judge_limits(const struct host *h, const struct daemon_states *d, struct sink *s) {
        uint64_t memory = memory_total(h);
        size_t low = 0;

        for (size_t i = 0; i < d->n_limits; i++) {
                const struct run_limit *l = &d->limits[i];
                bool quota = startswith(l->property, "CPUQuota");
                char set[64];

                if (!is_low(l, memory))
                        continue;
                low++;
                (void) snprintf(set, sizeof(set), "%s=%s", quota ? "CPUQuota" : l->property,
                                quota ? "" : "infinity");
                probe_tell(s, l->unit ? WORDS_RUN_LIMITS_SLICE : WORDS_RUN_LIMITS_DEFAULT,
                           l->unit ? l->unit : l->property, set, "%s=%" PRIu64, l->property, l->value);
        }
        if (low == 0 && d->n_limits > 0)
                probe_tell(s, WORDS_RUN_LIMITS, NULL, NULL, "none that a run meets");
}

int probe_daemon(const struct host *h, const struct probe_context *c, struct sink *s) {
        if (!c->daemons)
                probe_tell(s, WORDS_DAEMON_UNSURE, daemons[DAEMON_HOSTD].name, "nobody was asked", "%s", "");
        for (enum daemon_id i = 0; c->daemons && c->daemons->systemd && i < _DAEMON_MAX; i++) {
                const struct daemon_state *d = &c->daemons->of[i];
                struct finding f;

                if (streq(d->load, "not-found"))
                        continue; /* the package is not here, tpuctl alone */
                check_begin(&f, WORDS_DAEMON, daemons[i].name);
                judge_daemon(i, d, c->daemons->since_boot, &f);
                s->finding(s, &f);
                for (size_t k = 0; k < d->n_says; k++)
                        if (startswith(d->says[k].check, "daemon."))
                                s->finding(s, &d->says[k]);
        }
        if (c->daemons && c->daemons->systemd)
                judge_limits(h, c->daemons, s);
        return 0;
}
