/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_deliver.h"

#include <arpa/inet.h>

#include "addresses.h"
#include "capture_host.h"
#include "capture_shelf.h"
#include "capture_write.h"
#include "clock.h"
#include "host_stat.h"
#include "links.h"
#include "log.h"
#include "member.h"
#include "net_part.h"
#include "progress_part.h"
#include "unanswered.h"
#include "watch_part.h"

#define HOW_MAX 80

void capture_round_clear(struct capture_round *c) {
        if (c->answer)
                c->answer(c->token, NULL, 0, "the capture was given up");
        c->reach = reach_free(c->reach);
        *c = (struct capture_round) { 0 };
}

/* --- What this host's connections say of its peers ----------------------------------------------------- */

/* What cannot be looked at is no finding. */
static void log_unread(int error, const char *what) {
        if (error < 0 && error != -ENODATA && error != -ENOENT)
                (void) log_debug_errno(error, "%s cannot be looked at: %m", what);
}

static void find_unanswered(const struct host *h, struct finding_list *ret) {
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
        int r = unanswered_read(h, &t);

        if (r >= 0)
                r = unanswered_tell(&t, ret);
        log_unread(r, "the connections of this host");
}

/*
 * A host that is cut off while it had nothing to send is missed by nobody's data: its peers are asked in the
 * first capture of a round, and those that have not answered by the second are findings.
 */
static void find_unreached(struct capture_round *c, struct finding_list *ret, uint32_t *ret_reached) {
        size_t answered;
        int r;

        if (c->what.round == 0 && c->second > 0 && !c->reach)
                log_unread(reach_begin(c->bus->host, &c->reach),
                           "whether the peers of this host can be reached");
        else if (c->what.round > 0 && c->reach) {
                r = reach_tell(c->reach, ret, &answered);
                log_unread(r, "whether the peers of this host could be reached");
                if (r == 0)
                        *ret_reached = (uint32_t) answered;
        }
}

/* This host's own addresses, each with its NIC: others miss addresses. */
static void list_own_addresses(const struct host *h, struct capture_own *ret) {
        _cleanup_addresses_ struct address_table t = ADDRESS_TABLE_NULL;
        _cleanup_links_ struct link_table links = LINK_TABLE_NULL;
        int r = links_read(h, &links);

        ret->n = 0;
        if (r >= 0)
                r = addresses_read(h, &t);
        log_unread(r, "the addresses of this host");
        for (size_t i = 0; r >= 0 && i < t.n && ret->n < CAPTURE_OWN_MAX; i++) {
                const struct link *l = link_by_index(&links, t.addresses[i].index);
                char text[INET6_ADDRSTRLEN];

                if (l && inet_ntop(t.addresses[i].family, t.addresses[i].bytes, text, sizeof(text)))
                        (void) snprintf(ret->items[ret->n++], sizeof(ret->items[0]), "%s %s", l->name, text);
        }
}

/* --- What this host knows of the run ------------------------------------------------------------------- */

static int64_t last_step(const struct bus *b, const char *run) {
        uint64_t step = progress_last_step(b, run);

        return step == SUSPICION_STEP_NONE ? -1 : (int64_t) MIN(step, (uint64_t) INT64_MAX);
}

static usec_t clock_error_of(const struct bus *b) {
        struct host_clock c;

        if (host_clock(b->host, &c) < 0)
                return 0;
        return c.max_error_usec; /* 16 s of one that nothing sets: adjtimex(2) */
}

/* how: for ended_how. */
static void describe_capture(const struct capture_round *c, const char *problem, usec_t taken,
                             char how[static HOW_MAX], struct capture_about *ret) {
        const struct bus *b = c->bus;
        const struct host_run *run = host_runs_find(b->runs, c->what.run);
        const char *slice = identity_get(&b->identity, IDENTITY_SLICE_NAME);
        uint32_t worker;

        *ret = (struct capture_about) { .slice = slice ? slice : "",
                                        .host = b->name,
                                        .address = member_address(b),
                                        .episode = c->what.episode,
                                        .worker = CAPTURE_WORKER_NONE,
                                        .round = c->what.round,
                                        .wanted = c->wanted,
                                        .taken = taken,
                                        .clock_error = clock_error_of(b),
                                        .step = last_step(b, c->what.run),
                                        .problem = problem,
                                        .reached = CAPTURE_REACHED_NONE,
                                        .checks = &b->checks };
        if (identity_get_u32(&b->identity, IDENTITY_WORKER_ID, &worker) == 0)
                ret->worker = worker;
        if (!problem || !run || host_run_lives(run))
                return;
        (void) snprintf(how, HOW_MAX, "%s%s%s%s%s%s", run->cause, run->code[0] ? " (" : "", run->code,
                        run->status[0] ? " " : "", run->status, run->code[0] ? ")" : "");
        ret->ended = run->ended_real;
        ret->ended_how = how;
        ret->ended_peer = run->lost_peer;
        if (ret->step < 0)
                ret->step = run->last_step;
}

/* The copy for exporters. */
static void emit_copy(const struct capture_round *c, const struct capture_about *about,
                      const struct capture_text *t) {
        char taken[CLOCK_TEXT_MAX], worker[16] = "";

        if (about->worker != CAPTURE_WORKER_NONE)
                (void) snprintf(worker, sizeof(worker), "%" PRIu32, about->worker);
        (void) bus_emit(c->bus,
                        EVENT_OF(RUN_CAPTURED, .verb = "stacktraceanalyzer", .node = c->bus->name,
                                 .slice = about->slice, .worker = worker, .run = c->what.run,
                                 .generation = (int64_t) c->what.generation, .episode = c->name,
                                 .round = c->what.round, .taken = clock_text(about->taken, taken),
                                 .late = (int64_t) (about->taken - MIN(about->taken, about->wanted)),
                                 .processes = t->processes, .threads = t->threads,
                                 .problem = about->problem ? about->problem : t->cut ? "cut" : "",
                                 .text = t->text ? t->text : ""),
                        NULL);
}

/* --- Delivery ------------------------------------------------------------------------------------------ */

/* data: the whole capture. */
static void hand_on(struct capture_round *c, const struct capture_about *about,
                    const struct capture_text *text, const uint8_t *data, size_t len) {
        int r = capture_shelf_put(c->directory, about->taken, c->what.round, c->name, data, len,
                                  c->what.file);

        if (r < 0)
                (void) log_warning_errno(r, "%s: the capture is not kept on this host: %m", c->directory);
        if (c->answer) {
                c->answer(c->token, data, len, NULL);
                c->answer = NULL;
                return;
        }
        emit_copy(c, about, text);
        c->what.taken = about->taken;
        capture_send_add(c->send, &c->what, r == 0 ? NULL : data, len);
}

void capture_deliver(struct capture_round *c, const uint8_t *stacks, size_t len,
                     const struct libtpu_status *cores, const char *problem, usec_t taken) {
        _cleanup_finding_list_ struct finding_list more = FINDING_LIST_NULL;
        _cleanup_free_ uint8_t *data = NULL;
        char why[CAPTURE_WHY_MAX] = "", how[HOW_MAX] = "";
        struct capture_text text = { .text = NULL };
        struct capture_about about;
        struct capture_own own;
        int r;

        if (stacks && capture_text_make(stacks, len, CAPTURE_COPY_MAX, &text, why) < 0) {
                log_warning("run %s: its stacks are left out of the capture: %s", c->what.run, why);
                problem = why; /* that this host is there is evidence, too */
                stacks = NULL;
                len = 0;
        }
        describe_capture(c, problem, taken, how, &about);
        find_unanswered(c->bus->host, &more);
        net_tell_links(c->bus, &more);
        if (c->second > 0)
                watch_round(c->bus, c->what.run, c->what.round, &more);
        find_unreached(c, &more, &about.reached);
        list_own_addresses(c->bus->host, &own);
        about.own = &own;
        about.more = &more;
        about.cores = cores;
        r = capture_host_append(stacks, len, &about, &data, &len);
        if (r < 0)
                (void) log_warning_errno(r, "run %s: no capture: %m", c->what.run);
        else
                hand_on(c, &about, &text, data, len);
        free(text.text);
}
