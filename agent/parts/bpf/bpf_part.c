/* SPDX-License-Identifier: Apache-2.0 */
#include "bpf_part.h"

#include <assert.h>

#include "check_words.h"
#include "log.h"
#include "processes.h"

#define LOADER "tpu-hostd-bpf"

struct bpf_state {
        struct bus *bus;
        struct bpf_sets *sets;
        sd_event_source *waiting; /* for the loader, or to report that there is none; NULL: done */
        const char *absent;       /* why there are no programs at all */
        unsigned source, round;
};

static const char *const known[] = {
#define BPF_SET(name) #name,
#include "sets.def"
#undef BPF_SET
};

/* --- Checks -------------------------------------------------------------------------------------------- */

static void begin_finding(struct finding *f, const char *set) {
        finding_init(f, "", "");
        finding_set(f->check, "bpf_%s", set);
}

static void judge_set(struct bpf_state *s, const struct bpf_report *r) {
        struct finding f;

        begin_finding(&f, r->name);
        f.verdict = r->verdict;
        finding_set(f.found, "%u of %u programs: %s", r->loaded, r->programs, r->summary);
        finding_set(f.reason, "%s", r->reason);
        if (r->verdict != VERDICT_OK)
                check_say(&f, WORDS_BPF_WRONG, r->reason, PRIVATE_PROGRAMS "/" LOADER);
        bus_take_finding(s->bus, s->source, s->round, &f);
}

/* The loader did not report it. */
static void judge_missing_set(struct bpf_state *s, const char *set, const char *why) {
        struct finding f;

        begin_finding(&f, set);
        finding_set(f.found, "nothing");
        finding_set(f.reason, "%s", why);
        bus_take_finding(s->bus, s->source, s->round, &f);
}

static bool is_reported(const struct bpf_sets *sets, const char *set) {
        for (size_t i = 0; sets && i < bpf_sets_count(sets); i++)
                if (streq(bpf_sets_report(sets, i)->name, set))
                        return true;
        return false;
}

/* why: a set is missing. */
static void judge_sets(struct bpf_state *s, const char *why) {
        s->waiting = sd_event_source_disable_unref(s->waiting);
        s->round++;
        for (size_t i = 0; s->sets && i < bpf_sets_count(s->sets); i++)
                judge_set(s, bpf_sets_report(s->sets, i));
        for (size_t i = 0; i < ELEMENTSOF(known); i++)
                if (!is_reported(s->sets, known[i]))
                        judge_missing_set(s, known[i], why);
        bus_settle(s->bus, s->source, s->round);
}

/* --- The loader ---------------------------------------------------------------------------------------- */

static int on_loader(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        struct bpf_state *s = userdata;
        int r = bpf_sets_take(s->sets);

        (void) source;
        (void) fd;
        (void) events;
        if (r == 0)
                return 0;
        if (r < 0)
                (void) log_warning_errno(r, "what " LOADER " reports is not understood: %m");
        judge_sets(s, LOADER " ended before it reported this set: journalctl -u tpu-hostd says why");
        return 0;
}

static int on_absent(sd_event_source *source, void *userdata) {
        struct bpf_state *s = userdata;

        (void) source;
        assert(s->absent);
        judge_sets(s, s->absent);
        return 0;
}

/* From the loop, because findings become records, and the part that takes those starts after this one. */
static int report_absent(struct bpf_state *s, const char *why) {
        int r;

        s->absent = why;
        r = sd_event_add_defer(s->bus->event, &s->waiting, on_absent, s);
        return r < 0 ? r : sd_event_source_set_description(s->waiting, "bpf-absent");
}

/* --- The part ------------------------------------------------------------------------------------------ */

static int start_bpf(void *self) {
        static const char kept[] = "CAP_BPF and CAP_PERFMON cannot be given up: the system call filter must "
                                   "let capset() pass";
        struct bpf_state *s = self;
        char path[PATH_MAX];
        int r;

        s->source = bus_sources(s->bus, 1);
        if (!s->bus->host->real_root)
                return 0; /* a folder has no kernel */
        (void) private_program_find(LOADER, path);
        r = bpf_sets_start(path, &s->sets);
        if (r == -ENOENT)
                return report_absent(s, "this build of tpu-hostd has no BPF programs (" LOADER " is not "
                                        "there)");
        if (r == -EXDEV) {
                log_error("%s; no BPF programs are kept", kept);
                return report_absent(s, kept);
        }
        if (r < 0) {
                (void) log_warning_errno(r, "%s cannot be started, no BPF programs are loaded: %m", path);
                return report_absent(s, LOADER " cannot be started");
        }
        r = sd_event_add_io(s->bus->event, &s->waiting, bpf_sets_fd(s->sets), EPOLLIN, on_loader, s);
        return r < 0 ? r : sd_event_source_set_description(s->waiting, "bpf-loader");
}

static void stop_bpf(void *self) {
        struct bpf_state *s = self;

        s->waiting = sd_event_source_disable_unref(s->waiting);
        s->sets = bpf_sets_free(s->sets);
}

const struct part bpf_part = {
        .name = "bpf",
        .size = sizeof(struct bpf_state),
        .start = start_bpf,
        .stop = stop_bpf,
};

struct bpf_sets *bpf_sets_of(const struct bus *b) {
        const struct bpf_state *s = bus_part(b, &bpf_part);

        return s->waiting ? NULL : s->sets;
}

const struct net_figures *bpf_net_figures(const struct bus *b) {
        return bpf_sets_figures(bpf_sets_of(b), "net", sizeof(struct net_figures));
}
