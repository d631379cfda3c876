/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpu-launchd: starts training runs as transient services, and knows how they ended. Run with --record or
 * --exec it is a small helper inside a run's unit (exit_record.h, handover.h).
 */
#include <signal.h>
#include <systemd/sd-daemon.h>

#include "adopted.h"
#include "api.h"
#include "authority.h"
#include "devices.h"
#include "handover.h"
#include "journal.h"
#include "options.h"
#include "request.h"
#include "runs.h"

#define BUS_WAIT (2 * USEC_PER_SEC) /* at the start */
#define SOCKET_MODE 0666 /* anyone may connect: rights follow from credentials */

struct launchd {
        struct host host;
        sd_event *event;
        struct launch_api *api;
        struct runs *runs;
        struct adoption *adoption;
        struct unit_bus *bus;
        struct frame_server *server;
};

static void launchd_clear(struct launchd *l) {
        l->server = frame_server_free(l->server);
        l->bus = unit_bus_free(l->bus);
        l->adoption = adoption_free(l->adoption);
        l->runs = runs_free(l->runs);
        l->api = api_free(l->api);
        l->event = sd_event_unref(l->event);
        host_close(&l->host);
}

static int watch_signals(sd_event *e) {
        sigset_t mask;
        int r;

        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGTERM);
        (void) sigaddset(&mask, SIGINT);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return -errno;
        /* ends the loop at once: runs are not ours to wait for */
        r = sd_event_add_signal(e, NULL, SIGTERM, NULL, NULL);
        return r < 0 ? r : sd_event_add_signal(e, NULL, SIGINT, NULL, NULL);
}

static int listen_for_callers(struct launchd *l) {
        int fd, r;

        fd = listen_socket(PATH_LAUNCHD_SOCKET, SOCKET_MODE);
        if (fd < 0)
                return log_error_errno(fd, "socket %s cannot be made: %m", PATH_LAUNCHD_SOCKET);
        r = frame_server_new(l->event, fd, &api_frame_handlers, l->api, &l->server);
        return r < 0 ? log_error_errno(r, "socket %s cannot be served: %m", PATH_LAUNCHD_SOCKET) : 0;
}

/* Callers wait in the socket for a moment rather than be refused; not for ever. */
static void wait_for_bus(struct launchd *l) {
        usec_t now = host_now(&l->host), end = now + BUS_WAIT;

        for (; !unit_bus_is_connected(l->bus) && now < end; now = host_now(&l->host))
                if (sd_event_run(l->event, end - now) < 0)
                        return; /* asked to end: the loop says so again */
}

static int attach_units(struct launchd *l) {
        int r = unit_bus_new(l->event, &runs_unit_events, l->runs, &l->bus);

        if (r < 0)
                return r;
        runs_attach(l->runs, &unit_bus_backend, l->bus);
        if (!request_has_systemd(&l->host)) {
                log_notice("no run can be started: systemd is not the first process of this machine");
                return 0;
        }
        unit_bus_connect(l->bus);
        wait_for_bus(l);
        return 0;
}

/* What others started is found by and by. */
static int adopt_runs(struct launchd *l, const char *config) {
        _cleanup_device_settings_ struct device_settings s = { .any_device = false };
        unsigned warnings = 0;
        int r = device_settings_load(&l->host, config, NULL, &s, &warnings);

        if (r < 0)
                (void) log_warning_errno(r,
                                         "the configuration cannot be read, runs of others are adopted: %m");
        return adoption_new(l->runs, &s, &l->adoption);
}

static int launchd_start(struct launchd *l, const char *config) {
        int r;

        r = sd_event_default(&l->event);
        if (r >= 0)
                r = watch_signals(l->event);
        if (r >= 0)
                r = api_new(l->event, &l->host, config, &l->api);
        if (r < 0)
                return log_error_errno(r, "cannot start: %m");
        r = runs_new(l->event, &l->host, PATH_STACK_TOOL, &api_runs_events, l->api, &l->runs);
        if (r < 0)
                return r; /* logged */
        api_attach(l->api, l->runs);
        r = attach_units(l);
        if (r >= 0)
                r = adopt_runs(l, config);
        if (r < 0)
                return log_error_errno(r, "cannot start: %m");
        return listen_for_callers(l);
}

static int serve(const struct options *o) {
        _cleanup_(launchd_clear) struct launchd l = { .host = HOST_NULL };
        int r;

        r = host_open(o->root, &l.host);
        if (r < 0)
                return log_error_errno(r, "--root %s: %m", o->root ? o->root : "/");
        r = launchd_start(&l, o->config);
        if (r < 0)
                return r;
        (void) sd_event_set_watchdog(l.event, true); /* without WATCHDOG_USEC there is none to serve */
        (void) sd_notify(0, "READY=1\nSTATUS=Waiting for requests");
        r = sd_event_loop(l.event);
        (void) sd_notify(0, "STOPPING=1");
        runs_bind(&l.host);
        return r < 0 ? log_error_errno(r, "the event loop failed: %m") : 0;
}

/* The helpers of a run's unit. */
static int help_run(const struct options *o, const char *record, const char *id, const char *exec) {
        _cleanup_host_ struct host h = HOST_NULL;
        int r;

        r = host_open(o->root, &h);
        if (r < 0)
                return log_error_errno(r, "--root %s: %m", o->root ? o->root : "/") < 0;
        if (exec)
                return handover_main(&h, exec);
        return exit_record_main(&h, record, id) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* What it reads: who this host is, for the environment of runs, the authority file, and what runs may open.
 */
static int report_config(const struct options *o, bool show) {
        _cleanup_device_settings_ struct device_settings settings = { .any_device = false };
        _cleanup_host_ struct host h = HOST_NULL;
        struct grants grants;
        unsigned warnings = 0;
        int r;

        r = host_open(o->root, &h);
        if (r < 0)
                return log_error_errno(r, "--root %s: %m", o->root ? o->root : "/");
        r = identity_report_config(&h, o->config, show ? stdout : NULL, &warnings);
        if (r >= 0)
                r = grants_load(&h, o->config, show ? stdout : NULL, &grants, &warnings);
        if (r >= 0)
                r = device_settings_load(&h, o->config, show ? stdout : NULL, &settings, &warnings);
        if (r < 0)
                return log_error_errno(r, "the configuration %s cannot be read: %m",
                                       o->config ? o->config : "identity, authority or launchd");
        return !show && warnings > 0 ? -EINVAL : 0; /* each was named */
}

/* What is wrong with the options together, or NULL. */
static const char *misused(bool words, bool exec, const char *record, const char *id, bool config_only) {
        if (words)
                return "no arguments are taken";
        if (!record != !id || exec + !!record + config_only > 1)
                return "one of --record with --id, --exec, --check-config and --show-config";
        return NULL;
}

int main(int argc, char *argv[]) {
        const char *record = NULL, *id = NULL, *exec = NULL, *wrong;
        bool check = false, show = false;
        const struct option_def defs[] = {
                { "record", "NAME", "record how run NAME ended (ExecStopPost= of its unit)", &record, NULL },
                { "id", "ID", "with --record: which run of that name", &id, NULL },
                { "exec", "NAME", "become the command of run NAME (ExecStart= of its unit)", &exec, NULL },
                { "check-config", NULL, "say what is wrong with the configuration and exit", NULL, &check },
                { "show-config", NULL, "print what is in force and where it is from", NULL, &show },
        };
        struct options o = {
                .program = "tpu-launchd",
                .synopsis = "[OPTION…] | --record NAME --id ID | --exec NAME | "
                            "--check-config | --show-config",
                .summary = "Starts training runs as services of their own and remembers how they ended.",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
        };
        int i;

        journal_open("tpu-launchd");
        i = options_parse(&o, argc, argv);
        if (i < 0)
                return options_exit(i);
        wrong = misused(i < argc, exec, record, id, check || show);
        if (wrong)
                return options_fail("tpu-launchd", EXIT_USAGE, "%s\nTry 'tpu-launchd --help'.", wrong);
        if (check || show)
                return report_config(&o, show) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        if (record || exec)
                return help_run(&o, record, id, exec);
        return serve(&o) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
