/* SPDX-License-Identifier: Apache-2.0 */
/* tpu-hostd: the host's agent. Options and configuration; everything else is the agent's. */
#include <malloc.h>
#include <sys/stat.h>

#include "hostd.h"
#include "journal.h"
#include "options.h"

struct command_line {
        bool check_config, show_config, generalize;
};

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
        return args->generalize ? generalize(h, &settings) : agent_run(h, config_file, &settings);
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
        if (r < argc)
                return options_fail("tpu-hostd", EXIT_USAGE,
                                    "'%s' is not understood: it takes options only (--help)", argv[r]);
        (void) umask(077);
        r = host_open(o.root, &h);
        if (r < 0) {
                (void) log_error_errno(r, "--root %s cannot be opened: %m", o.root ? o.root : "/");
                return EXIT_FAILURE;
        }
        return act(&args, &h, o.config) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
