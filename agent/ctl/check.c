/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl check: every probe, here and now, without any daemon and without root. */
#include "check_path.h"
#include "ctl.h"
#include "identity.h"
#include "intent.h"
#include "probe.h"
#include "report.h"
#include "words.h"

struct collected {
        struct sink sink;
        struct finding_list list;
        const char *only; /* "nic.mtu": findings of this check; NULL: all */
        bool incomplete;  /* more findings than fit */
};

static void take_finding(struct sink *s, const struct finding *f) {
        struct collected *c = (struct collected *) s;

        /* A probe that could not look at all answers by its own name: that must not vanish behind the
         * filter. */
        if (c->only && !streq(f->check, c->only) && strchr(f->check, '.'))
                return;
        c->incomplete |= finding_list_add(&c->list, f) < 0;
}

static void drop_sample(struct sink *s, const struct sample *m) {
        (void) s;
        (void) m;
}

#define IDENTITY_CHECK "identity" /* who this host is: no probe, but a check like the others */

/* "nic" or "nic.mtu" → the probe; NULL stands for all, and for none with the name of the identity's checks. */
static int select_probe(const char *name, const struct probe **ret_probe, const char **ret_only) {
        char probe[32];

        *ret_probe = NULL;
        *ret_only = NULL;
        if (!name)
                return 0;
        (void) snprintf(probe, sizeof(probe), "%.*s", (int) strcspn(name, "."), name);
        *ret_probe = probe_find(probe);
        *ret_only = strchr(name, '.') ? name : NULL;
        if (*ret_probe || streq(probe, IDENTITY_CHECK))
                return 0;
        fprintf(stderr, "tpuctl check: there is no check '%s'. There are:\n", name);
        for (size_t i = 0; probe_table[i]; i++)
                fprintf(stderr, "  %-8s %s\n", probe_table[i]->name, probe_table[i]->summary);
        fprintf(stderr, "  %-8s %s\n", IDENTITY_CHECK, "slice, worker and chips: what does not fit together");
        fprintf(stderr, "  %-8s %s\n", "path", "packets of full size to every peer (only when asked for by name)");
        return -EINVAL;
}

static void run_probes(const struct host *h, const struct probe *one, const struct probe_context *context,
                       struct collected *c) {
        for (size_t i = 0; probe_table[i]; i++)
                if (!one || one == probe_table[i])
                        (void) probe_run(probe_table[i], h, context, &c->sink); /* a failure is a finding */
}

static void check_identity(const struct identity *i, struct collected *c) {
        _cleanup_finding_list_ struct finding_list findings = FINDING_LIST_NULL;

        c->incomplete |= identity_check(i, &findings) < 0;
        for (size_t k = 0; k < findings.n; k++)
                take_finding(&c->sink, &findings.items[k]);
}

static void print_sums(const struct finding_list *l) {
        size_t n[_VERDICT_MAX] = { 0 };

        for (size_t i = 0; i < l->n; i++)
                n[l->items[i].verdict]++;
        printf("\n%zu checks: %zu OK, %zu WARN, %zu FAIL, %zu UNKNOWN\n", l->n, n[VERDICT_OK],
               n[VERDICT_WARN], n[VERDICT_FAIL], n[VERDICT_UNKNOWN]);
}

static int print(const struct host *h, const struct collected *c, bool json) {
        enum verdict worst = finding_list_worst(&c->list);
        char host[HOST_NAME_SIZE];
        int r;

        if (host_name(h, host) < 0)
                host[0] = '\0';
        if (json)
                r = report_print_json(stdout, json_pack("{s:s, s:s, s:o}", "host", host, "verdict",
                                                        verdict_name(worst), "checks",
                                                        finding_list_to_json(&c->list)));
        else {
                r = report_print_text(stdout, &c->list);
                if (c->list.n > 0)
                        print_sums(&c->list);
        }
        if (r < 0 || c->incomplete) {
                fprintf(stderr, "tpuctl check: the report is not complete: %s\n",
                        r < 0 ? strerror(-r) : "more findings than fit");
                return EXIT_NO_ANSWER;
        }
        return c->list.n == 0 ? EXIT_NO_ANSWER : verdict_exit_code(worst);
}

/* name: what was asked for, or NULL; one and only: as select_probe() told them apart. */
static int check(const struct options *o, const char *name, const struct probe *one, const char *only,
                 bool json) {
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        _cleanup_host_ struct host h = HOST_NULL;
        struct collected c = { .sink = { take_finding, drop_sample }, .only = only };
        struct probe_context context = { 0 };
        struct intent intent;
        int r;

        r = host_open(o->root, &h);
        if (r < 0) {
                fprintf(stderr, "tpuctl check: --root '%s' cannot be opened: %s\n", o->root ? o->root : "/",
                        strerror(-r));
                return EXIT_USAGE;
        }
        r = intent_load(&h, o->config, &intent);
        if (r < 0)
                fprintf(stderr, "tpuctl check: no network profile can be read: %s\n", strerror(-r));
        else {
                context.intent = &intent;
                if (intent.profile_note[0])
                        fprintf(stderr, "tpuctl check: %s\n", intent.profile_note);
        }
        if (identity_load(&h, o->config, &identity) == 0 &&
            identity_get_u32(&identity, IDENTITY_CHIPS, &context.chips_wanted) == 0)
                context.chips_source = identity.fields[IDENTITY_CHIPS].origin;
        if (one || !name)
                run_probes(&h, one, &context, &c);
        if (!one)
                check_identity(&identity, &c);
        if (only && c.list.n == 0)
                fprintf(stderr, "tpuctl check: no check answers to the name '%s'; those that do: tpuctl check %.*s\n",
                        only, (int) strcspn(only, "."), only);
        r = print(&h, &c, json);
        finding_list_clear(&c.list);
        return r;
}

int verb_check(const struct ctl *c, int argc, char *argv[]) {
        const char *peers = NULL;
        bool json = false, path;
        const struct option_def defs[] = {
                { "json", NULL, "print JSON", NULL, &json },
                { "peer", "A,B", "check path: these hosts, or NIC=ADDRESS", &peers, NULL },
        };
        struct options o = { .program = "tpuctl check",
                             .synopsis = "[NAME] [--json] [--peer A,B]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "Looks at this host now, without any daemon and without root. NAME "
                                        "is a group of checks (tpu, nic, sysctl,\n"
                                        "memory, identity) or one of them (nic.mtu). 'path' sends packets of full size to\n"
                                        "the peers and finds what does not arrive; it runs only when asked for.\n"
                                        "Exit code: 0 all OK, 1 WARN, 2 FAIL, 3 UNKNOWN." };
        const struct probe *one;
        const char *name, *only;
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 1, &w);
        if (r < 0)
                return options_exit(r);
        name = w.n > 0 ? w.items[0] : NULL;
        path = name && (streq(name, "path") || streq(name, "path.mtu"));
        if (peers && !path) {
                fprintf(stderr, "tpuctl check: --peer belongs to 'tpuctl check path'\n");
                return EXIT_USAGE;
        }
        if (path)
                return check_path(&o, peers, json);
        if (select_probe(name, &one, &only) < 0)
                return EXIT_USAGE;
        return check(&o, name, one, only, json);
}
