/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "check_words.h"
#include "contests.h"
#include "daemon.h"
#include "daemon_status.h"
#include "frame.h"
#include "gateway.h"
#include "handover.h"
#include "local.pb-c.h"
#include "log.h"
#include "loop_timer.h"
#include "paths.h"
#include "runtime.h"
#include "watch.h"

#define REREAD_INTERVAL (30 * USEC_PER_SEC)
#define LOCKED_RETRY (50 * USEC_PER_MSEC)
/* Looking takes about a millisecond, and changes that concern nobody (containers that start, a routing
 * daemon) come in thousands: so many looks may follow each other at once, more only at this pace. */
#define IDLE_LOOKS 20
#define IDLE_PACE (50 * USEC_PER_MSEC)
#define EXACT (5 * USEC_PER_MSEC) /* accuracy of a timer for less than a second */
#define START_WAIT (5 * USEC_PER_SEC)
#define SAID_MAX 512

struct daemon {
        struct netcfg *n;
        sd_event *event;
        sd_event_source *reread, *chores;
        struct net_watch *watch;
        struct frame_server *server;
        usec_t idle_until; /* boot clock; what looks that wrote nothing used up, at IDLE_PACE each */
        bool deferred;     /* reread stands in for a look that was put off */
        unsigned overruns; /* that were logged */
        int error;         /* of the last pass: logged when it changes */
        char said[SAID_MAX]; /* what is not OK: logged when it changes */
        struct log_limit said_limit;
        uid_t hostd;       /* tpu-hostd's user, who may hand over what networks carry */
};

static void daemon_clear(struct daemon *d) {
        frame_server_free(d->server);
        net_watch_free(d->watch);
        sd_event_source_disable_unref(d->reread);
        sd_event_source_disable_unref(d->chores);
        sd_event_unref(d->event);
        *d = (struct daemon) { 0 };
}

/* --- The report --------------------------------------------------------------------------------------- */

static int send_report(struct frame_peer *p, struct netcfg *n) {
        _cleanup_free_ Local__Finding *messages = calloc(n->report.n + 1, sizeof(*messages));
        _cleanup_free_ Local__Finding **list = calloc(n->report.n + 1, sizeof(*list));
        char mode[] = "observe";
        Local__Report report = LOCAL__REPORT__INIT;

        if (!messages || !list)
                return -ENOMEM;
        for (size_t i = 0; i < n->report.n; i++) {
                finding_to_wire(&n->report.items[i], &messages[i]);
                list[i] = &messages[i];
        }
        if (!n->held)
                (void) snprintf(mode, sizeof(mode), "repair");
        report.n_finding = n->report.n;
        report.finding = list;
        report.mode = mode;
        report.writes = n->writes;
        return frame_peer_send(p, LOCAL__KIND__KIND_REPORT, &report.base);
}

/* What this daemon is, beside what it found of the host. */
static int send_status(struct frame_peer *p, const struct daemon *d) {
        const char *deaf = net_watch_deaf(d->watch);
        const struct netcfg *n = d->n;
        struct finding f[2];

        check_tell(&f[0], deaf[0] ? WORDS_DAEMON_DEAF : WORDS_DAEMON_HEARS, "tpu-netcfg", deaf);
        finding_set(f[0].found, "%s", deaf[0] ? "not all changes are reported" : "each change is reported");
        check_begin(&f[1], WORDS_DAEMON_REPAIRS, "tpu-netcfg");
        if (n->held) { /* by a person's will, which is no fault while there is nothing to repair */
                f[1].verdict = n->plan.n > 0 ? VERDICT_WARN : VERDICT_OK;
                check_say(&f[1],
                          n->intent.observe                                     ? WORDS_DAEMON_OBSERVES :
                          observe_counts(&n->observe, host_now(&n->host)) ? WORDS_DAEMON_OBSERVES_ORDER :
                                                                                  WORDS_DAEMON_RESTORED,
                          n->held);
        } else
                check_say(&f[1], WORDS_DAEMON_REPAIRS);
        finding_set(f[1].found, "%s", n->held ? "observes" : "repairs");
        return daemon_status_send(p, f, ELEMENTSOF(f));
}

static int send_error(struct frame_peer *p, int code, const char *text) {
        Local__Error error = LOCAL__ERROR__INIT;

        error.code = code;
        error.text = (char *) (uintptr_t) text; /* packing only reads it */
        return frame_peer_send(p, LOCAL__KIND__KIND_ERROR, &error.base);
}

/* --- Passes ------------------------------------------------------------------------------------------- */

static void tell_status(const struct daemon *d) {
        const struct netcfg *n = d->n;
        size_t right = 0;

        for (size_t i = 0; i < n->report.n; i++)
                right += n->report.items[i].verdict == VERDICT_OK;
        (void) sd_notifyf(false, "STATUS=Profile %s%s: %zu of %zu checks OK, %u settings written",
                          n->intent.profile, n->held ? ", observing" : "", right, n->report.n, n->writes);
}

/* What a pass found wrong and did not write about: a NIC that could not be read, a value out of reach. */
static void tell_findings(struct daemon *d) {
        const struct finding_list *l = &d->n->report;
        const struct finding *first = NULL;
        char line[SAID_MAX] = "";
        size_t bad = 0;

        for (size_t i = 0; i < l->n; i++)
                /* contests have lines of their own */
                if (l->items[i].verdict != VERDICT_OK &&
                    !startswith(l->items[i].reason, "contested since") && bad++ == 0)
                        first = &l->items[i];
        if (first)
                finding_set(line, "%zu of %zu checks are not OK; the first: %s %s: %s", bad, l->n,
                            first->check, first->subject,
                            first->reason[0] ? first->reason : verdict_name(first->verdict));
        /* What was found may change with each pass: it is not compared. */
        if (first && !streq(line, d->said))
                log_warning("%s (found '%s', wanted '%s')", line, first->found, first->wanted);
        (void) snprintf(d->said, sizeof(d->said), "%s", line);
}

/* Its end has come, or tpu-hostd says nothing of it in this boot. True: what is wrong now was not right
 * before. */
static bool end_order_to_observe(struct netcfg *n) {
        if (!n->observe.ordered || observe_counts(&n->observe, host_now(&n->host)))
                return false;
        n->observe = OBSERVE_NULL;
        log_notice("observing by order has ended: its end has come, or tpu-hostd did not say within an hour "
                   "after a boot that it still stands");
        /* else it ends again, as it should */
        (void) observe_file_save(&n->host, n->runtime_fd, &n->observe);
        return true;
}

static int run_pass(struct daemon *d, enum pass_kind kind, usec_t wait) {
        unsigned overruns = net_watch_overruns(d->watch);
        int r;

        log_limit_turn(&d->said_limit, host_now(&d->n->host));
        if (end_order_to_observe(d->n))
                kind = PASS_APPLY;

        if (overruns != d->overruns)
                log_info("the kernel dropped notifications %u times so far; everything was read again",
                         overruns);
        d->overruns = overruns;
        r = pass_run(d->n, kind, wait);
        if (r == -ENOMEM && d->error != r)
                (void) log_error_errno(r, "this pass was not finished: %m");
        d->error = r;
        tell_status(d);
        tell_findings(d);
        return r;
}

/* Said when it changes; what could not be opened at the start may be free by now. */
static void mend_watch(struct daemon *d) {
        if (!net_watch_deaf(d->watch)[0])
                return;
        net_watch_mend(d->watch);
        if (!net_watch_deaf(d->watch)[0])
                log_notice("each change is reported again");
}

static void look_again_in(struct daemon *d, usec_t wait) {
        if (sd_event_source_set_time_accuracy(d->reread, wait < USEC_PER_SEC ? EXACT : USEC_PER_SEC) < 0 ||
            loop_timer_in(d->reread, wait) < 0)
                (void) sd_event_exit(d->event, -EIO); /* without the timer drift would go unseen */
}

static void look_at_host(struct daemon *d, enum pass_kind kind) {
        unsigned writes = d->n->writes;
        usec_t now = host_now(&d->n->host);
        int r = run_pass(d, kind, 0);

        d->deferred = false;
        /* A repair is free, and so is the look that its own event brings. */
        if (d->n->writes == writes)
                d->idle_until = MAX(d->idle_until, now) + IDLE_PACE;
        else if (d->idle_until > IDLE_PACE)
                d->idle_until -= IDLE_PACE;
        /* -EAGAIN: a one-shot is at work: look again when it is through */
        look_again_in(d, r == -EAGAIN ? LOCKED_RETRY :
                                     contest_wait(&d->n->contest, now, REREAD_INTERVAL));
}

static void on_change(void *userdata) {
        struct daemon *d = userdata;

        if (d->idle_until < host_now(&d->n->host) + IDLE_LOOKS * IDLE_PACE)
                look_at_host(d, PASS_REPAIR);
        else if (!d->deferred) {
                d->deferred = true;
                look_again_in(d, IDLE_PACE);
        }
}

static int on_reread(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s, (void) usec;
        look_at_host(userdata, PASS_REPAIR);
        return 0;
}

/* By a timer of its own: each look puts the next reading off, and events may go on for ever. */
static int on_chores(sd_event_source *s, uint64_t usec, void *userdata) {
        const struct netcfg *n = ((struct daemon *) userdata)->n;

        (void) usec;
        mend_watch(userdata);
        if (!n->intent.no_tpu && !n->netns.path)
                gateways_keep_asked(&n->host);
        (void) malloc_trim(0); /* a pass over many routes takes a megabyte: not kept while nothing happens */
        return loop_timer_in(s, REREAD_INTERVAL);
}

/* --- Requests ----------------------------------------------------------------------------------------- */

static int take_handover(struct daemon *d, struct frame_peer *p, const struct frame *f) {
        const char *why = NULL;
        int r;

        if (!handover_permits(frame_peer_creds(p)->uid, d->hostd)) {
                /* not louder: anybody can make us say it */
                log_debug("uid %u may not say what a network carries: refused", frame_peer_creds(p)->uid);
                return send_error(p, EPERM,
                                  "only root and the user " USER_HOSTD " may say what a network carries");
        }
        r = handover_take(d->n, p, f, &why);
        if (why)
                return send_error(p, -r, why);
        if (r > 0)
                look_at_host(d, PASS_APPLY); /* another intent, not a repair: no contest is counted */
        return r;
}

static void fill_order(const struct netcfg *n, const Local__Observe *m, struct observe *ret) {
        *ret = (struct observe) { .ordered = m->observe,
                                  .heard_boot = host_now(&n->host),
                                  .heard_real = host_now_real(&n->host),
                                  .until = MIN(m->until_real_usec, UINT64_MAX / 2) };
        (void) snprintf(ret->boot_id, sizeof(ret->boot_id), "%s", n->boot_id);
}

/* Only ever from repairing to observing and back to what is configured: whoever owns tpu-hostd changes no
 * setting. */
static int take_observe(struct daemon *d, struct frame_peer *p, const struct frame *f) {
        Local__ObserveReply reply = LOCAL__OBSERVE_REPLY__INIT;
        char observe[] = "observe", repair[] = "repair";
        struct netcfg *n = d->n;
        struct observe order = OBSERVE_NULL;
        Local__Observe *m;
        bool changed;
        int r;

        if (!handover_permits(frame_peer_creds(p)->uid, d->hostd))
                return send_error(p, EPERM,
                                  "only root and the user " USER_HOSTD " may say whether to observe");
        m = local__observe__unpack(NULL, f->len, f->data);
        if (!m)
                return send_error(p, EBADMSG, "the frame is garbled");
        fill_order(n, m, &order);
        local__observe__free_unpacked(m, NULL);
        changed = order.ordered != n->observe.ordered;
        /* Also when it is the same: that tpu-hostd said it in this boot counts. */
        if (changed || order.ordered) {
                r = observe_file_save(&n->host, n->runtime_fd, &order);
                if (r < 0)
                        return send_error(p, -r, PATH_NETCFG_RUNTIME "/observe cannot be written");
        }
        n->observe = order;
        if (changed)
                log_notice(order.ordered ? "a person ordered to observe: nothing is changed from now on"
                                         : "observing by order has ended");
        if (changed || order.ordered)
                look_at_host(d, PASS_APPLY);
        reply.mode = n->held ? observe : repair;
        return frame_peer_send(p, LOCAL__KIND__KIND_OBSERVE_REPLY, &reply.base);
}

static void on_frame(struct frame_peer *p, const struct frame *f, void *userdata) {
        struct daemon *d = userdata;
        int r;

        log_limit_turn(&d->said_limit, host_now(&d->n->host));
        if (f->kind == LOCAL__KIND__KIND_REPORT_REQUEST)
                r = send_report(p, d->n);
        else if (f->kind == LOCAL__KIND__KIND_STATUS_REQUEST)
                r = send_status(p, d);
        else if (f->kind == LOCAL__KIND__KIND_NETWORK_MTU)
                r = take_handover(d, p, f);
        else if (f->kind == LOCAL__KIND__KIND_OBSERVE)
                r = take_observe(d, p, f);
        else
                r = send_error(
                        p, EOPNOTSUPP,
                        "tpu-netcfg answers requests for its status and report, network MTUs and orders to "
                        "observe only");
        if (r < 0)
                (void) log_debug_errno(r, "a request could not be answered: %m");
}

/* --- Life --------------------------------------------------------------------------------------------- */

static int listen_for_reports(struct daemon *d) {
        static const struct frame_handlers handlers = { .frame = on_frame };
        _cleanup_close_ int fd = listen_socket(PATH_NETCFG_SOCKET, 0666);
        int r;

        if (fd < 0)
                return log_error_errno(fd, PATH_NETCFG_SOCKET ": cannot listen: %m");
        r = frame_server_new(d->event, TAKE_FD(fd), &handlers, d, &d->server);
        return r < 0 ? log_error_errno(r, PATH_NETCFG_SOCKET ": cannot serve: %m") : 0;
}

static int add_signals(struct daemon *d) {
        sigset_t signals;
        int r;

        if (sigemptyset(&signals) < 0 || sigaddset(&signals, SIGTERM) < 0 ||
            sigaddset(&signals, SIGINT) < 0 || sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
                return -errno;
        r = sd_event_add_signal(d->event, NULL, SIGTERM, NULL, NULL); /* no handler: the loop ends with 0 */
        return r < 0 ? r : sd_event_add_signal(d->event, NULL, SIGINT, NULL, NULL);
}

static int set_up_loop(struct daemon *d) {
        int r;

        r = sd_event_new(&d->event);
        if (r == 0)
                r = add_signals(d);
        if (r >= 0)
                r = sd_event_set_watchdog(d->event, true);
        if (r >= 0) /* before the first pass: what changes from here on is noticed */
                r = net_watch_new(d->event, &d->n->host, &d->n->intent, on_change, d, &d->watch);
        if (r >= 0)
                r = loop_timer_new(d->event, CLOCK_BOOTTIME, USEC_PER_SEC, "read again", on_reread, d,
                                   &d->reread);
        if (r >= 0)
                r = loop_timer_in(d->reread, REREAD_INTERVAL);
        if (r >= 0)
                r = loop_timer_new(d->event, CLOCK_BOOTTIME, USEC_PER_SEC, "chores", on_chores, d,
                                   &d->chores);
        if (r >= 0)
                r = loop_timer_in(d->chores, REREAD_INTERVAL);
        if (r < 0)
                return log_error_errno(r, "the event loop cannot be set up: %m");
        if (net_watch_deaf(d->watch)[0])
                log_warning("%s: everything is read again every 30 s instead", net_watch_deaf(d->watch));
        return 0;
}

int daemon_run(struct netcfg *n) {
        _cleanup_(daemon_clear) struct daemon d = { .n = n };
        int r;

        r = set_up_loop(&d);
        if (r < 0)
                return r;
        contests_start(n);
        r = run_pass(&d, PASS_APPLY, START_WAIT);
        if (r == -EAGAIN)
                return log_error_errno(r, "another tpu-netcfg holds " PATH_NETCFG_RUNTIME "/lock");
        if (r < 0)
                return r;
        if (n->held)
                log_notice("%s", n->held);
        d.hostd = handover_user(&n->host);
        r = listen_for_reports(&d);
        if (r < 0)
                return r;
        (void) sd_notify(false, "READY=1");
        /* What the first pass set is said in full; later ones follow others, who may go on for ever. */
        log_limit_turn(&d.said_limit, host_now(&n->host));
        log_set_limit(&d.said_limit);
        r = sd_event_loop(d.event);
        log_set_limit(NULL);
        (void) sd_notify(false, "STOPPING=1");
        return r;
}
