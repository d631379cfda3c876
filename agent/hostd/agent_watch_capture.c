/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "agent_watch.h"
#include "log.h"
#include "watch_json.h"

struct watch_round {
        struct bus *bus;
        char run[64];
        bool watching[_WATCH_KIND_MAX];
        struct run_look look; /* when it began */
        sd_event_source *limit;
};

static struct watch_round *end(struct watch_round *w) {
        for (enum watch_kind k = 0; k < _WATCH_KIND_MAX; k++)
                if (w->watching[k])
                        agent_watch_end(w->bus, k);
        agent_of(w->bus)->watch_round = NULL;
        run_look_clear(&w->look);
        sd_event_source_disable_unref(w->limit);
        free(w);
        return NULL;
}

static int on_limit(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        (void) end(userdata);
        return 0;
}

static void begin(struct bus *b, const char *run) {
        struct watch_round *w = calloc(1, sizeof(*w));
        char why[WATCH_WHY_MAX];

        if (!w)
                return;
        w->bus = b;
        (void) snprintf(w->run, sizeof(w->run), "%s", run);
        agent_of(b)->watch_round = w;
        if (host_metrics_look_close(agent_of(b)->host_metrics, run, host_now(b->host), &w->look) < 0) {
                (void) end(w);
                return;
        }
        for (enum watch_kind k = 0; k < _WATCH_KIND_MAX; k++) {
                w->watching[k] = agent_watch_begin(b, k, run, w->look.group, why) >= 0;
                if (!w->watching[k])
                        log_debug("run %s is not watched: %s", run, why);
        }
        if (sd_event_add_time_relative(b->event, &w->limit, CLOCK_BOOTTIME, WATCH_SECONDS_MAX * USEC_PER_SEC, USEC_PER_SEC,
                                               on_limit, w) < 0)
                (void) end(w);
}

static void put(const struct watch_round *w, const char *check, enum verdict verdict, const char *sentence, struct finding_list *list) {
        struct finding f;

        if (sentence[0] == '\0')
                return;
        finding_init(&f, check, w->run);
        f.verdict = verdict;
        finding_set(f.found, "%s", sentence);
        check_say(&f, WORDS_RUN_WAITS, check, w->run);
        (void) finding_list_add(list, &f); /* without it the capture is as good as without a watch */
}

/* Whether that keeps it from getting on. A run that is over stands nowhere. */
static bool look_again(const struct watch_round *w, usec_t now, const struct sched_figures *f, struct run_standing *ret) {
        _cleanup_(run_look_clear) struct run_look after = { .group = 0 };

        if (host_metrics_look_close(agent_of(w->bus)->host_metrics, w->run, now, &after) < 0)
                return false;
        run_look_standing(&w->look, &after, ret);
        return ret->starved + ret->blocked > 0 || (f && watch_is_starved(f, &w->look, &after));
}

void agent_watch_round(struct bus *b, const char *run, uint32_t round, struct finding_list *list) {
        struct watch_round *w = agent_of(b)->watch_round;
        const struct sched_figures *sched = NULL;
        const struct io_figures *io = agent_watch_io(b);
        char text[WATCH_SENTENCE_MAX];
        struct run_standing standing = { .starved = 0 };
        usec_t now = host_now(b->host);
        double seconds;
        bool starved;

        if (round == 0 && !w)
                begin(b, run);
        if (round == 0 || !w || !streq(w->run, run))
                return;
        if (w->watching[WATCH_SCHED])
                sched = agent_watch_sched(b);
        starved = look_again(w, now, sched, &standing);
        seconds = (double) (now - w->look.at) / USEC_PER_SEC;
        watch_sentence_sched(sched, &standing, seconds, text);
        put(w, "sched", starved ? VERDICT_FAIL : VERDICT_WARN, text, list);
        if (w->watching[WATCH_IO] && io)
                put(w, "io", VERDICT_WARN, watch_sentence_io(io, seconds, text), list);
        (void) end(w);
}

void agent_watch_round_stop(struct bus *b) {
        if (agent_of(b)->watch_round)
                (void) end(agent_of(b)->watch_round);
}
