/* SPDX-License-Identifier: Apache-2.0 */
#include "run_spec.h"

#include <signal.h>

#include "device_list.h"
#include "environment.h"
#include "paths.h"
#include "text_list.h"

static const struct {
        const char *name;
        int number;
} signals[] = {
        { "", 0 },         { "none", 0 },       { "TERM", SIGTERM },
        { "INT", SIGINT }, { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 },
};

const char *run_signal_name(int number) {
        for (size_t i = 2; i < ELEMENTSOF(signals); i++)
                if (signals[i].number == number)
                        return signals[i].name;
        return "";
}

static int parse_number(const char **at, unsigned long *ret) {
        char *end;

        if (**at < '0' || **at > '9')
                return -EINVAL;
        errno = 0;
        *ret = strtoul(*at, &end, 10);
        *at = end;
        return errno != 0 || *ret >= SPEC_SETS_MAX ? -ERANGE : 0;
}

int number_set_parse(const char *text, struct number_set *ret) {
        struct number_set s = { .bytes = 0 };

        for (const char *at = text; *at;) {
                unsigned long first, last;
                int r = parse_number(&at, &first);

                last = first;
                if (r == 0 && *at == '-') {
                        at++;
                        r = parse_number(&at, &last);
                }
                if (r < 0)
                        return r;
                if (last < first || (*at != '\0' && *at != ','))
                        return -EINVAL;
                for (unsigned long n = first; n <= last; n++)
                        s.bits[n / 8] |= (uint8_t) (1u << (n % 8));
                s.bytes = MAX(s.bytes, last / 8 + 1);
                if (*at == ',' && *++at == '\0')
                        return -EINVAL;
        }
        *ret = s;
        return 0;
}

void run_spec_init(struct run_spec *s) {
        *s = (struct run_spec){ .memlock = SPEC_UNLIMITED,
                                .nofile = RUN_NOFILE,
                                .memory_max = SPEC_UNLIMITED,
                                .memory_total = SPEC_UNLIMITED,
                                .memory_high = SPEC_UNLIMITED,
                                .grace = SPEC_GRACE_DEFAULT };
}

static int take_label(const char *from, const char *what, char to[static SPEC_LABEL_SIZE],
                      struct problem *p) {
        size_t n = strlen(from);

        for (size_t i = 0; i < n; i++)
                if (from[i] < ' ' || from[i] > '~')
                        return problem_set(p, -EINVAL, "use printable ASCII",
                                           "the %s of the run holds a character that is not printable ASCII",
                                           what);
        if (n >= SPEC_LABEL_SIZE)
                return problem_set(p, -EINVAL, "choose a shorter one",
                                   "the %s of the run is longer than %d bytes", what, SPEC_LABEL_SIZE - 1);
        memcpy(to, from, n + 1);
        return 0;
}

static int take_intent(const Local__RunRequest *q, struct run_spec *s, struct problem *p) {
        int r;

        s->generation = q->generation;
        if (s->generation > INT64_MAX)
                return problem_set(p, -ERANGE, "generations count from 1", "there is no generation %" PRIu64,
                                   s->generation);
        if (s->generation > 0 && !q->name[0])
                return problem_set(p, -EINVAL, "give the run a name", "a run by intent has a name");
        if (s->generation > 0 && q->restarts > 0)
                return problem_set(p, -EINVAL, "leave restarts out: a new generation starts it again",
                                   "a run by intent is not started again by its host");
        r = take_label(q->intent, "intent", s->intent, p);
        if (r == 0)
                r = take_label(q->slice, "slice", s->slice, p);
        return r == 0 ? take_label(q->worker, "worker", s->worker, p) : r;
}

/* A list of CPUs or NUMA nodes. */
static int take_set(const char *text, const char *what, char *to, size_t size, struct problem *p) {
        struct number_set set;

        if (strlen(text) >= size || number_set_parse(text, &set) < 0)
                return problem_set(p, -EINVAL, "as in 0-3,8", "'%.64s' is no list of %s", text, what);
        (void) snprintf(to, size, "%s", text);
        return 0;
}

static int take_limits(const Local__RunLimits *l, struct run_spec *s, struct problem *p) {
        int r;

        if (!l)
                return 0;
        if (l->memlock)
                s->memlock = l->memlock;
        if (l->nofile)
                s->nofile = l->nofile;
        if (l->memory_max)
                s->memory_max = l->memory_max;
        if (l->memory_total)
                s->memory_total = l->memory_total;
        if (l->memory_high)
                s->memory_high = l->memory_high;
        r = take_set(l->cpus, "CPUs", s->cpus, sizeof(s->cpus), p);
        if (r == 0)
                r = take_set(l->numa, "NUMA nodes", s->numa, sizeof(s->numa), p);
        if (r == 0 && l->core[0] && !streq(l->core, "none") && !streq(l->core, "keep"))
                r = problem_set(p, -EINVAL, "none or keep", "there is no policy '%.32s' of core dumps",
                                l->core);
        s->keep_core = streq(l->core, "keep");
        return r;
}

/* A command as one text, as people and intents give it: for the shell. */
static int take_preempt_line(const char *line, struct run_spec *s, struct problem *p) {
        const char *const argv[] = { "/bin/sh", "-c", line };

        if (strlen(line) > 4095 || !environment_text_is_valid(line))
                return problem_set(p, -EINVAL, "put it into a script",
                                   "the command for a preemption is too long, or no UTF-8 text");
        s->preempt_argv = strings_copy(argv, ELEMENTSOF(argv));
        return s->preempt_argv ? 0 : problem_set(p, -ENOMEM, "try again", "out of memory");
}

static int take_preempt(const Local__Preempt *w, struct run_spec *s, struct problem *p) {
        size_t i = 0;

        if (!w)
                return 0;
        if (w->signal[0] == '/' && w->n_argv == 0)
                return take_preempt_line(w->signal, s, p);
        while (i < ELEMENTSOF(signals) && !streq(signals[i].name, w->signal))
                i++;
        if (i == ELEMENTSOF(signals))
                return problem_set(p, -EINVAL,
                                   "TERM, INT, USR1, USR2, none, or a command that begins with /",
                                   "'%.16s' is no signal that tells a run of a preemption", w->signal);
        s->preempt_signal = signals[i].number;
        if (w->n_argv == 0)
                return 0;
        if (w->n_argv > SPEC_PREEMPT_ARGV_MAX || !w->argv[0][0])
                return problem_set(p, -EINVAL, "put it into a script",
                                   "the command for a preemption has no words, or more than %d",
                                   SPEC_PREEMPT_ARGV_MAX);
        for (i = 0; i < w->n_argv; i++)
                if (strlen(w->argv[i]) > 4095 || !environment_text_is_valid(w->argv[i]))
                        return problem_set(
                                p, -EINVAL, "put it into a script",
                                "word %zu of the command for a preemption is too long, or no UTF-8 text", i);
        s->preempt_argv = strings_copy((const char *const *) w->argv, w->n_argv);
        return s->preempt_argv ? 0 : problem_set(p, -ENOMEM, "try again", "out of memory");
}

static int take_devices(const char *text, struct run_spec *s, struct problem *p) {
        char bad[DEVICE_NODE_MAX];
        int r;

        s->any_device = streq(text, "any");
        if (s->any_device || streq(text, "tpu"))
                return 0;
        r = device_list_add(text, &s->devices, bad);
        if (r == -EINVAL)
                return problem_set(p, r, "tpu, any, or nodes as /dev/net/tun,char-nvidia",
                                   "'%.63s' says nothing about devices", bad);
        if (r == -E2BIG)
                return problem_set(p, r, "name less, or any", "more than %d devices", DEVICE_LIST_MAX);
        return r < 0 ? problem_set(p, r, "try again", "out of memory") : 0;
}

int run_spec_from_request(const Local__RunRequest *q, struct run_spec *s, struct problem *p) {
        int r;

        run_spec_init(s);
        r = take_intent(q, s, p);
        if (r == 0)
                r = take_limits(q->limits, s, p);
        if (r == 0)
                r = take_preempt(q->preempt, s, p);
        if (r < 0)
                return r;
        if (q->grace_usec > SPEC_GRACE_MAX)
                return problem_set(p, -ERANGE, "give less", "a grace of more than %u s is not possible",
                                   (unsigned) (SPEC_GRACE_MAX / USEC_PER_SEC));
        if (q->grace_usec > 0)
                s->grace = q->grace_usec;
        if (q->restarts > SPEC_RESTARTS_MAX)
                return problem_set(p, -ERANGE, "give less", "more than %d restarts are not possible",
                                   SPEC_RESTARTS_MAX);
        s->restarts = q->restarts;
        s->share_devices = q->share_devices;
        return take_devices(q->devices, s, p);
}

bool run_spec_limits_slice(const struct run_spec *s) {
        return s->memory_total != SPEC_UNLIMITED || s->memory_high != SPEC_UNLIMITED;
}

void run_spec_clear(struct run_spec *s) {
        s->preempt_argv = strings_free(s->preempt_argv);
        s->devices = strings_free(s->devices);
}
