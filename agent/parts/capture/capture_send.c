/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_send.h"

#include "capture_host.h"
#include "json_text.h"
#include "log.h"
#include "loop_timer.h"
#include "member.h"
#include "progress_part.h"

#define PATH_BYTES  640
#define SECOND_TRY  (1 * USEC_PER_SEC) /* then twice as long each time, up to … */
#define LAST_TRIES  (30 * USEC_PER_SEC)
#define TRIES_MAX   20 /* about 8 minutes: an episode is judged before */

enum sent_state {
        SENT_NOT, /* or not to the collector that leads now */
        SENT_DONE, /* it has it, or does not want it */
};

struct sent {
        struct capture_sent what;
        char suspicion[16]; /* of the run, then: "stall", "work", "pause", "announced"; empty: none */
        enum sent_state state;
        uint64_t term; /* in which it is done */
        uint8_t *data; /* of one that the shelf did not take */
        size_t len;
};

struct capture_send {
        struct bus *bus;
        const char *directory; /* borrowed */
        struct sent sent[SHELF_KEPT]; /* the oldest first */
        size_t n;
        struct sent *posted; /* NULL: nothing is being sent */
        unsigned tries;      /* in vain, since the last answer or news */
        sd_event_source *timer;
        char asked[64]; /* the episode of capture/SLICE */
        bool away;      /* the registry was, when it was looked at last */
        uint64_t term;  /* likewise */
};

static void drop_first(struct capture_send *s) {
        free(s->sent[0].data);
        memmove(&s->sent[0], &s->sent[1], --s->n * sizeof(s->sent[0]));
        if (s->posted)
                s->posted = s->posted == &s->sent[0] ? NULL : s->posted - 1;
}

static const char *suspicion_word(const struct bus *b, const char *run) {
        const struct suspicion *s = progress_suspicion(b, run);

        if (s && (s->counts || s->kind != SUSPICION_PAUSE))
                return suspicion_kind_name(s->kind);
        return progress_pause_announced(b, run) ? "announced" : "";
}

static struct sent *add_sent(struct capture_send *s, const struct capture_sent *c) {
        struct sent *x;

        if (s->n == SHELF_KEPT)
                drop_first(s);
        x = &s->sent[s->n++];
        *x = (struct sent){ .what = *c };
        (void) snprintf(x->suspicion, sizeof(x->suspicion), "%s", suspicion_word(s->bus, c->run));
        return x;
}

/* --- One at a time ------------------------------------------------------------------------------------- */

/* Those of the episode that is asked for go to each collector that leads; the others once. */
static bool is_due(const struct capture_send *s, const struct sent *x, uint64_t term) {
        return x->state == SENT_NOT ||
               (x->term != term && x->what.episode[0] && streq(x->what.episode, s->asked));
}

static struct sent *next_due(struct capture_send *s, uint64_t term) {
        for (size_t i = 0; i < s->n; i++)
                if (is_due(s, &s->sent[i], term))
                        return &s->sent[i];
        return NULL;
}

static void try_again(struct capture_send *s) {
        usec_t span = SECOND_TRY << MIN(s->tries, 5U);

        if (++s->tries > TRIES_MAX)
                return; /* until there is news of the registry */
        (void) loop_timer_in(s->timer, MIN(span, LAST_TRIES)); /* fails only when the loop ends */
}

static void settle_sent(struct sent *x, uint64_t term) {
        x->state = SENT_DONE;
        x->term = term;
        free(TAKE_PTR(x->data));
}

static void send_next(struct capture_send *s);

static void on_posted(int error, unsigned status, uint64_t term, const char *why, void *userdata) {
        struct capture_send *s = userdata;
        struct sent *x = s->posted;
        bool refused = error == 0 && (status == 400 || status == 403 || status == 413);

        s->posted = NULL;
        if (!x) { /* newer ones pushed it out */
                send_next(s);
                return;
        }
        if (error == 0 && (status == 200 || status == 404 || refused)) {
                if (refused)
                        log_warning("the collector does not take the capture of run %s, episode %s: %u: %s",
                                    x->what.run, x->what.episode, status, why);
                settle_sent(x, term);
                s->tries = 0;
                send_next(s);
        } else
                try_again(s);
}

static int post_capture(struct capture_send *s, struct registry *g, struct sent *x) {
        const struct member *who = member_of(s->bus);
        const struct capture_sent *c = &x->what;
        _cleanup_free_ uint8_t *own = NULL;
        const uint8_t *data = x->data;
        size_t len = x->len;
        char path[PATH_BYTES];
        int r = data ? 0 : capture_shelf_read(s->directory, c->file, CAPTURE_POST_MAX, &own, &len);

        if (r < 0)
                return r;
        /* All of it is of letters that a query takes: names of docs/registry.md, and words of ours. */
        (void) snprintf(
                path, sizeof(path),
                "/registry/v1/"
                "capture?episode=%s&round=%u&rounds=%u&slice=%s&worker=%u&host=%s&incarnation=%s&run=%s"
                "&generation=%" PRIu64 "&hosts=%" PRIu64 "&slice_hosts=%" PRIu64
                "&suspicion=%s&taken=%" PRIu64,
                c->episode, c->round, c->rounds, who->slice, who->worker, who->host,
                member_incarnation(s->bus), c->run, c->generation, c->hosts, c->slice_hosts, x->suspicion,
                c->taken);
        return registry_post(g, path, "application/x-protobuf", data ? data : own, len, on_posted,
                             s);
}

static void send_next(struct capture_send *s) {
        struct registry *g = member_collector(s->bus);
        struct sent *x;

        while (g && !s->posted && (x = next_due(s, registry_term(g)))) {
                int r;

                s->posted = x; /* the answer may come from inside */
                r = post_capture(s, g, x);
                if (r >= 0)
                        return;
                s->posted = NULL;
                if (r != -ENOENT && r != -E2BIG && r != -EIO) {
                        try_again(s);
                        return;
                }
                log_warning("the capture of run %s, episode %s, cannot be read any more: %s", x->what.run,
                            x->what.episode, strerror(-r));
                settle_sent(x, registry_term(g));
        }
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source, (void) usec;
        send_next(userdata);
        return 0;
}

/* --- What there is ------------------------------------------------------------------------------------- */

void capture_send_add(struct capture_send *s, const struct capture_sent *c, const void *data,
                            size_t len) {
        struct sent *x = add_sent(s, c);

        if (data) {
                x->data = malloc(len);
                if (x->data)
                        memcpy(x->data, data, len); /* without memory for it, it is lost */
                x->len = len;
        }
        s->tries = 0;
        send_next(s);
}

struct shelf_look {
        struct capture_send *send;
        const json_t *record;
};

static bool on_shelf(const char *name, void *userdata) {
        const struct shelf_look *w = userdata;
        struct capture_send *s = w->send;
        struct capture_sent c = { .rounds = json_number_of(w->record, "second") > 0 ? 2 : 1,
                                  .generation = json_number_of(w->record, "generation"),
                                  .hosts = json_number_of(w->record, "hosts"),
                                  .slice_hosts = json_number_of(w->record, "slice_hosts") };

        if (capture_shelf_parse(name, &c.taken, &c.round, c.episode) < 0 || !streq(c.episode, s->asked))
                return true;
        for (size_t i = 0; i < s->n; i++)
                if (streq(s->sent[i].what.file, name))
                        return true;
        (void) snprintf(c.file, sizeof(c.file), "%s", name);
        (void) snprintf(c.run, sizeof(c.run), "%s", json_text_of(w->record, "run"));
        (void) add_sent(s, &c);
        return true;
}

void capture_send_asked(struct capture_send *s, const json_t *record) {
        struct shelf_look w = { .send = s, .record = record };

        (void) snprintf(s->asked, sizeof(s->asked), "%s", json_text_of(record, "episode"));
        if (s->asked[0])
                (void) capture_shelf_visit(s->directory, on_shelf,
                                           &w); /* what cannot be read is not known */
        s->tries = 0;
        send_next(s);
}

void capture_send_look(struct capture_send *s) {
        struct registry *g = member_collector(s->bus);
        bool was_away = s->away;

        s->away = !g;
        if (!g || (!was_away && s->term == registry_term(g)))
                return;
        s->term = registry_term(g);
        s->tries = 0;
        send_next(s);
}

void capture_send_reset(struct capture_send *s) {
        s->posted = NULL;
        s->away = true;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int capture_send_new(struct bus *b, const char *directory, struct capture_send **ret) {
        struct capture_send *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        s->bus = b;
        s->directory = directory;
        r = loop_timer_new(b->event, CLOCK_BOOTTIME, 100 * USEC_PER_MSEC, "capture-send", on_timer, s,
                           &s->timer);
        if (r < 0) {
                (void) capture_send_free(s);
                return r;
        }
        *ret = s;
        return 0;
}

struct capture_send *capture_send_free(struct capture_send *s) {
        if (!s)
                return NULL;
        while (s->n > 0)
                drop_first(s);
        s->timer = sd_event_source_disable_unref(s->timer);
        free(s);
        return NULL;
}
