/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "json_text.h"
#include "kernel.h"
#include "log.h"
#include "oneshot.h"
#include "report.h"
#include "runtime.h"
#include "source.h"

#define LOCK_WAIT (5 * USEC_PER_SEC)

/* --- Reports ------------------------------------------------------------------------------------------ */

static json_t *plan_to_json(const struct plan *p) {
        json_t *array = json_array();

        for (size_t i = 0; i < p->n; i++) {
                const struct plan_op *op = &p->ops[i];

                array = json_list_add(array, json_pack("{s:s, s:s, s:s, s:s, s:s}", "check",
                                                       op_check(op->kind), "subject", op->subject, "from",
                                                       op->from, "to", op->to, "source", op->source));
        }
        return array;
}

static void print_plan(const struct plan *p, const char *title) {
        if (p->n == 0)
                return;
        printf("%s\n", title);
        for (size_t i = 0; i < p->n; i++)
                printf("  %s %s: %s → %s (%s)\n", op_check(p->ops[i].kind), p->ops[i].subject,
                       p->ops[i].from, p->ops[i].to, p->ops[i].source);
}

/* The configuration's mode, or a person's order, which --dry-run does not ask for. */
static bool observes(const struct netcfg *n) {
        return n->intent.observe || (n->held && n->held[0]);
}

static int print_report_json(const struct netcfg *n) {
        return report_print_json(stdout, json_pack("{s:s, s:s, s:o, s:i, s:o}", "profile", n->intent.profile,
                                                   "mode", observes(n) ? "observe" : "repair", "plan",
                                                   plan_to_json(&n->plan), "writes", (int) n->writes,
                                                   "findings", finding_list_to_json(&n->report)));
}

static int finish_oneshot(const struct netcfg *n, bool json) {
        int r = json ? print_report_json(n) : report_print_text(stdout, &n->report);

        if (r < 0) {
                (void) log_error_errno(r, "the report cannot be written: %m");
                return EXIT_FAILURE;
        }
        return verdict_exit_code(finding_list_worst(&n->report));
}

/* --- The one-shots ------------------------------------------------------------------------------------ */

int oneshot_dry_run(struct netcfg *n, bool json) {
        int r = pass_run(n, PASS_LOOK, 0);

        if (r < 0) {
                (void) log_error_errno(r, "the host cannot be looked at: %m");
                return EXIT_FAILURE;
        }
        if (!json && n->plan.n == 0)
                printf("Nothing to change%s%s.\n", n->intent.no_tpu ? ": " : "",
                       n->intent.no_tpu ? n->intent.profile_note : "");
        if (!json)
                print_plan(&n->plan,
                           n->intent.observe ? "Would change, but for Mode=observe:" : "Would change:");
        return finish_oneshot(n, json);
}

static int log_locked(const struct netcfg *n) {
        return log_error_errno(-EAGAIN,
                               "another tpu-netcfg has been at work for 5 s (%s/lock); nothing was changed",
                               n->netns.runtime);
}

static bool has_finding(const struct finding_list *l, const char *check, const char *subject) {
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].check, check) && streq(l->items[i].subject, subject))
                        return true;
        return false;
}

/* A write failed, and what it was about is not there to be judged any more: it went meanwhile. */
static int judge_gone(struct netcfg *n) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < n->troubles.n; i++) {
                const struct trouble *t = &n->troubles.items[i];
                const char *subject = op_is_source(t->kind) && t->nic[0] ? t->nic : t->subject;
                struct finding f;

                if (t->error == 0 || has_finding(&n->report, op_check(t->kind), subject))
                        continue;
                finding_init(&f, op_check(t->kind), subject);
                finding_set(f.found, "gone");
                check_say(&f, WORDS_SETTING_GONE, strerror(-t->error));
                r = finding_list_add(&n->report, &f);
        }
        return r;
}

int oneshot_once(struct netcfg *n, bool json) {
        int r = runtime_set_restored(n->runtime_fd, false);

        if (r < 0) {
                (void) log_error_errno(r, "%s/restored cannot be removed: %m; nothing was changed",
                                       n->netns.runtime);
                return verdict_exit_code(VERDICT_FAIL);
        }
        finding_list_clear(&n->report); /* what was found before is no answer when the pass cannot be made */
        r = pass_run(n, PASS_APPLY, LOCK_WAIT);
        if (r == -EAGAIN)
                (void) log_locked(n);
        else if (r == -ENOMEM)
                (void) log_error_errno(
                        r, "not finished after %u settings: %m; tpu-netcfg --once goes on from there",
                        n->writes);
        if (r < 0 && n->report.n == 0)
                return verdict_exit_code(VERDICT_FAIL);
        if (r == 0 && judge_gone(n) < 0)
                return verdict_exit_code(VERDICT_FAIL);
        if (!json && n->held)
                print_plan(&n->plan, n->intent.observe ?
                                             "Would change, but for Mode=observe:" :
                                             "Would change, but for an order to observe (tpuctl mode):");
        if (!json)
                printf("%u settings written and verified.\n", n->writes);
        return finish_oneshot(n, json);
}

int oneshot_parameters(struct netcfg *n) {
        int r;

        n->parameters_only = true;
        r = pass_run(n, PASS_APPLY, LOCK_WAIT);
        if (r == -EAGAIN)
                (void) log_locked(n);
        return verdict_exit_code(r < 0 ? VERDICT_FAIL : VERDICT_OK);
}

/* --- Restore ------------------------------------------------------------------------------------------ */

struct restoring {
        struct link_table links;
        struct route_table routes;
        struct rule_table rules;
        struct originals originals;
        struct plan plan; /* first what source routing added, then the originals */
        size_t all; /* originals, of which those that are kept are left in the end */
        size_t sources, gone, failed; /* sources: of plan */
};

static void restoring_clear(struct restoring *s) {
        link_table_clear(&s->links);
        route_table_clear(&s->routes);
        rule_table_clear(&s->rules);
        originals_clear(&s->originals);
        plan_clear(&s->plan);
}

/* The value it has now. -ENODEV: the NIC or route is gone. */
static int read_now(const struct host *h, const struct restoring *s, const struct original *o,
                    struct plan_op *op) {
        const struct link *l = original_link(o, &s->links);
        struct found_sysctl now;
        char parameter[sizeof(op->from)];
        char value[16];
        int r;

        if (o->kind == OP_SYSCTL) {
                r = plan_read_sysctl(h, o->subject, &now);
                finding_set(op->from, "%s", now.value);
                return r == -ENOENT ? -ENODEV : r; /* a NIC's own, which went with it */
        }
        if (o->kind == OP_PARAMETER) {
                r = intent_read_parameter(h, o->subject, parameter, sizeof(parameter));
                if (r == 0 || r == -EROFS)
                        finding_set(op->from, "%s", parameter);
                return r == -ENOENT ? -ENODEV : r == -EROFS ? 0 : r; /* its module went */
        }
        if (o->kind == OP_ROUTE) {
                const struct route *route = route_by_subject(&s->routes, &s->links, o->subject);

                if (route)
                        route_value(route, op->from);
                return route ? 0 : -ENODEV;
        }
        if (!l)
                return -ENODEV;
        op->index = l->index;
        r = nic_read(h, o->kind, l, o->subject, value);
        if (r == 0)
                finding_set(op->from, "%s", value);
        return r;
}

/* The writes that bring the originals back, in the opposite order of those that they were saved for. */
static int plan_originals(const struct netcfg *n, struct restoring *s) {
        for (size_t i = s->originals.n; i-- > 0;) {
                const struct original *o = &s->originals.items[i];
                struct plan_op op = { .kind = o->kind };
                int r;

                finding_set(op.subject, "%s", o->subject);
                finding_set(op.to, "%s", o->value);
                finding_set(op.source, "original value of this boot");
                r = read_now(&n->host, s, o, &op);
                if (r == -ENODEV)
                        s->gone++;
                else if (r == 0 && !streq(op.from, op.to))
                        r = plan_add(&s->plan, &op);
                if (r < 0 && r != -ENODEV)
                        return r;
        }
        return 0;
}

/* What source routing added goes, whatever asked for it. */
static int plan_removal(struct restoring *s) {
        _cleanup_plan_ struct plan own = PLAN_NULL;
        int r = source_found(&s->rules, &s->routes, &s->links, &own);

        if (r == 0)
                r = source_add_removal(&s->plan, &own, "was not there before tpu-netcfg");
        s->sources = s->plan.n;
        return r;
}

static int load_restoring(struct netcfg *n, struct restoring *s) {
        char why[STATE_FILE_WHY_MAX];
        int r;

        r = runtime_load_originals(n->runtime_fd, n->boot_id, &s->originals, why);
        if (r == -EBADMSG)
                return log_error_errno(r, "%s/originals is damaged: %s; nothing was changed",
                                       n->netns.runtime, why);
        if (r < 0)
                return log_error_errno(r, "%s/originals cannot be read: %m; nothing was changed",
                                       n->netns.runtime);
        r = links_read(&n->host, &s->links);
        if (r == 0)
                r = rules_read(&n->host, &s->rules);
        if (r == 0)
                r = routes_read(&n->host, &s->routes);
        if (r == 0)
                r = plan_removal(s);
        if (r == 0) {
                s->all = s->originals.n;
                originals_follow(&s->originals, &s->links);
                r = plan_originals(n, s);
        }
        return r < 0 ? log_error_errno(r, "the current values cannot be read: %m; nothing was changed") : 0;
}

/* A NIC that is away, in a container say, may come back with what we set. */
static int forget_restored(const struct netcfg *n, struct restoring *s) {
        int r;

        originals_keep_absent(&s->originals, &s->links);
        r = s->originals.n > 0 ? runtime_save_originals(n->runtime_fd, n->boot_id, &s->originals) :
                                 runtime_forget_originals(n->runtime_fd);
        return r < 0 ? log_error_errno(r, "%s/originals cannot be changed: %m", n->netns.runtime) : 0;
}

static int restore_locked(struct netcfg *n, struct restoring *s) {
        const struct plan_op *refused = NULL;
        int r;

        r = load_restoring(n, s);
        if (r < 0 || (s->originals.n == 0 && s->plan.n == 0))
                return r;
        r = kernel_permits(&n->host, &s->plan, &refused);
        if (r < 0)
                return pass_log_refused(n, refused, r);
        /* first, so that a running daemon does not repair what we restore */
        r = runtime_set_restored(n->runtime_fd, true);
        if (r < 0)
                return log_error_errno(r, "%s/restored cannot be written: %m; nothing was changed",
                                       n->netns.runtime);
        for (size_t i = 0; i < s->plan.n; i++)
                s->failed += pass_apply_one(n, &s->plan.ops[i], true) < 0;
        return s->failed > 0 ? 0 : forget_restored(n, s); /* else they are kept for another try */
}

static int print_restored(const struct netcfg *n, const struct restoring *s, bool json) {
        if (json)
                return report_print_json(stdout,
                                         json_pack("{s:o, s:i, s:i, s:i}", "plan", plan_to_json(&s->plan),
                                                   "writes", (int) n->writes, "failed", (int) s->failed,
                                                   "gone", (int) s->gone));
        if (s->all == 0 && s->plan.n == 0)
                puts("Nothing to restore: tpu-netcfg has changed nothing since boot, or all was restored "
                     "already.");
        else
                printf("%u settings restored and verified, %zu had their original value, %zu failed, "
                       "%zu are of NICs or routes that are gone%s.\n%s",
                       n->writes, s->all - (s->plan.n - s->sources) - s->gone, s->failed, s->gone,
                       s->gone > 0 && s->originals.n > 0 ? "; those of NICs are kept for another --restore" :
                                                           "",
                       n->netns.path ? "" :
                                       "A running tpu-netcfg only observes from now on; tpu-netcfg --once "
                                       "applies the profile again.\n");
        return 0;
}

int oneshot_restore(struct netcfg *n, bool json) {
        _cleanup_(restoring_clear) struct restoring s = { 0 };
        _cleanup_close_ int lock = runtime_lock(n->runtime_fd, LOCK_WAIT);

        if (lock == -EAGAIN)
                (void) log_locked(n);
        else if (lock < 0)
                (void) log_error_errno(lock, "%s/lock: %m; nothing was changed", n->netns.runtime);
        if (lock < 0 || restore_locked(n, &s) < 0)
                return verdict_exit_code(VERDICT_FAIL);
        if (print_restored(n, &s, json) < 0)
                return EXIT_FAILURE;
        if (s.failed > 0)
                return verdict_exit_code(VERDICT_FAIL);
        return s.gone > 0 ? verdict_exit_code(VERDICT_WARN) : 0;
}
