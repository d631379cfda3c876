/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon.h"
#include "kernel.h"
#include "journal.h"
#include "oneshot.h"
#include "options.h"
#include "paths.h"
#include "runtime.h"

struct arguments {
        struct options options;
        const char *netns;
        bool dry_run, once, restore, parameters, json, check_config, show_config;
};

static bool config_only(const struct arguments *a) {
        return a->check_config || a->show_config;
}

static int parse_arguments(struct arguments *a, int argc, char *argv[]) {
        const struct option_def defs[] = {
                { "dry-run", NULL, "print what would be changed and change nothing", NULL, &a->dry_run },
                { "once", NULL, "apply the profile, verify, print the report and exit", NULL, &a->once },
                { "restore", NULL, "bring back the values from before tpu-netcfg's first write of this boot",
                  NULL, &a->restore },
                { "parameters", NULL,
                  "set the parameters of kernel modules alone, which takes root, and exit: for the unit's "
                  "start",
                  NULL, &a->parameters },
                { "netns", "PATH",
                  "do it once in this network namespace of a container (/run/netns/NAME, /proc/PID/ns/net); "
                  "as root",
                  &a->netns, NULL },
                { "json", NULL, "print the report of a one-shot as JSON", NULL, &a->json },
                { "check-config", NULL, "say what is wrong with the configuration and exit", NULL,
                  &a->check_config },
                { "show-config", NULL, "print what is in force and where it is from", NULL,
                  &a->show_config },
        };
        int r;

        a->options = (struct options) {
                .program = "tpu-netcfg",
                .synopsis = "[--dry-run | --once | --restore] [--netns PATH] [--json] | --parameters | "
                            "--check-config | --show-config",
                .summary = "Sets and keeps the MTU of the data-centre NICs and the sysctls that the profile "
                           "of this TPU generation wants.\n"
                           "Without an option it stays and repairs what drifts. Exit code of a one-shot: 0 "
                           "OK, 1 WARN, 2 FAIL, 3 UNKNOWN.",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
        };
        r = options_parse(&a->options, argc, argv);
        a->options.defs = NULL;
        if (r < 0)
                return r;
        if (r < argc)
                return options_fail("tpu-netcfg", -EINVAL, "no argument is taken, not '%s' either", argv[r]);
        if (a->netns && !(a->dry_run || a->once || a->restore || a->parameters || config_only(a)))
                a->once = true;
        if (a->dry_run + a->once + a->restore + a->parameters + config_only(a) > 1 ||
            ((a->json || a->netns) && !(a->dry_run || a->once || a->restore)))
                return options_fail("tpu-netcfg", -EINVAL,
                                    "one of --dry-run, --once, --restore, --parameters, --check-config and "
                                    "--show-config; --json and --netns go with the first three");
        if (a->options.root && !streq(a->options.root, "/") &&
            (a->netns || !(a->dry_run || config_only(a))))
                return options_fail("tpu-netcfg", -EINVAL,
                                    "--root %s is a recorded machine: only --dry-run looks at one, and it "
                                    "has no network namespaces",
                                    a->options.root);
        return 0;
}

static int report_config(const struct arguments *a) {
        _cleanup_host_ struct host h = HOST_NULL;
        unsigned warnings = 0;
        int r;

        r = host_open(a->options.root, &h);
        if (r < 0)
                return log_error_errno(r, "--root %s: %m", a->options.root ? a->options.root : "/");
        r = intent_report_config(&h, a->options.config, a->show_config ? stdout : NULL, &warnings);
        if (r < 0)
                return log_error_errno(r, "%s: configuration and profile cannot be loaded: %m",
                                       a->options.config ? a->options.config : PATH_SITE);
        return a->check_config && warnings > 0 ? -EINVAL : 0; /* each was named */
}

/* Before anything is touched: with a right missing, say for which setting. */
static int check_rights(struct netcfg *n) {
        const struct plan_op *refused = NULL;
        int r;

        r = pass_run(n, PASS_LOOK, 0);
        if (r < 0)
                return log_error_errno(r, "the host cannot be looked at: %m");
        r = kernel_permits(&n->host, &n->plan, &refused);
        return r < 0 ? pass_log_refused(n, refused, r) : 0;
}

static int set_up_netcfg(struct netcfg *n, const struct arguments *a) {
        int r;

        r = host_open(a->options.root, &n->host);
        if (r < 0)
                return log_error_errno(r, "--root %s: %m", a->options.root ? a->options.root : "/");
        r = intent_load(&n->host, a->options.config, &n->intent);
        if (r == -ENOENT && !a->options.config)
                return log_error_errno(
                        r, "there is no profile %s in " PATH_PROFILES ": install the package again",
                        "generic.conf");
        if (r < 0)
                return log_error_errno(r, "%s: configuration and profile cannot be loaded: %m",
                                       a->options.config ? a->options.config : PATH_SITE);
        if (n->intent.no_tpu && !a->dry_run && !a->parameters) /* the daemon comes next, and says it */
                log_info("%s", n->intent.profile_note);
        if (a->netns) {
                r = netns_enter(&n->host, &n->intent, a->netns, &n->netns);
                if (r < 0)
                        return r; /* logged */
        }
        if (a->dry_run)
                return 0;
        if (!a->restore && !a->parameters && !n->intent.observe && check_rights(n) < 0)
                return -EPERM;
        r = host_boot_id(&n->host, n->boot_id);
        if (r < 0)
                return log_error_errno(r, "/proc/sys/kernel/random/boot_id: %m");
        n->runtime_fd = runtime_open(&n->host, n->netns.runtime);
        if (n->runtime_fd < 0)
                return log_error_errno(n->runtime_fd, "%s: %m; nothing was changed", n->netns.runtime);
        if (!a->netns)
                observe_file_load(&n->host, n->runtime_fd, n->boot_id, &n->observe);
        return 0;
}

int main(int argc, char *argv[]) {
        _cleanup_netcfg_ struct netcfg n = NETCFG_NULL;
        struct arguments a = { 0 };
        int r;

        journal_open("tpu-netcfg");
        r = parse_arguments(&a, argc, argv);
        if (r < 0)
                return options_exit(r);
        if (config_only(&a))
                return report_config(&a) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        if (set_up_netcfg(&n, &a) < 0)
                return a.dry_run ? verdict_exit_code(VERDICT_UNKNOWN) : verdict_exit_code(VERDICT_FAIL);
        if (a.dry_run)
                return oneshot_dry_run(&n, a.json);
        if (a.once)
                return oneshot_once(&n, a.json);
        if (a.restore)
                return oneshot_restore(&n, a.json);
        if (a.parameters)
                return oneshot_parameters(&n);
        return daemon_run(&n) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
