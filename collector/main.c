/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <systemd/sd-daemon.h>

#include "api.h"
#include "control_store.h"
#include "episode_report.h"
#include "journal.h"
#include "loop_timer.h"
#include "receive.h"
#include "remote_write.h"
#include "database.h"
#include "settings.h"
#include "control_port.h"
#include "suspects.h"

#define OTLP_CONNECTIONS 22528 /* two per host of a large site: what it pushes, and the registry's */
#define OTLP_OF_HOST 8 /* the old ones, too, when its addresses have changed */
#define API_CONNECTIONS 256
#define API_OF_CALLER 48 /* of a person or a control plane */
#define HEADER_MAX ((size_t) 8 * 1024) /* and the read buffer of one connection */
#define BODIES_MAX ((size_t) 128 * 1024 * 1024)
#define DISCARD_MAX ((uint64_t) 64 * 1024 * 1024) /* what the OTLP specification lets one send */
#define IDLE_TIME (30 * USEC_PER_SEC) /* between an answer and the next request */
#define BODY_TIME (30 * USEC_PER_SEC)
#define ANSWER_TIME (120 * USEC_PER_SEC) /* until all of it was taken: some are megabytes, for people */
#define TLS_LIFE (3600 * USEC_PER_SEC)
#define TLS_CHECK_AGAIN (60 * USEC_PER_SEC)
#define RESIGN_PATIENCE (3 * USEC_PER_SEC)
#define OTHER_FDS 64 /* database, loop, log, standard streams */

struct collector {
        struct collector_settings settings;
        struct store *store;
        struct counters counters;
        struct damage damage;
        struct group *group;
        struct pace *pace;
        struct first_words *first_words;
        sd_event_source *first_word; /* when one is due */
        struct suspects *suspects;
        struct registry *registry;
        struct episodes *episodes;
        struct retain *retain;
        struct remote_write *remote; /* NULL: nothing is handed on */
        struct receiver receiver;
        struct speakers speakers;
        struct page *page; /* NULL: there is none */
        struct api api;
        sd_event *event;
        struct http_server *otlp_server, *api_server;
        sd_event_source *patience; /* with the leadership's handing over */
        bool stopping;
};

static void collector_clear(struct collector *c) {
        http_server_close(
                c->otlp_server); /* what the handlers use goes first, for it answers those who wait */
        http_server_close(c->api_server);
        c->api.follow = follow_free(c->api.follow);
        c->retain = retain_free(c->retain);
        c->remote = remote_write_free(c->remote);
        c->episodes = episodes_free(c->episodes);
        c->group = group_free(c->group); /* answers: before the server goes */
        c->pace = pace_free(c->pace);
        c->first_words = first_words_free(c->first_words);
        c->first_word = sd_event_source_disable_unref(c->first_word);
        c->registry = control_registry_free(c->registry);
        c->suspects = suspects_free(c->suspects);
        c->otlp_server = http_server_free(c->otlp_server);
        c->api_server = http_server_free(c->api_server);
        c->page = page_free(c->page); /* after the servers: they send out of it */
        c->store = store_free(c->store);
        c->settings.tls = server_certificate_free(c->settings.tls);
        tls_callers_clear(&c->settings.agents);
        tls_callers_clear(&c->settings.people);
        c->settings.slots = slot_from_free(c->settings.slots);
        (void) sd_event_source_disable_unref(c->patience);
        (void) sd_event_unref(c->event);
}

/* What the limit of open files leaves for agents; at least a few. */
static unsigned otlp_connections(void) {
        struct rlimit files = { .rlim_cur = 1024 };

        (void) getrlimit(RLIMIT_NOFILE, &files);
        if (files.rlim_cur >= OTLP_CONNECTIONS + API_CONNECTIONS + OTHER_FDS)
                return OTLP_CONNECTIONS;
        if (files.rlim_cur < 2 * (API_CONNECTIONS + OTHER_FDS))
                return API_CONNECTIONS;
        return (unsigned) files.rlim_cur - API_CONNECTIONS - OTHER_FDS;
}

static int open_server(struct collector *c, const struct tcp_address *a, const char *text,
                       struct http_server_options *o, struct http_server **ret,
                       char ret_where[static TCP_ADDRESS_TEXT_MAX]) {
        int r = tcp_address_listen(a, &o->fd, ret_where);

        if (r < 0)
                return log_error_errno(r, "cannot listen on %s for %s: %m", text, o->name);
        o->header_max = HEADER_MAX;
        o->bodies_max = BODIES_MAX;
        o->discard_max = DISCARD_MAX;
        o->header_time = IDLE_TIME;
        o->body_time = BODY_TIME;
        o->answer_time = ANSWER_TIME;
        o->certificate = c->settings.tls;
        o->rereads = true;
        o->tls12 = c->settings.tls12;
        o->life = TLS_LIFE;
        o->check_again = TLS_CHECK_AGAIN;
        r = http_server_new(c->event, o, ret);
        if (r < 0)
                return log_error_errno(r, "cannot serve %s on %s: %m", o->name, text);
        return 0;
}

/* Without it everything else works: a build may have none. */
static void read_page(struct collector *c) {
        int r = page_new(c->settings.page, &c->page);

        if (r == -ENOENT)
                log_info("no page in %s: / is answered 404, all other calls work", c->settings.page);
        else if (r < 0)
                (void) log_warning_errno(r, "the page in %s cannot be read: %m", c->settings.page);
        c->api.page = c->page;
}

static int start_servers(struct collector *c, char otlp[static TCP_ADDRESS_TEXT_MAX],
                         char api[static TCP_ADDRESS_TEXT_MAX]) {
        struct http_server_options for_agents = {
                .name = "otlp",
                .connections = otlp_connections(),
                .of_caller = c->settings.agents.hosts ? OTLP_OF_HOST : 0, /* else all may share a name */
                .body_max = RECEIVE_BODY_MAX,
                .callers = &c->settings.agents,
                .handle = receive,
                .userdata = &c->receiver,
        };
        struct http_server_options for_people = {
                .name = "api",
                .connections = API_CONNECTIONS,
                .of_caller = API_OF_CALLER,
                .body_max = API_BODY_MAX,
                .callers = &c->settings.people,
                .handle = api_handle,
                .userdata = &c->api,
        };
        int r;

        r = open_server(c, &c->settings.otlp_address, c->settings.otlp, &for_agents, &c->otlp_server, otlp);
        return r < 0 ? r
                     : open_server(c, &c->settings.api_address, c->settings.api, &for_people, &c->api_server,
                                   api);
}

static void on_events(void *userdata) {
        struct collector *c = userdata;

        follow_news(c->api.follow);
}

static void on_captures(void *userdata) {
        struct collector *c = userdata;

        episodes_news(c->episodes);
}

static void on_store_failed(int error, void *userdata) {
        struct collector *c = userdata;

        damage_handle(&c->damage, error);
}

static void judge_first_words(struct collector *c) {
        usec_t now = clock_real(&clock_system), due;
        int r = first_word_port_judge(c->first_words, c->store,
                                      c->registry ? registry_gang(c->registry) : NULL, now);

        if (r > 0)
                follow_news(c->api.follow);
        else if (r < 0 && r != -ENOMEM)
                damage_handle(&c->damage, r);
        due = first_words_due(c->first_words);
        /* It fails only for a source without a loop. */
        (void) loop_timer_in(c->first_word, due == USEC_INFINITY ? due : due - MIN(due, now));
}

static int on_first_word(sd_event_source *source, uint64_t at, void *userdata) {
        (void) source, (void) at;
        judge_first_words(userdata);
        return 0;
}

static const struct first_word *first_word_of(const char *run, uint64_t generation, void *userdata) {
        const struct collector *c = userdata;

        return first_words_of(c->first_words, run, generation);
}

static void on_figures(const char *slice, unsigned worker, const char *host, const json_t *list,
                       void *userdata) {
        const struct pace_source who = { .name = host, .slice = slice, .worker = worker };
        struct collector *c = userdata;
        int r = pace_port_figures(c->pace, c->store, &who, list, clock_real(&clock_system));

        if (r > 0)
                follow_news(c->api.follow);
        else if (r < 0 && r != -ENOMEM)
                damage_handle(&c->damage, r);
        if (first_word_port_figures(c->first_words, &who, list, clock_real(&clock_system)) < 0)
                log_warning("out of memory: what host %s says of its sockets is left out", host);
        judge_first_words(c);
}

/* How runs got on is known of this term alone: windows over two leaders would be of two clocks. */
static void on_leads(bool leads, void *userdata) {
        struct collector *c = userdata;

        if (leads) {
                pace_forget(c->pace);
                first_words_forget(c->first_words);
        } else
                episodes_lost(c->episodes);
}

static void on_published(const char *key, const json_t *value, void *userdata) {
        struct collector *c = userdata;

        if (c->registry) /* else it has just begun */
                episode_port_record(c->episodes, registry_gang(c->registry), key, value);
}

static void on_new_database(void *userdata) {
        struct collector *c = userdata;

        suspects_forget(c->suspects);
        if (c->registry)
                registry_write_all(c->registry);
        if (c->remote)
                remote_write_forget(c->remote);
}

static void on_resigned(void *userdata) {
        struct collector *c = userdata;

        (void) sd_event_exit(c->event, 0);
}

static bool on_slot(const char *slice, unsigned worker, const char *host, char why[static REGISTRY_WHY_MAX],
                    void *userdata) {
        const struct collector *c = userdata;

        return slot_from_gives(c->settings.slots, slice, worker, host, why);
}

static const json_t *on_suspects(void *userdata) {
        const struct collector *c = userdata;

        return suspects_words(c->suspects, c->store, clock_real(&clock_system));
}

static int make_control(struct collector *c, struct control_store **ret) {
        const struct collector_settings *s = &c->settings;
        const struct control_etcd_options o = {
                .event = c->event,
                .clock = &clock_system,
                .lease = s->control.lease,
                .tenant = s->control.tenant,
                .agents_url = s->control.agents_url,
                .people_url = s->control.people_url,
                .access = &s->control.access,
        };
        char why[256];
        int r;

        if (!s->control.etcd)
                return control_sqlite_new(c->store, ret);
        r = control_etcd_new(&o, ret, why);
        if (r < 0)
                log_error("[Control] %s", why);
        return r;
}

static int start_registry(struct collector *c) {
        struct control_registry_options o = {
                .event = c->event,
                .store = c->store,
                .clock = &clock_system,
                .lease = c->settings.control.lease,
                .preflight_pairs = c->settings.control.preflight_pairs,
                .tenant = c->settings.control.tenant,
                .answer = sync_port_answer,
                .leads = on_leads,
                .published = on_published,
                .figures = on_figures,
                .events = on_events,
                .failed = on_store_failed,
                .resigned = on_resigned,
                .gives = c->settings.slots ? on_slot : NULL,
                .suspects = on_suspects,
                .userdata = c,
        };
        int r = suspects_new(&c->suspects);

        if (r < 0 || !c->settings.control.enabled)
                return r;
        r = make_control(c, &o.control);
        return r < 0 ? r : control_registry_new(&o, &c->registry);
}

/* The leadership is given up first, so that another collector need not wait for the lease. */
static int on_stop(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        struct collector *c = userdata;

        (void) si;
        if (c->stopping || !c->registry || registry_resign(c->registry) == 0)
                return sd_event_exit(sd_event_source_get_event(source), 0);
        c->stopping = true;
        (void) sd_notify(0, "STOPPING=1\nSTATUS=Giving the lead to another collector");
        return loop_timer_in(c->patience, RESIGN_PATIENCE) < 0 ? sd_event_exit(c->event, 0) : 0;
}

static int on_patience(sd_event_source *source, uint64_t at, void *userdata) {
        (void) at, (void) userdata;
        return sd_event_exit(sd_event_source_get_event(source), 0);
}

static int on_keep(const char *id, const json_t *record, void *userdata) {
        struct collector *c = userdata;
        char key[80];

        (void) snprintf(key, sizeof(key), "episode/%.63s", id);
        return c->registry ? registry_keep(c->registry, key, record) : 0;
}

static int start_episodes(struct collector *c) {
        const struct episodes_options o = {
                .event = c->event,
                .store = c->store,
                .clock = &clock_system,
                .program = "/proc/self/exe",
                .database = c->settings.database,
                .patience = c->settings.patience,
                .events = on_events,
                .keep = on_keep,
                .first_word = first_word_of,
                .failed = on_store_failed,
                .userdata = c,
        };

        return episodes_new(&o, &c->episodes);
}

static int start_remote(struct collector *c) {
        const struct remote_options o = {
                .event = c->event,
                .store = c->store,
                .clock = &clock_system,
                .to = &c->settings.remote,
                .failed = on_store_failed,
                .userdata = c,
        };
        char why[256];
        int r;

        if (!o.to->url[0] || !c->settings.telemetry.enabled)
                return 0;
        r = remote_write_new(&o, &c->remote, why);
        if (r < 0)
                log_error("[RemoteWrite] Url=: %s", why);
        c->api.remote = c->remote;
        return r;
}

static int start_loop(struct collector *c) {
        sigset_t set;
        int r;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGTERM);
        (void) sigaddset(&set, SIGINT);
        (void) sigaddset(&set, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        (void) signal(SIGPIPE, SIG_IGN);
        r = sd_event_new(&c->event);
        if (r >= 0)
                r = sd_event_set_watchdog(c->event, true);
        if (r >= 0)
                r = sd_event_add_signal(c->event, NULL, SIGTERM, on_stop, c);
        if (r >= 0)
                r = sd_event_add_signal(c->event, NULL, SIGINT, on_stop, c);
        if (r >= 0)
                r = loop_timer_new(c->event, CLOCK_MONOTONIC, 0, "patience", on_patience, c, &c->patience);
        if (r >= 0)
                r = loop_timer_new(c->event, CLOCK_MONOTONIC, 10 * USEC_PER_MSEC, "first-word",
                                   on_first_word, c, &c->first_word);
        return r < 0 ? r : 0;
}

/* From the first request on to the end. */
static int run_servers(struct collector *c) {
        char otlp[TCP_ADDRESS_TEXT_MAX], api[TCP_ADDRESS_TEXT_MAX];
        int r = start_servers(c, otlp, api);

        if (r < 0)
                return r;
        if (c->settings.insecure && !c->settings.tls)
                log_warning("InsecureListen: whoever reaches %s may write, whoever reaches %s may read",
                            otlp, api);
        log_info("receiving OTLP on %s, answering on %s, database %s", otlp, api, c->settings.database);
        (void) sd_notifyf(0, "READY=1\nSTATUS=Receiving OTLP on %s, answering on %s%s", otlp, api,
                          c->settings.trust_all && c->settings.tls
                                  ? "; WARN TrustAllAgents=yes: any agent speaks for any host"
                                  : "");
        r = sd_event_loop(c->event);
        (void) sd_notify(0, "STOPPING=1");
        return r < 0 ? log_error_errno(r, "event loop: %m") : 0;
}

static int run_collector(struct collector *c) {
        char aside[300], why[256];
        int r;

        (void) umask(0027);
        r = store_open(c->settings.database, &c->store, aside, why);
        if (r < 0)
                return log_error_errno(r, "cannot use the database: %s", why);
        if (aside[0])
                damage_report(&c->counters, aside);
        r = start_loop(c);
        c->damage = (struct damage) { .store = c->store, .counters = &c->counters, .event = c->event,
                                     .replaced = on_new_database, .userdata = c };
        c->speakers = (struct speakers){ .proves = c->settings.tls && !c->settings.trust_all,
                                         .store = c->store,
                                         .clock = &clock_system,
                                         .counters = &c->counters };
        c->api = (struct api){ .damage = &c->damage,
                               .store = c->store,
                               .clock = &clock_system,
                               .counters = &c->counters,
                               .user_header = c->settings.proxy_header,
                               .telemetry = c->settings.telemetry.enabled,
                               .elsewhere = c->settings.telemetry.elsewhere };
        if (r >= 0)
                r = group_new(&c->damage, &c->speakers, &clock_system, on_events, on_captures, c, &c->group);
        if (r >= 0)
                r = pace_new(&c->pace);
        if (r >= 0)
                r = first_words_new(&c->first_words);
        if (r >= 0)
                r = follow_new(c->event, &c->api, &c->api.follow);
        if (r >= 0)
                r = start_episodes(c);
        if (r >= 0)
                r = start_remote(c);
        if (r >= 0)
                r = start_registry(c);
        c->api.registry = c->registry;
        read_page(c);
        c->api.first_words = c->first_words;
        c->api.suspects = c->suspects;
        if (r >= 0)
                r = retain_new(&c->damage, &clock_system, &c->settings.retention, &c->retain);
        if (r < 0)
                return log_error_errno(r, "event loop: %m");
        c->receiver = (struct receiver) { .group = c->group,
                                          .registry = c->registry,
                                          .telemetry = c->settings.telemetry.enabled,
                                          .episodes = c->episodes,
                                          .speakers = &c->speakers,
                                          .clock = &clock_system,
                                          .counters = &c->counters };
        return run_servers(c);
}

static int report_episode(const struct collector *c) {
        char why[256] = "";

        if (episode_report(c->settings.database, c->settings.diagnose, stdout, why) == 0)
                return EXIT_SUCCESS;
        log_error("%s", why);
        return EXIT_FAILURE;
}

int main(int argc, char *argv[]) {
        _cleanup_(collector_clear) struct collector c = { 0 };
        int exit_code;

        journal_open("tpu-collectord");
        if (!collector_settings_load(argc, argv, &c.settings, &exit_code))
                return exit_code;
        if (c.settings.diagnose[0])
                return report_episode(&c);
        return run_collector(&c) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
