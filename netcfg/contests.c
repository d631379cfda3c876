/* SPDX-License-Identifier: Apache-2.0 */
#include "contests.h"

#include "io.h"
#include "log.h"

/* In memory of the host; -errno is no failure of a pass, and said once. */
static int save_list(struct netcfg *n, const struct contested_list *l) {
        char text[CONTESTED_TEXT_MAX];
        int r;

        if (l->n == 0)
                r = unlinkat(n->runtime_fd, CONTESTED_FILE, 0) < 0 && errno != ENOENT ? -errno : 0;
        else {
                r = contested_format(l, n->boot_id, text);
                if (r >= 0)
                        r = durable_write(n->runtime_fd, CONTESTED_FILE, text, (size_t) r, 0644);
        }
        if (r < 0 && r != n->contested_error)
                (void) log_warning_errno(r, "%s/" CONTESTED_FILE " cannot be written: %m; checks do not say "
                                         "what is contested", n->netns.runtime);
        n->contested_error = r;
        return r;
}

void contests_start(struct netcfg *n) {
        n->daemon = true;
        n->contested.n = 0;
        (void) save_list(n, &n->contested);
}

static void log_ended(const struct contest_entry *e, void *userdata) {
        (void) userdata;
        log_notice("%s%s is no longer contested: %s", op_label(e->kind), e->subject, e->ended);
}

void contests_begin(struct netcfg *n, const struct plan *sources, const struct found *found) {
        struct contested_list now;

        /* A file that does not say what is contested does not say what --once took out of it. */
        if (n->contested_error == 0 && n->contested.n > 0 && contested_load_settings(&n->host, &now) == 0)
                contest_follow(&n->contest, &now);
        contest_look(&n->contest, &n->plan, sources, found, host_now(&n->host));
        contest_sweep(&n->contest, log_ended, n);
}

static bool is_trouble(const struct netcfg *n, const struct contested *c) {
        for (size_t i = 0; i < n->troubles.n; i++)
                if (streq(op_check(n->troubles.items[i].kind), c->check) &&
                    streq(n->troubles.items[i].subject, c->setting))
                        return true;
        return false;
}

/* A person has set it, and wants it so. */
static void take_out(struct netcfg *n) {
        struct contested_list l;
        size_t kept = 0;

        if (n->netns.path || contested_load_settings(&n->host, &l) < 0 || l.n == 0)
                return;
        for (size_t i = 0; i < l.n; i++)
                if (is_trouble(n, &l.items[i]))
                        l.items[kept++] = l.items[i];
        l.n = kept;
        (void) save_list(n, &l);
}

void contests_end(struct netcfg *n, enum pass_kind kind, int written) {
        struct contested_list l;

        if (!n->daemon && kind == PASS_APPLY && !n->held && !n->parameters_only && written == 0)
                take_out(n);
        if (!n->daemon)
                return;
        contest_list(&n->contest, &l);
        if (n->contested_error == 0 && l.n == n->contested.n &&
            memcmp(l.items, n->contested.items, l.n * sizeof(*l.items)) == 0)
                return;
        if (save_list(n, &l) < 0)
                return; /* tried again in the next pass */
        n->contested.n = l.n;
        memcpy(n->contested.items, l.items, l.n * sizeof(*l.items));
}
