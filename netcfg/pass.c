/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include "check_words.h"
#include "contests.h"
#include "gateway.h"
#include "grow.h"
#include "kernel.h"
#include "log.h"
#include "paths.h"
#include "pass.h"
#include "runtime.h"
#include "source.h"

void netcfg_clear(struct netcfg *n) {
        contest_clear(&n->contest);
        plan_clear(&n->plan);
        plan_clear(&n->sources);
        free(n->troubles.items);
        free(n->before.items);
        finding_list_clear(&n->report);
        n->runtime_fd = close_fd(n->runtime_fd);
        netns_clear(&n->netns);
        host_close(&n->host);
        *n = NETCFG_NULL;
}

/* --- Troubles ----------------------------------------------------------------------------------------- */

static const struct trouble *find_trouble(const struct trouble_list *l, const struct plan_op *op) {
        for (size_t i = 0; i < l->n; i++)
                if (l->items[i].kind == op->kind && l->items[i].index == op->index &&
                    streq(l->items[i].subject, op->subject))
                        return &l->items[i];
        return NULL;
}

static int add_trouble(struct trouble_list *l, const struct trouble *t) {
        if (grow_by_one(&l->items, l->n, sizeof(*l->items)) < 0)
                return -ENOMEM;
        l->items[l->n++] = *t;
        return 0;
}

static int note_trouble(struct netcfg *n, const struct plan_op *op, int error) {
        struct trouble t = { .kind = op->kind, .index = op->index, .error = error };

        finding_set(t.subject, "%s", op->subject);
        memcpy(t.nic, op->nic, sizeof(op->nic));
        return add_trouble(&n->troubles, &t);
}

/* What can cost the host its path out: a private flag can make the driver set its queues up anew. Of others,
 * -EHOSTUNREACH and -ENETUNREACH are the kernel's own. */
static bool is_guarded(enum op_kind k) {
        return k == OP_MTU || k == OP_NIC_SETTING + NIC_PRIVATE_FLAG;
}

/* The write itself was tried, and failed. */
static int note_failed(struct netcfg *n, const struct plan_op *op, int error) {
        const struct trouble *before = find_trouble(&n->before, op);
        struct trouble *t;
        int r = note_trouble(n, op, error);

        if (r < 0 || (error == -ENETUNREACH && is_guarded(op->kind)))
                return r; /* the gateway was not asked again: is_silent() */
        t = &n->troubles.items[n->troubles.n - 1];
        t->tries = before ? before->tries + 1 : 1;
        if (t->tries >= FAILED_TRIES)
                t->again = host_now(&n->host) + FAILED_PAUSE;
        return 0;
}

/* Whether the pass before met the same, so that it need not be said again. */
static bool was_said(const struct netcfg *n, const struct plan_op *op, int error) {
        const struct trouble *before = find_trouble(&n->before, op);

        return before && before->error == error;
}

/* What went wrong with what the finding is about. */
static const struct trouble *trouble_of(const struct netcfg *n, const struct finding *f) {
        for (size_t i = 0; i < n->troubles.n; i++) {
                const struct trouble *t = &n->troubles.items[i];

                if (streq(f->check, op_check(t->kind)) &&
                    streq(f->subject, op_is_source(t->kind) ? t->nic : t->subject))
                        return t;
        }
        return NULL;
}

static void explain_finding(const struct netcfg *n, struct finding *f) {
        const struct trouble *t;

        if (f->verdict == VERDICT_OK || !f->found[0])
                return;
        t = trouble_of(n, f);
        if (!t || t->error == 0)
                contested_explain(&n->host, f);
        if (t && t->error == 0)
                return;
        if (t && op_is_source(t->kind))
                finding_set(f->reason, "%s could not be set: %s", t->subject, strerror(-t->error));
        else if (t && t->error == -EHOSTUNREACH && is_guarded(t->kind))
                finding_set(
                        f->reason,
                        "taken back: after the change the gateway of the only default route did not answer "
                        "within 2 s; tried again in an hour");
        else if (t && t->error == -ENETUNREACH && is_guarded(t->kind))
                finding_set(
                        f->reason,
                        "the gateway of the only default route does not answer, so a change could not be "
                        "verified: left alone until it does");
        else if (t)
                finding_set(f->reason, "could not be set: %s", strerror(-t->error));
        else if (n->held && !f->reason[0])
                finding_set(f->reason, "%s", n->held);
}

/* What puts it right for the host does nothing in another network namespace. */
static void point_there(const struct netcfg *n, struct finding *f) {
        if (n->netns.path && check_says(f, WORDS_REPAIR))
                check_say(f, WORDS_REPAIR_THERE, n->netns.path);
}

static int judge_pass(struct netcfg *n, const struct found *found) {
        int r;

        finding_list_clear(&n->report);
        n->report = FINDING_LIST_NULL;
        r = plan_findings(&n->intent, found, &n->report);
        for (size_t i = 0; r == 0 && i < n->report.n; i++) {
                explain_finding(n, &n->report.items[i]);
                point_there(n, &n->report.items[i]);
        }
        return r;
}

/* --- Writes ------------------------------------------------------------------------------------------- */

int pass_log_refused(const struct netcfg *n, const struct plan_op *op, int error) {
        if (was_said(n, op, error))
                return error;
        return log_error_errno(error,
                               "%s%s: %s → %s: %m; nothing was changed (this needs CAP_NET_ADMIN and a "
                               "writable /proc/sys/net)",
                               op_label(op->kind), op->subject, op->from, op->to);
}

static int roll_back(struct netcfg *n, const struct plan_op *op) {
        struct plan_op back = *op;
        int r;

        finding_set(back.from, "%s", op->to);
        finding_set(back.to, "%s", op->from);
        r = kernel_apply(&n->host, &back);
        if (r < 0)
                return log_error_errno(
                        r,
                        "%s%s: its gateway does not answer since it became %s, and it cannot be "
                        "set back to %s: %m",
                        op_label(op->kind), op->subject, op->to, op->from);
        return log_error_errno(-EHOSTUNREACH,
                               "%s%s: %s → %s was taken back: its gateway did not answer within 2 s",
                               op_label(op->kind), op->subject, op->from, op->to);
}

/* Each question to one who does not answer blocks the loop: not with every event. */
static bool is_silent(struct netcfg *n, const struct route *gateway) {
        usec_t *ask_again = &n->ask_again[gateway->family == AF_INET6];

        if (host_now(&n->host) < *ask_again)
                return true;
        if (gateway_probe(&n->host.clock, gateway, GATEWAY_WAIT) == 0)
                return false;
        *ask_again = host_now(&n->host) + GATEWAY_PAUSE;
        return true;
}

/* The host's only path out is never lost: what answered before the change must answer after it. */
static int apply_guarded(struct netcfg *n, const struct plan_op *op, bool restoring) {
        _cleanup_routes_ struct route_table routes = ROUTE_TABLE_NULL;
        const struct route *gateway;
        int r;

        r = routes_read(&n->host, &routes);
        if (r < 0)
                return r;
        gateway = gateway_of(&routes, op->index);
        if (gateway && is_silent(n, gateway)) {
                if (!restoring)
                        return -ENETUNREACH;
                gateway = NULL; /* nothing to lose */
        }
        r = kernel_apply(&n->host, op);
        if (r < 0 || !gateway || gateway_probe(&n->host.clock, gateway, GATEWAY_WAIT) == 0)
                return r;
        return roll_back(n, op);
}

int pass_apply_one(struct netcfg *n, const struct plan_op *op, bool restoring) {
        bool guarded = is_guarded(op->kind);
        int r = guarded ? apply_guarded(n, op, restoring) : kernel_apply(&n->host, op);

        if (guarded && r == -EHOSTUNREACH)
                return r; /* said already */
        if (guarded && r == -ENETUNREACH && n->gateway_silent)
                return r;
        if (guarded)
                n->gateway_silent = r == -ENETUNREACH;
        if (guarded && n->gateway_silent)
                return log_warning_errno(
                        r, "%s%s: left at %s until the gateway of the only default route answers",
                        op_label(op->kind), op->subject, op->from);
        if (r < 0 && was_said(n, op, r))
                return r;
        if (r < 0)
                return log_error_errno(r, "%s%s: %s → %s: %m", op_label(op->kind), op->subject, op->from,
                                       op->to);
        n->writes++;
        /* One for each container's route, in each table: they would hide everything else. */
        if (op->kind == OP_SOURCE_ROUTE && (streq(op->to, "throw") || streq(op->from, "throw")))
                log_debug("%s%s: %s → %s (%s)", op_label(op->kind), op->subject, op->from, op->to,
                          op->source);
        else
                log_notice("%s%s: %s → %s (%s)", op_label(op->kind), op->subject, op->from, op->to,
                           op->source);
        return 0;
}

static int save_originals(struct netcfg *n, const struct plan *p, const struct found *found) {
        _cleanup_originals_ struct originals o = ORIGINALS_NULL;
        char why[STATE_FILE_WHY_MAX];
        int r;

        r = runtime_load_originals(n->runtime_fd, n->boot_id, &o, why);
        if (r < 0 && was_said(n, &p->ops[0], r))
                return r;
        if (r == -EBADMSG)
                return log_error_errno(
                        r,
                        "%s/originals is damaged: %s; nothing was changed. Remove the file to "
                        "go on without --restore",
                        n->netns.runtime, why);
        if (r == 0)
                originals_follow(&o, &found->links);
        if (r == 0 && found->routes_error == 0)
                r = originals_make_room(&o, p, &found->routes, &found->links);
        if (r == 0)
                r = originals_note(&o, p, &found->links);
        if (r > 0)
                r = runtime_save_originals(n->runtime_fd, n->boot_id, &o);
        if (r < 0 && was_said(n, &p->ops[0], r))
                return r;
        if (r < 0)
                return log_error_errno(r,
                                       "the original values cannot be saved in %s: %m; nothing was changed",
                                       n->netns.runtime);
        return 0;
}

/* Whether a write may be done now; notes why not. Returns 0 or 1, -ENOMEM. */
static int is_allowed(struct netcfg *n, enum pass_kind kind, const struct plan_op *op) {
        const struct trouble *before = find_trouble(&n->before, op);
        const struct contest_entry *e = contest_entry_of(&n->contest, op);
        usec_t now = host_now(&n->host);
        enum contest_answer answer;

        if (kind == PASS_REPAIR && before && now < before->again) {
                struct trouble same = *before;

                return add_trouble(&n->troubles, &same);
        }
        if (streq(op->to, SOURCE_ABSENT) || (kind == PASS_APPLY && (!e || e->since == 0 || e->error != 0)))
                return 1;
        answer = contest_judge(&n->contest, op, now);
        if (answer == CONTEST_REPAIR)
                return 1;
        if (answer == CONTEST_BEGINS)
                log_warning("%s%s is contested: changed to %s, %d repairs in the last %u s did not last; "
                            "left alone until nobody changes it for ten minutes, or tpu-netcfg --once",
                            op_label(op->kind), op->subject, op->from, CONTEST_REPAIRS,
                            (unsigned) ((now - e->repaired[0]) / USEC_PER_SEC) + 1);
        return note_trouble(n, op, contest_why(&n->contest, op));
}

/* Takes out of *p what is not to be written now. */
static int drop_held(struct netcfg *n, enum pass_kind kind, struct plan *p) {
        size_t kept = 0;

        for (size_t i = 0; i < p->n; i++) {
                int r = is_allowed(n, kind, &p->ops[i]);

                if (r < 0)
                        return r;
                if (r > 0)
                        p->ops[kept++] = p->ops[i];
        }
        p->n = kept;
        return 0;
}

/* Whether the last pass wanted the same. Of source routing that is not always so: it follows addresses and
 * routes, and what they ask for anew has nobody else changed. */
static bool was_wanted(const struct plan *before, const struct plan_op *op) {
        if (!op_is_source(op->kind) || op->kind == OP_MAIN_RULE)
                return true;
        for (size_t i = 0; i < before->n; i++)
                if (before->ops[i].kind == op->kind && streq(before->ops[i].subject, op->subject) &&
                    streq(before->ops[i].to, op->to))
                        return true;
        return false;
}

/* Our rule goes because somebody else has one for the address. */
static bool is_yield(const struct found *f, const struct plan_op *op) {
        const struct address *a =
                op->kind == OP_RULE && streq(op->to, SOURCE_ABSENT)
                        ? address_find(&f->addresses, op->index, op->rule.family, op->rule.src)
                        : NULL;

        return a && source_foreign_rule(f, a);
}

static int write_one(struct netcfg *n, enum pass_kind kind, const struct plan_op *op,
                     const struct found *found) {
        int r = pass_apply_one(n, op, false);

        if (r < 0 && note_failed(n, op, r) < 0)
                return -ENOMEM;
        if (r == -EHOSTUNREACH && is_guarded(op->kind))
                return contest_hold(&n->contest, op, r, host_now(&n->host));
        /* -EIO: changed back before it was read again. Uncounted, the event of each try would start the
         * next. */
        if (!n->daemon || (r < 0 && r != -EIO))
                return 0;
        if (streq(op->to, SOURCE_ABSENT))
                return is_yield(found, op) ? contest_note_yield(&n->contest, op) : 0;
        if (kind != PASS_REPAIR || (!was_wanted(&n->sources, op) && !contest_yielded(&n->contest, op)))
                return 0;
        return contest_note_repair(&n->contest, op, host_now(&n->host));
}

static int write_plan(struct netcfg *n, enum pass_kind kind, const struct plan *p,
                     const struct found *found) {
        const struct plan_op *refused = NULL;
        int r;

        if (p->n == 0)
                return 0;
        r = kernel_permits(&n->host, p, &refused);
        if (r < 0)
                r = pass_log_refused(n, refused, r);
        else
                r = save_originals(n, p, found);
        for (size_t i = 0; r < 0 && i < p->n; i++)
                if (note_trouble(n, &p->ops[i], r) < 0)
                        return -ENOMEM;
        for (size_t i = 0; r == 0 && i < p->n; i++)
                r = write_one(n, kind, &p->ops[i], found);
        return r;
}

static const char *why_held(const struct netcfg *n, enum pass_kind kind) {
        if (kind == PASS_LOOK)
                return "";
        if (n->intent.observe)
                return "Mode=observe: nothing is changed";
        if (observe_counts(&n->observe, host_now(&n->host)))
                return "a person ordered to observe (tpuctl mode): nothing is changed";
        if (runtime_is_restored(n->runtime_fd))
                return "the originals were restored by hand: left alone until tpu-netcfg --once";
        return NULL;
}

static void read_found(const struct netcfg *n, struct found *ret) {
        kernel_read(&n->host, &n->intent, ret);
        netns_bound_links(&n->netns, &ret->links);
        ret->container |= n->netns.path != NULL;
}

/* --- The pass ----------------------------------------------------------------------------------------- */

static int run_locked(struct netcfg *n, enum pass_kind kind) {
        _cleanup_found_ struct found found = FOUND_NULL;
        _cleanup_plan_ struct plan due = PLAN_NULL, sources = PLAN_NULL;
        int r, written = 0;

        read_found(n, &found);
        plan_clear(&n->plan);
        if (source_wanted(&n->intent, &found, &sources) == -ENOMEM)
                return -ENOMEM;
        r = plan_make(&n->intent, &found, &n->plan);
        n->held = why_held(n, kind);
        for (size_t i = 0; r == 0 && !n->held && i < n->plan.n; i++)
                if (!n->parameters_only || n->plan.ops[i].kind == OP_PARAMETER)
                        r = plan_add(&due, &n->plan.ops[i]);
        if (r == 0 && n->daemon)
                contests_begin(n, &sources, &found);
        if (r == 0 && n->daemon)
                r = drop_held(n, kind, &due);
        if (r < 0)
                return r;
        if (due.n > 0) {
                written = write_plan(n, kind, &due, &found);
                if (written == -ENOMEM)
                        return written;
                found_clear(&found);
                read_found(n, &found);
        }
        contests_end(n, kind, written);
        plan_clear(&n->sources);
        n->sources = sources;
        sources = PLAN_NULL;
        r = judge_pass(n, &found);
        return r < 0 ? r : written;
}

int pass_run(struct netcfg *n, enum pass_kind kind, usec_t wait) {
        _cleanup_close_ int lock = -1;
        int r;

        if (kind != PASS_LOOK) {
                lock = runtime_lock(n->runtime_fd, wait);
                if (lock == -EAGAIN)
                        return lock;
                if (lock < 0)
                        return log_error_errno(lock, "%s/lock: %m; nothing was changed", n->netns.runtime);
        }
        n->before = n->troubles;
        n->troubles = (struct trouble_list) { 0 };
        r = run_locked(n, kind);
        free(TAKE_PTR(n->before.items));
        n->before.n = 0;
        return r;
}
