/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "intent.h"
#include "log.h"
#include "machine.h"
#include "network.h"
#include "paths.h"
#include "profile.h"
#include "texts.h"

#define GENERIC "generic"

#define RTO_SYSCTL_NAME "net.ipv4.tcp_rto_min_us" /* from kernel 6.11 on */

enum rto_by {
        RTO_AUTO,
        RTO_SYSCTL,
        RTO_ROUTES,
};

enum source_routing {
        SOURCE_ROUTING_PROFILE,
        SOURCE_ROUTING_NO,
        SOURCE_ROUTING_YES,
};

struct choice {
        enum rto_by rto_by;   /* RtoMin= */
        enum source_routing source_routing; /* SourceRouting= … */
        char source_routing_where[128]; /* … and where that is */
        char profile[32];     /* Profile= */
        char accelerator[64]; /* AcceleratorType= */
};

/* --- Configuration ------------------------------------------------------------------------------------ */

static int parse_profile_name(const char *value, void *dest, char why[static 96]) {
        size_t n = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-");

        if (n == 0 || value[n] || n >= sizeof(((struct choice *) NULL)->profile))
                return text_fail(why, 96, -EINVAL,
                                 "not the name of a profile (a-z, 0-9 and -, 31 characters at most)");
        memcpy(dest, value, n + 1);
        return 0;
}

/* What the caller wants to know of the configuration itself. */
struct config_report {
        FILE *out; /* NULL: nothing is shown */
        unsigned warnings;
};

static int report_config(struct config_report *report, const struct config *c, const char *before) {
        report->warnings += c->warnings;
        if (!report->out)
                return 0;
        fputs(before, report->out);
        return config_show(c, report->out);
}

static const char *const
        modes[] = { "repair", "observe", NULL },
        *const rto_by[] = { [RTO_AUTO] = "auto", [RTO_SYSCTL] = "sysctl", [RTO_ROUTES] = "routes", NULL },
        *const source_routing[] = { [SOURCE_ROUTING_PROFILE] = "profile",
                                    [SOURCE_ROUTING_NO] = "no",
                                    [SOURCE_ROUTING_YES] = "yes",
                                    NULL };

static int load_netcfg(const struct host *h, const char *file, struct choice *c, struct intent *i,
                       struct config_report *report) {
        const struct config_item items[] = {
                CONFIG_ITEM("Netcfg", "Profile", parse_profile_name, c->profile, NULL),
                CONFIG_WORD("Netcfg", "Mode", config_parse_bool, &i->observe, "repair", modes),
                CONFIG_WORD("Netcfg", "RtoMin", NULL, &c->rto_by, "auto", rto_by),
                CONFIG_WORD("Netcfg", "SourceRouting", NULL, &c->source_routing, "profile", source_routing),
                CONFIG_ITEM("Netcfg", "Nics", config_parse_string255, i->nics, NULL),
                CONFIG_ITEM("Netcfg", "IgnoreNics", config_parse_string255, i->ignore_nics, NULL),
                CONFIG_ITEM("Netcfg", "IgnoreSettings", config_parse_string255, i->ignore_settings, NULL),
        };
        struct config config = { .items = items, .n_items = ELEMENTSOF(items) };
        int r = config_load(&config, h, "netcfg", file);

        for (size_t k = 0; r == 0 && k < ELEMENTSOF(items); k++)
                if (items[k].dest == &c->source_routing)
                        finding_set(c->source_routing_where, "%s", config.origins[k].where);
                else if (items[k].dest == i->nics)
                        finding_set(i->nics_where, "%s", config.origins[k].where);
        if (r == 0)
                r = report_config(report, &config, "");
        config_clear(&config);
        return r;
}

static int load_network(const struct host *h, const char *file, struct choice *c, struct intent *i,
                        struct config_report *report) {
        const struct config_item items[] = {
                CONFIG_WITHIN("Network", "Mtu", config_parse_u32, &i->network_mtu, NULL, INTENT_MTU_MIN,
                              INTENT_MTU_MAX),
                CONFIG_ITEM("Identity", "AcceleratorType", config_parse_string63, c->accelerator, NULL),
        };
        struct config config = { .items = items,
                                 .n_items = ELEMENTSOF(items),
                                 /* the identity room's, which checks its keys; one is read here, too */
                                 .shared = "Identity" };
        int r = config_load(&config, h, "identity", file);

        if (r == 0 && i->network_mtu > 0)
                (void) snprintf(i->network_mtu_source, sizeof(i->network_mtu_source), "%.*s",
                                (int) sizeof(i->network_mtu_source) - 1, config.origins[0].where);
        if (r == 0)
                r = report_config(report, &config, "\n");
        config_clear(&config);
        return r;
}

/* --- The profile -------------------------------------------------------------------------------------- */

static int read_profile(const struct host *h, const char *name, struct intent *i) {
        _cleanup_free_ char *text = malloc(CONFIG_FILE_MAX);
        char file[64], path[128];
        size_t len;
        int r;

        if (!text)
                return -ENOMEM;
        (void) snprintf(file, sizeof(file), "profiles/%s.conf", name);
        r = profile_read(h, file, path, text, &len);
        if (r < 0)
                return r == -ENOENT ? r : log_warning_errno(r, "%s cannot be read: %m", path);
        (void) snprintf(i->profile, sizeof(i->profile), "%s", name);
        r = profile_parse(path, text, len, i);
        return r < 0 ? r : 0;
}

/* "v6e-16" → "v6e". -EINVAL when that can be no profile's name. */
static int generation_of(const char *accelerator, char ret[static 32]) {
        /* Cloud TPU's name of v5e; Ray's, torch_xla's and JAX's of TPU7x. */
        static const char *const other_names[][2] = { { "v5litepod", "v5e" }, { "v7x", "tpu7x" } };
        char name[64], why[96];

        (void) snprintf(name, sizeof(name), "%s", accelerator);
        name[strcspn(name, "-")] = '\0';
        for (size_t k = 0; k < ELEMENTSOF(other_names); k++)
                if (streq(name, other_names[k][0]))
                        (void) snprintf(name, sizeof(name), "%s", other_names[k][1]);
        return parse_profile_name(name, ret, why);
}

/* Nobody said it: the chips themselves do, before any network is up; without any, nothing is to be done. */
static int pick_by_chips(const struct host *h, struct intent *i) {
        char generation[MACHINE_GENERATION_MAX];
        int r = machine_generation(h, generation);

        if (r == 0)
                r = read_profile(h, generation, i);
        if (r == 0 || errno_is_shortage(r))
                return r;
        if (machine_may_have_tpu(h) == 0) {
                i->no_tpu = true;
                (void) snprintf(i->profile, sizeof(i->profile), "none");
                finding_set(i->profile_note,
                            "no TPU is in /sys/bus/pci, and the site names no profile: nothing is set here");
                return 0;
        }
        finding_set(i->profile_note,
                    "the accelerator type is not known, and no TPU chips of one known generation are "
                    "in /sys/bus/pci");
        return r;
}

/*
 * Where this kernel has the sysctl, it stands for all routes: one setting, which no DHCP client loses, IPv6
 * alike.
 */
static int choose_rto(const struct host *h, enum rto_by by, struct intent *i) {
        struct intent_sysctl s = { .name = RTO_SYSCTL_NAME };
        char value[32];
        int r = 0;

        if (i->rto_min == 0 || by == RTO_ROUTES || i->n_sysctls == INTENT_SYSCTLS_MAX)
                return 0;
        if (by == RTO_AUTO)
                r = intent_read_sysctl(h, RTO_SYSCTL_NAME, value, sizeof(value));
        if (r < 0)
                return errno_is_shortage(r) ? r : 0;
        (void) snprintf(s.value, sizeof(s.value), "%" PRIu64, i->rto_min);
        memcpy(s.source, i->rto_min_source, sizeof(s.source));
        i->sysctls[i->n_sysctls++] = s;
        i->rto_min = 0;
        return 0;
}

static int pick_profile(const struct host *h, const struct choice *c, struct intent *i) {
        char generation[32];
        int r;

        if (c->profile[0]) {
                r = read_profile(h, c->profile, i);
                if (r == 0 || errno_is_shortage(r))
                        return r;
                finding_set(i->profile_note, "Profile=%s cannot be used (%s)", c->profile, strerror(-r));
        } else if (!c->accelerator[0]) {
                r = pick_by_chips(h, i);
                if (r == 0 || errno_is_shortage(r))
                        return r;
        } else if (generation_of(c->accelerator, generation) < 0)
                finding_set(i->profile_note, "'%s' is no accelerator type like v6e-16", c->accelerator);
        else {
                r = read_profile(h, generation, i);
                if (r == 0 || errno_is_shortage(r))
                        return r;
                finding_set(i->profile_note, "there is no profile for %s (%s)", c->accelerator,
                            strerror(-r));
        }
        return read_profile(h, GENERIC, i);
}

static int load_settings(const struct host *h, const char *config_file, struct config_report *report,
                struct intent *ret) {
        struct choice choice = { 0 };
        struct intent i = { 0 };
        int r;

        r = load_netcfg(h, config_file, &choice, &i, report);
        if (r < 0)
                return r;
        r = load_network(h, config_file, &choice, &i, report);
        if (r < 0)
                return r;
        r = intent_networks_load(h, &i);
        if (r == 0)
                r = pick_profile(h, &choice, &i);
        if (r == 0)
                r = choose_rto(h, choice.rto_by, &i);
        if (r < 0)
                return r;
        intent_drop_ignored(&i);
        if (choice.source_routing != SOURCE_ROUTING_PROFILE && !i.no_tpu) {
                i.source_routing = choice.source_routing == SOURCE_ROUTING_YES;
                finding_set(i.source_routing_source, "%s", choice.source_routing_where);
        }
        *ret = i;
        return 0;
}

int intent_load(const struct host *h, const char *config_file, struct intent *ret) {
        struct config_report report = { 0 };

        return load_settings(h, config_file, &report, ret);
}

int intent_report_config(const struct host *h, const char *config_file, FILE *out, unsigned *ret_warnings) {
        struct config_report report = { .out = out };
        struct intent i;
        int r;

        r = load_settings(h, config_file, &report, &i);
        if (r < 0)
                return r;
        if (i.profile_note[0] && !i.no_tpu) {
                log_warning("%s; the generic profile stands in", i.profile_note);
                report.warnings++;
        }
        *ret_warnings = report.warnings;
        return 0;
}
