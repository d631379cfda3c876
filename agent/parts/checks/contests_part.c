/* SPDX-License-Identifier: Apache-2.0 */
#include "contests_part.h"

#include "bpf_part.h"
#include "contest_writers.h"
#include "log.h"

struct contests_state {
        struct bus *bus;
        struct contested_list known; /* as it was reported */
        int error;                   /* of reading it, which was logged */
        int save_error;              /* of saying who writes it, which was logged */
};

static void report_begun(struct contests_state *s, const struct contested *c) {
        struct finding f;

        finding_init(&f, c->check, c->subject);
        contested_words(s->bus->host, c, &f);
        (void) bus_emit(s->bus,
                        EVENT_OF(NETCFG_CONTESTED, .check = c->check, .subject = c->subject,
                                 .setting = c->setting, .wanted = c->ours, .found = c->theirs,
                                 .times = c->times, .pid = c->pid > 0 ? c->pid : EVENT_ABSENT,
                                 .unit = c->pid > 0 && c->unit[0] ? c->unit : NULL,
                                 .command = c->pid > 0 ? c->command : NULL, .reason = f.reason,
                                 .remedy = f.remedy),
                        NULL);
}

static void report_ended(struct contests_state *s, const struct contested *c) {
        usec_t now = host_now(s->bus->host);

        (void) bus_emit(s->bus,
                        EVENT_OF(NETCFG_UNCONTESTED, .check = c->check, .subject = c->subject,
                                 .setting = c->setting, .wanted = c->ours, .found = c->theirs,
                                 .times = c->times,
                                 .lasted_msec = (int64_t) ((now - MIN(now, c->since)) / USEC_PER_MSEC)),
                        NULL);
}

static void find_writers(struct contests_state *s, struct contested_list *l) {
        struct bpf_sets *sets = bpf_sets_of(s->bus);
        const char *why = sets ? bpf_sets_reason(sets, "writers") : "no BPF programs are loaded";
        const struct writers_figures *f = sets ? bpf_sets_figures(sets, "writers", sizeof(*f)) : NULL;

        contest_writers(s->bus->host, f, why, &s->known, l);
}

/* tpuctl check and tpu-netcfg read it there. */
static void save_writers(struct contests_state *s, const struct contested_list *l) {
        int r;

        if (l->n == s->known.n && memcmp(l->items, s->known.items, l->n * sizeof(*l->items)) == 0)
                return;
        r = contest_writers_save(s->bus->host, l);
        if (r < 0 && r != s->save_error)
                (void) log_warning_errno(r, "who sets what is contested cannot be saved: %m");
        s->save_error = r;
}

static void tick_contests(void *self) {
        struct contests_state *s = self;
        struct contested_list now;
        int r = contested_load_settings(s->bus->host, &now);

        if (r < 0 && r != s->error)
                (void) log_warning_errno(r, "which settings are contested cannot be read: %m");
        s->error = r;
        if (r < 0)
                return;
        find_writers(s, &now);
        save_writers(s, &now);
        for (size_t i = 0; i < s->known.n; i++)
                if (!contested_find(&now, &s->known.items[i]))
                        report_ended(s, &s->known.items[i]);
        for (size_t i = 0; i < now.n; i++)
                if (!contested_find(&s->known, &now.items[i]))
                        report_begun(s, &now.items[i]);
        s->known = now;
}

const struct part contests_part = {
        .name = "contests",
        .size = sizeof(struct contests_state),
        .tick = tick_contests,
};
