/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "agent_bpf.h"

#include "log.h"
#include "private_program.h"

#define LOADER "tpu-hostd-bpf"

struct agent_bpf {
        struct bpf_sets *sets;
        sd_event_source *source; /* NULL: all is told */
        const char *absent; /* why there are none at all */
        unsigned run;
};

static const struct {
        const char *name;
} known[] = {
#define BPF_SET(name) { #name },
#include "sets.def"
#undef BPF_SET
};

/* --- Checks -------------------------------------------------------------------------------------------- */

static void begin_finding(struct finding *f, const char *set) {
        finding_init(f, "", "");
        finding_set(f->check, "bpf_%s", set);
}

static void judge_told(struct bus *b, const struct bpf_report *r) {
        struct finding f;

        begin_finding(&f, r->name);
        f.verdict = r->verdict;
        finding_set(f.found, "%u of %u programs: %s", r->loaded, r->programs, r->summary);
        finding_set(f.reason, "%s", r->reason);
        if (r->verdict != VERDICT_OK)
                check_say(&f, WORDS_BPF_WRONG, r->reason, PRIVATE_PROGRAMS "/" LOADER);
        bus_take_finding(b, SOURCE_BPF, agent_of(b)->bpf->run, &f);
}

/* What the loader did not tell of. */
static void judge_missing(struct bus *b, const char *set, const char *why) {
        struct finding f;

        begin_finding(&f, set);
        finding_set(f.found, "nothing");
        finding_set(f.reason, "%s", why);
        bus_take_finding(b, SOURCE_BPF, agent_of(b)->bpf->run, &f);
}

static bool is_told(const struct bpf_sets *s, const char *set) {
        for (size_t i = 0; s && i < bpf_sets_count(s); i++)
                if (streq(bpf_sets_report(s, i)->name, set))
                        return true;
        return false;
}

static void judge(struct bus *b, const char *why) {
        const struct bpf_sets *s = agent_of(b)->bpf->sets;

        agent_of(b)->bpf->run++;
        for (size_t i = 0; s && i < bpf_sets_count(s); i++)
                judge_told(b, bpf_sets_report(s, i));
        for (size_t i = 0; i < ELEMENTSOF(known); i++)
                if (!is_told(s, known[i].name))
                        judge_missing(b, known[i].name, why);
        bus_settle(b, SOURCE_BPF, agent_of(b)->bpf->run);
}

/* --- The loader ---------------------------------------------------------------------------------------- */

static int on_told(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        struct bus *b = userdata;
        int r = bpf_sets_take(agent_of(b)->bpf->sets);

        (void) source;
        (void) fd;
        (void) events;
        if (r == 0)
                return 0;
        agent_of(b)->bpf->source = sd_event_source_disable_unref(agent_of(b)->bpf->source);
        if (r < 0)
                (void) log_warning_errno(r, "what " LOADER " tells is not understood: %m");
        judge(b, LOADER " ended before it was told of: journalctl -u tpu-hostd says why");
        return 0;
}

static int on_absent(sd_event_source *source, void *userdata) {
        struct bus *b = userdata;

        (void) source;
        agent_of(b)->bpf->source = sd_event_source_disable_unref(agent_of(b)->bpf->source);
        judge(b, agent_of(b)->bpf->absent);
        return 0;
}

/* Told from the loop: what takes findings is made after us. */
static int tell_absent(struct bus *b, const char *why) {
        int r;

        agent_of(b)->bpf->absent = why;
        r = sd_event_add_defer(b->event, &agent_of(b)->bpf->source, on_absent, b);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(agent_of(b)->bpf->source, "bpf-absent");
        return 0;
}

int agent_bpf_start(struct bus *b) {
        char path[PATH_MAX];
        int r;

        agent_of(b)->bpf = calloc(1, sizeof(*agent_of(b)->bpf));
        if (!agent_of(b)->bpf)
                return -ENOMEM;
        if (!b->host->real_root)
                return 0; /* a folder has no kernel */
        (void) private_program_find(LOADER, path);
        r = bpf_sets_start(path, &agent_of(b)->bpf->sets);
        if (r == -ENOENT)
                return tell_absent(b, "this build of tpu-hostd has no BPF programs (" LOADER " is not there)");
        if (r == -EXDEV) {
                log_error("CAP_BPF and CAP_PERFMON cannot be given up: the system call filter must let capset() pass; no BPF "
                          "programs are kept");
                return tell_absent(b, "CAP_BPF and CAP_PERFMON cannot be given up: the system call filter must let capset() pass");
        }
        if (r < 0) {
                (void) log_warning_errno(r, "%s cannot be started, no BPF programs are loaded: %m", path);
                return tell_absent(b, LOADER " cannot be started");
        }
        r = sd_event_add_io(b->event, &agent_of(b)->bpf->source, bpf_sets_fd(agent_of(b)->bpf->sets), EPOLLIN, on_told, b);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(agent_of(b)->bpf->source, "bpf-loader");
        return 0;
}

void agent_bpf_stop(struct bus *b) {
        if (!agent_of(b)->bpf)
                return;
        agent_of(b)->bpf->source = sd_event_source_disable_unref(agent_of(b)->bpf->source);
        agent_of(b)->bpf->sets = bpf_sets_free(agent_of(b)->bpf->sets);
        free(agent_of(b)->bpf);
        agent_of(b)->bpf = NULL;
}

struct bpf_sets *agent_bpf_sets(const struct bus *b) {
        return agent_of(b)->bpf && !agent_of(b)->bpf->source ? agent_of(b)->bpf->sets : NULL;
}

const struct net_figures *agent_bpf_figures(const struct bus *b) {
        return bpf_sets_figures(agent_bpf_sets(b), "net", sizeof(struct net_figures));
}
