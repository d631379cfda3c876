/* SPDX-License-Identifier: Apache-2.0 */
#include "deaths.h"

#include <signal.h>

#include "utf8.h"

/* x86, signal(7). glibc's sigabbrev_np() came with 2.32. */
static const char *const signals[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT",     [SIGILL] = "ILL",
        [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT", [SIGBUS] = "BUS",       [SIGFPE] = "FPE",
        [SIGKILL] = "KILL", [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV",     [SIGUSR2] = "USR2",
        [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",     [SIGSTKFLT] = "STKFLT",
        [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF",
        [SIGIO] = "IO",     [SIGPWR] = "PWR",   [SIGSYS] = "SYS",
};

const char *death_signal(int signal, char buf[static DEATH_SIGNAL_TEXT_MAX]) {
        if (signal > 0 && (size_t) signal < ELEMENTSOF(signals) && signals[signal])
                (void) snprintf(buf, DEATH_SIGNAL_TEXT_MAX, "SIG%s", signals[signal]);
        else
                (void) snprintf(buf, DEATH_SIGNAL_TEXT_MAX, "signal %d", signal & 0xff);
        return buf;
}

/* "tpu-run-NAME.slice": a '-' of the name is a '_' there, and names have no '_'. */
static void take_run(struct death *d, const char *group) {
        static const char prefix[] = "tpu-run-", suffix[] = ".slice";
        size_t len = strlen(group), around = strlen(prefix) + strlen(suffix);

        if (len <= around || len - around >= sizeof(d->run) || !startswith(group, prefix) ||
            !streq(group + len - strlen(suffix), suffix))
                return;
        memcpy(d->run, group + strlen(prefix), len - around);
        d->run[len - around] = '\0';
        for (char *p = d->run; *p; p++)
                if (*p == '_')
                        *p = '-';
}

static struct death from_record(const struct death_record *r) {
        struct death d = {
                .at = r->at / NSEC_PER_USEC,
                .signal = r->signal,
                .victim = r->victim,
                .global = r->global,
                .ended = r->kind == DEATH_EXIT,
                .out_of_memory = r->kind == DEATH_OOM,
                .by_kernel = r->kind == DEATH_OOM || r->sender_kind == DEATH_BY_KERNEL,
                .sender_known = r->kind != DEATH_EXIT,
                .sender = r->sender,
                .sender_uid = r->sender_uid,
        };
        char group[DEATH_GROUP_MAX];

        snprintf(group, sizeof(group), "%.*s", DEATH_GROUP_MAX - 1, r->run);
        take_run(&d, group);
        utf8_copy(d.victim_comm, sizeof(d.victim_comm), r->victim_comm);
        utf8_copy(d.sender_comm, sizeof(d.sender_comm), r->sender_comm);
        utf8_copy(d.sender_group, sizeof(d.sender_group), r->sender_group);
        return d;
}

static bool is_sound(const struct death_record *r, size_t len) {
        return len == sizeof(*r) && r->kind >= DEATH_SIGNAL && r->kind <= DEATH_EXIT && r->signal > 0 &&
               r->signal < 65 && r->victim_comm[DEATH_COMM_MAX - 1] == 0 &&
               r->sender_comm[DEATH_COMM_MAX - 1] == 0 && r->run[DEATH_GROUP_MAX - 1] == 0 &&
               r->sender_group[DEATH_GROUP_MAX - 1] == 0;
}

/* The newest signal of that number that was sent to the process of that number in the first pid
 * namespace. */
static struct death *find_signal(struct death_log *d, int signal, int32_t global) {
        struct death *found = NULL;

        for (size_t i = 0; i < DEATHS_SIGNALS; i++) {
                struct death *s = &d->signals[i];

                if (s->signal == signal && s->global == global && (!found || s->at > found->at))
                        found = s;
        }
        return found;
}

static void keep_signal(struct death_log *d, const struct death *s) {
        d->signals[d->next_signal] = *s;
        d->next_signal = (d->next_signal + 1) % DEATHS_SIGNALS;
}

/* The OOM killer's signal was just seen; of a victim that ends anyway there is none. */
static void take_victim(struct death_log *d, const struct death *oom) {
        struct death *s = find_signal(d, SIGKILL, oom->global);

        if (s)
                s->out_of_memory = s->by_kernel = true;
        else if (oom->victim > 0)
                keep_signal(d, oom);
}

static const struct death *take_end(struct death_log *d, struct death *end) {
        struct death *kept = &d->ends[d->next_end], *s = find_signal(d, end->signal, end->global);

        if (s) {
                *kept = *s;
                kept->at = end->at;
                kept->ended = true;
                s->signal = 0;
                if (kept->run[0] == 0)
                        memcpy(kept->run, end->run, sizeof(kept->run));
        } else
                *kept = *end;
        d->next_end = (d->next_end + 1) % DEATHS_KEPT;
        return kept;
}

const struct death *deaths_take(struct death_log *d, const void *data, size_t len) {
        struct death_record r;
        struct death next;

        memcpy(&r, data, MIN(len, sizeof(r)));
        if (len != sizeof(r) || !is_sound(&r, len)) {
                d->refused++;
                return NULL;
        }
        next = from_record(&r);
        if (r.kind == DEATH_EXIT)
                return take_end(d, &next);
        if (r.kind == DEATH_OOM)
                take_victim(d, &next);
        else
                keep_signal(d, &next);
        return NULL;
}

static void take_newer(const struct death **found, const struct death *d, usec_t since) {
        if (d->signal != 0 && d->at >= since && (!*found || d->at > (*found)->at))
                *found = d;
}

const struct death *deaths_find(const struct death_log *d, const char *run, pid_t pid, usec_t since) {
        const struct death *found = NULL;

        for (size_t i = 0; i < DEATHS_KEPT; i++)
                if (pid > 0 ? d->ends[i].victim == pid : streq(d->ends[i].run, run))
                        take_newer(&found, &d->ends[i], since);
        for (size_t i = 0; !found && pid > 0 && i < DEATHS_SIGNALS; i++)
                if (d->signals[i].victim == pid)
                        take_newer(&found, &d->signals[i], since);
        return found;
}

static void put_sender(const struct death *d, char *buf, size_t size) {
        if (!d->sender_known)
                (void) snprintf(buf, size, " from nobody that was seen");
        else if (d->by_kernel)
                (void) snprintf(buf, size, " from the kernel%s", d->out_of_memory ? ", out of memory" : "");
        else if (d->sender == d->victim)
                (void) snprintf(buf, size, " from itself");
        else if (d->sender == 0)
                (void) snprintf(buf, size, " from %s, which is outside of this host's pid namespace",
                                d->sender_comm);
        else
                (void) snprintf(buf, size, " from pid %d (%s, uid %u%s%s)", (int) d->sender, d->sender_comm,
                                (unsigned) d->sender_uid, d->sender_group[0] ? ", " : "", d->sender_group);
}

const char *death_text(const struct death *d, char buf[static DEATH_TEXT_MAX]) {
        char signal[DEATH_SIGNAL_TEXT_MAX];
        size_t n = (size_t) snprintf(buf, DEATH_TEXT_MAX, "%s", death_signal(d->signal, signal));

        put_sender(d, buf + n, DEATH_TEXT_MAX - n);
        return buf;
}
