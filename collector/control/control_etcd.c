/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>
#include <unistd.h>

#include "client.h"
#include "control_store.h"
#include "json_text.h"
#include "keep.h"
#include "log.h"
#include "loop_timer.h"
#include "texts.h"

#define TRY_LEAST (500 * USEC_PER_MSEC)
#define TRY_MOST (1500 * USEC_PER_MSEC)
#define PATIENCE (10 * USEC_PER_SEC) /* with what is read and written: then all is tried again */

struct control_etcd {
        struct control_store base; /* the first member */
        struct control_etcd_options o;
        struct etcd_client *client;
        struct election election;
        struct keep keep;
        sd_event_source *timer;
        char prefix[80], key[100];
        json_t *value; /* of the leader's key */
        bool loaded; /* the registry knows that it leads */
};

static void step_election(struct control_etcd *c) {
        int r = loop_timer_at(c->timer, election_step(&c->election));

        if (r < 0)
                (void) log_warning_errno(r, "etcd: timer: %m");
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        (void) source, (void) at;
        step_election(userdata);
        return 0;
}

static void on_turned(void *userdata) {
        step_election(userdata);
}

/* --- Who leads ------------------------------------------------------------------------------------- */

static void forget_leader(struct control_etcd *c) {
        c->base.agents_url[0] = c->base.people_url[0] = '\0';
}

static void on_won(uint64_t term, const char *cluster, void *userdata) {
        struct control_etcd *c = userdata;

        if (!*cluster || strspn(cluster, "0123456789") != strlen(cluster) || term > INT64_MAX) {
                election_depose(&c->election, "etcd's answer cannot be understood");
                return;
        }
        forget_leader(c);
        c->base.term = term;
        (void) snprintf(c->base.id, sizeof(c->base.id), "%s", cluster);
        keep_load(&c->keep, term);
}

static void on_lost(const char *why, void *userdata) {
        struct control_etcd *c = userdata;
        bool loaded = c->loaded;

        keep_clear(&c->keep);
        c->loaded = false;
        if (loaded)
                c->base.events->lost(why, c->base.userdata);
        else
                log_warning("registry: this collector did not come to lead (term %" PRIu64 "): %s",
                            c->base.term, why);
}

static void on_news(void *userdata) {
        struct control_etcd *c = userdata;

        election_look(&c->election); /* from the timer: not from inside of the stream */
        if (!c->election.busy)
                (void) loop_timer_at(c->timer, 0); /* fails only when the loop ends */
}

/* It becomes a header: what is no URL by its letters is none. */
static void take_url(char ret[static CONTROL_URL_MAX], const json_t *value, const char *key) {
        const char *text = json_text_of(value, key);
        bool good = strlen(text) < CONTROL_URL_MAX;

        for (const char *p = text; *p; p++)
                good = good && *p > ' ' && *p < 127;
        (void) snprintf(ret, CONTROL_URL_MAX, "%s", good ? text : "");
}

static void on_other(const json_t *value, int64_t revision, void *userdata) {
        struct control_etcd *c = userdata;

        take_url(c->base.agents_url, value, "agents");
        take_url(c->base.people_url, value, "people");
        /* of this collector's life before: its lease has not ended yet */
        if (streq(c->base.agents_url, c->o.agents_url))
                forget_leader(c);
        if (value && revision > 0)
                /* or it is in progress; when it has ended the next look starts it again */
                (void) etcd_client_watch(c->client, c->key, revision + 1, on_news, c);
}

static void on_resigned(void *userdata) {
        struct control_etcd *c = userdata;

        c->base.events->resigned(c->base.userdata);
}

/* --- Records --------------------------------------------------------------------------------------- */

static void on_loaded(int error, const json_t *records, const char *why, void *userdata) {
        struct control_etcd *c = userdata;

        if (error == 0 && election_leads(&c->election)) {
                c->loaded = true;
                error = c->base.events->led(records, c->base.userdata);
                if (error == 0)
                        return;
                why = strerror(-error);
                c->loaded = false;
        }
        election_depose(&c->election, error < 0 ? why : "reading the records took too long");
}

static void on_wrote(int error, const char *why, void *userdata) {
        struct control_etcd *c = userdata;

        (void) snprintf(c->base.why, sizeof(c->base.why), "%s", why);
        c->base.events->wrote(error, c->base.userdata);
}

static void on_deposed(const char *why, void *userdata) {
        election_depose(&((struct control_etcd *) userdata)->election, why);
}

/* --- control_ops ----------------------------------------------------------------------------------- */

static int etcd_start(struct control_store *s) {
        step_election((struct control_etcd *) s);
        return 0;
}

static bool etcd_leads(const struct control_store *s) {
        const struct control_etcd *c = (const struct control_etcd *) s;

        return c->loaded && election_leads(&c->election);
}

static int write_batch(struct control_store *s, const json_t *batch) {
        int r = keep_write(&((struct control_etcd *) s)->keep, batch);

        if (r >= 0)
                return 1;
        return text_fail(s->why, sizeof(s->why), r, "etcd: %s",
                         r == -EMSGSIZE ? "a record is larger than one value may be" : strerror(-r));
}

static int etcd_resign(struct control_store *s) {
        struct control_etcd *c = (struct control_etcd *) s;

        election_resign(&c->election);
        step_election(c);
        return 1;
}

static struct control_store *etcd_free(struct control_store *s) {
        struct control_etcd *c = (struct control_etcd *) s;

        if (c->client)
                keep_clear(&c->keep);
        c->client = etcd_client_free(c->client);
        c->timer = sd_event_source_disable_unref(c->timer);
        json_decref(c->value);
        free(c);
        return NULL;
}

static const struct control_ops ops = {
        .start = etcd_start,
        .leads = etcd_leads,
        .write = write_batch,
        .resign = etcd_resign,
        .free = etcd_free,
};

/* --- Life ------------------------------------------------------------------------------------------ */

static int make_value(struct control_etcd *c) {
        char host[64] = "?", incarnation[17];
        uint64_t random;

        (void) gethostname(host, sizeof(host) - 1);
        if (getrandom(&random, sizeof(random), 0) != (ssize_t) sizeof(random))
                return -errno;
        (void) snprintf(incarnation, sizeof(incarnation), "%016" PRIx64, random);
        c->value = json_pack("{s:i, s:s, s:s, s:s, s:s}", "v", 1, "host", host, "incarnation", incarnation,
                             "agents", c->o.agents_url, "people", c->o.people_url);
        return c->value ? 0 : -EINVAL; /* no UTF-8 */
}

static int prepare_parts(struct control_etcd *c, char why[static 256]) {
        const struct etcd_client_options client = {
                .event = c->o.event,
                .access = c->o.access,
                .user_agent = "tpu-collectord/" TPU_HOSTD_VERSION,
                .try_first = MAX(MIN(c->o.lease / 4, TRY_MOST), TRY_LEAST),
                .turned = on_turned,
                .userdata = c,
        };
        struct election_options election = {
                .clock = c->o.clock,
                .lease = c->o.lease,
                .key = c->key,
                .won = on_won,
                .lost = on_lost,
                .other = on_other,
                .resigned = on_resigned,
                .userdata = c,
        };
        struct keep_options keep = {
                .election = &c->election,
                .prefix = c->prefix,
                .patience = PATIENCE,
                .loaded = on_loaded,
                .wrote = on_wrote,
                .deposed = on_deposed,
                .userdata = c,
        };
        int r;

        (void) snprintf(c->prefix, sizeof(c->prefix), "/tpu/%.64s/", c->o.tenant);
        (void) snprintf(c->key, sizeof(c->key), "%sctl/leader", c->prefix);
        r = make_value(c);
        if (r >= 0)
                r = etcd_client_new(&client, &c->client, why);
        if (r < 0)
                return r;
        election.value = c->value;
        election.port = keep.port = etcd_client_port(c->client);
        election_init(&c->election, &election);
        keep_init(&c->keep, &keep);
        return loop_timer_new(c->o.event, CLOCK_BOOTTIME, USEC_PER_MSEC, "etcd", on_timer, c, &c->timer);
}

int control_etcd_new(const struct control_etcd_options *o, struct control_store **ret,
                     char why[static 256]) {
        struct control_etcd *c = calloc(1, sizeof(*c));
        int r;

        (void) snprintf(why, 256, "out of memory");
        if (!c)
                return -ENOMEM;
        *c = (struct control_etcd){ .base.ops = &ops, .o = *o };
        r = prepare_parts(c, why);
        if (r < 0) {
                etcd_free(&c->base);
                return r;
        }
        *ret = &c->base;
        return 0;
}
