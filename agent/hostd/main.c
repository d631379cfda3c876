/* SPDX-License-Identifier: Apache-2.0 */
/* tpu-hostd: the host's agent. Options, configuration, signals; everything else is the agent's. */
#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "agent.h"
#include "generalize.h"
#include "journal.h"
#include "options.h"

struct command_line {
        bool check_config, show_config, generalize;
};

static int on_exit_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        (void) source;
        (void) sd_notify(false, "STOPPING=1\nSTATUS=stopping");
        log_info("signal %u from pid %u: stopping", si->ssi_signo, si->ssi_pid);
        agent_stop(userdata);
        return 0;
}

static int on_reload_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        (void) source;
        (void) si;
        (void) sd_notify(false, "RELOADING=1");
        agent_reload(userdata);
        (void) sd_notify(false, "READY=1");
        return 0;
}

static int watch_signal(sd_event *e, int signal, sd_event_signal_handler_t handler, void *userdata,
                        const char *name) {
        _cleanup_(sd_event_source_unrefp) sd_event_source *source = NULL;
        int r = sd_event_add_signal(e, &source, signal, handler, userdata);

        if (r < 0)
                return r;
        (void) sd_event_source_set_description(source, name);
        return sd_event_source_set_floating(source, true);
}

/* Before any thread starts, so that none of them takes a signal. */
static int block_signals(void) {
        sigset_t set;

        if (sigemptyset(&set) < 0 || sigaddset(&set, SIGTERM) < 0 || sigaddset(&set, SIGINT) < 0 ||
            sigaddset(&set, SIGHUP) < 0 || sigaddset(&set, SIGCHLD) < 0 ||
            sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        return signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -errno : 0;
}

/*
 * What is large (what a push is made of, a segment of the spool that is read, an answer) is mapped, and goes
 * back to the kernel when it is freed; of tables that are large for the worst host, only what is used
 * becomes memory. Left alone, glibc moves the limit of "large" up to the largest block it has seen freed,
 * and keeps up to twice that: 4 MiB after every restart. The end of the heap that libraries left behind
 * before main() is given back, because malloc would take it for large blocks, too. The sync thread allocates
 * nothing worth an arena of its own.
 */
static void keep_memory_small(void) {
#ifdef M_MMAP_THRESHOLD /* glibc */
        /* above the 32 KiB of opendir(3) and of a netlink dump */
        (void) mallopt(M_MMAP_THRESHOLD, 40 * 1024);
        (void) mallopt(M_TRIM_THRESHOLD, 64 * 1024);
        (void) mallopt(M_TOP_PAD, 8 * 1024);
        (void) malloc_trim(0);
        (void) mallopt(M_ARENA_MAX, 1);
#endif
}

static int run(const struct host *h, const char *config_file, const struct settings *settings) {
        _cleanup_(sd_event_unrefp) sd_event *e = NULL;
        _cleanup_(agent_freep) struct agent *a = NULL;
        int r;

        r = block_signals();
        if (r >= 0)
                r = sd_event_default(&e);
        if (r >= 0)
                r = sd_event_set_watchdog(e, true);
        if (r < 0)
                return log_error_errno(r, "the event loop cannot be set up: %m");
        r = agent_new(e, h, config_file, settings, &a);
        if (r < 0)
                return r; /* it has said why */
        r = watch_signal(e, SIGTERM, on_exit_signal, a, "SIGTERM");
        if (r >= 0)
                r = watch_signal(e, SIGINT, on_exit_signal, a, "SIGINT");
        if (r >= 0)
                r = watch_signal(e, SIGHUP, on_reload_signal, a, "SIGHUP");
        if (r < 0)
                return log_error_errno(r, "signals cannot be watched: %m");
        (void) sd_notify(false, "READY=1");
        r = sd_event_loop(e);
        return r < 0 ? log_error_errno(r, "the event loop failed: %m") : r;
}

/* With the configuration read: 0, or what --check-config found wrong. */
static int act(const struct command_line *args, const struct host *h, const char *config_file) {
        struct settings_source source = { 0 };
        struct settings settings = { 0 };
        int r;

        r = settings_load(&settings, &source, h, config_file);
        if (r < 0)
                (void) log_error_errno(r, "the configuration %s cannot be read: %m",
                                       config_file ? config_file : "");
        else if (args->show_config)
                r = config_show(&source.config, stdout);
        else if (args->check_config)
                r = source.config.warnings > 0 ? -EINVAL : 0; /* each was named */
        config_clear(&source.config);
        if (r < 0 || args->show_config || args->check_config)
                return r;
        return args->generalize ? generalize(h, &settings) : run(h, config_file, &settings);
}

int main(int argc, char *argv[]) {
        struct command_line args = { 0 };
        const struct option_def defs[] = {
                { .name = "check-config",
                  .help = "say what is wrong with the configuration and exit",
                  .flag = &args.check_config },
                { .name = "show-config",
                  .help = "print what is in force and where it is from",
                  .flag = &args.show_config },
                { .name = "generalize",
                  .help = "make an image: stop the daemons and remove what belongs to this one machine",
                  .flag = &args.generalize },
        };
        struct options o = {
                .program = "tpu-hostd",
                .synopsis = "[OPTIONS]",
                .summary = "Watches this TPU host: health, runs, metrics and events.",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
        };
        _cleanup_host_ struct host h = HOST_NULL;
        int r;

        keep_memory_small();
        journal_open("tpu-hostd");
        r = options_parse(&o, argc, argv);
        if (r < 0)
                return options_exit(r);
        if (r < argc) {
                (void) fprintf(stderr, "tpu-hostd: '%s' is not understood: it takes options only (--help)\n",
                               argv[r]);
                return EXIT_USAGE;
        }
        (void) umask(077);
        r = host_open(o.root, &h);
        if (r < 0) {
                (void) log_error_errno(r, "--root %s cannot be opened: %m", o.root ? o.root : "/");
                return EXIT_FAILURE;
        }
        return act(&args, &h, o.config) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
