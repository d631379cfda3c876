/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include "links.h"
#include "pathproof.h"
#include "path_plan.h"
#include "verdict.h"

#define BURST 16 /* packets between two looks at the answers: their jumbo buffers must fit the sockets' */
#define PING_GROUPS "/proc/sys/net/ipv4/ping_group_range"

struct pathproof {
        sd_event *event; /* borrowed, as host */
        const struct host *host;
        bool asked_for;
        void (*done)(struct path_report *r, void *userdata);
        void *userdata;

        struct link_table links;
        struct path_plan plan;
        struct resolver *resolver;
        struct path_report report;
        usec_t started;

        struct lane *lanes[PROOF_LANES_MAX];
        union path_address sources[PROOF_LANES_MAX];
        sd_event_source *io[PROOF_LANES_MAX][2];
        size_t n_lanes;
        size_t *targets; /* target → path */
        size_t n_targets;
        struct proof *proof;
        sd_event_source *timer;
};

struct pathproof *pathproof_free(struct pathproof *p) {
        if (!p)
                return NULL;
        (void) sd_event_source_disable_unref(p->timer);
        for (size_t i = 0; i < p->n_lanes; i++) {
                (void) sd_event_source_disable_unref(p->io[i][0]);
                (void) sd_event_source_disable_unref(p->io[i][1]);
                (void) lane_free(p->lanes[i]);
        }
        (void) resolver_free(p->resolver);
        (void) proof_free(p->proof);
        path_plan_clear(&p->plan);
        link_table_clear(&p->links);
        path_report_clear(&p->report);
        free(p->targets);
        free(p);
        return NULL;
}

static usec_t now_of(const struct pathproof *p) {
        return host_now(p->host);
}

/* Ends the run; p may be gone afterwards. */
static void finish(struct pathproof *p) {
        if (host_name(p->host, p->report.host) < 0)
                p->report.host[0] = '\0';
        (void) clock_text(host_now_real(p->host), p->report.time);
        p->report.duration = now_of(p) - p->started;
        p->done(&p->report, p->userdata);
}

static int unknown(struct pathproof *p, const char *found, const char *reason, const char *remedy) {
        struct finding f;

        finding_init(&f, PATH_CHECK, NULL);
        finding_set(f.found, "%s", found);
        finding_set(f.reason, "%s", reason);
        finding_set(f.remedy, "%s", remedy);
        return finding_list_add(&p->report.findings, &f);
}

/* --- Proving ------------------------------------------------------------------------------------------- */

static struct path *path_of(const struct pathproof *p, size_t target) {
        return &p->plan.paths[p->targets[target]];
}

static void drain(struct pathproof *p) {
        struct lane_answer a;

        for (size_t i = 0; p->proof && i < p->n_lanes; i++)
                while (lane_receive(p->lanes[i], &a) > 0)
                        if (a.packet.target < p->n_targets &&
                            address_equal(&a.from, &path_of(p, a.packet.target)->what.to))
                                proof_answered(p->proof, &a.packet, a.fragment);
}

static unsigned lane_of(const struct pathproof *p, const struct path *x) {
        unsigned i = 0;

        while (i < p->n_lanes && !address_equal(&p->sources[i], &x->what.from))
                i++;
        return i;
}

static void judge(struct pathproof *p) {
        for (size_t i = 0; i < p->n_targets; i++) {
                struct path_result *r = &path_of(p, i)->what;

                proof_result(p->proof, i, &r->proof);
                if (path_report_add(&p->report, r) < 0)
                        break; /* no memory: fewer results than paths */
        }
        finish(p);
}

static void pump(struct pathproof *p) {
        struct proof_packet packet;
        usec_t wake = 0;

        drain(p);
        for (unsigned sent = 1; proof_next(p->proof, now_of(p), &packet, &wake) > 0; sent++) {
                const struct path *x = path_of(p, packet.target);
                int r = lane_send(p->lanes[lane_of(p, x)], &x->what.to, &packet);

                p->report.packets++;
                if (r < 0 && r != -EAGAIN)
                        proof_refused(p->proof, &packet, r);
                if (sent % BURST == 0)
                        drain(p);
        }
        if (wake == USEC_INFINITY)
                judge(p); /* p may be gone */
        else {
                (void) sd_event_source_set_time(p->timer, wake); /* our own clock and source: cannot fail */
                (void) sd_event_source_set_enabled(p->timer, SD_EVENT_ONESHOT);
        }
}

static int on_time(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s;
        (void) usec;
        pump(userdata);
        return 0;
}

static int on_answer(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        (void) s;
        (void) fd;
        (void) events;
        drain(userdata);
        /* The last answer may have settled everything; what is next is asked soon, not within this handler.
         */
        (void) sd_event_source_set_time(((struct pathproof *) userdata)->timer, 0);
        (void) sd_event_source_set_enabled(((struct pathproof *) userdata)->timer, SD_EVENT_ONESHOT);
        return 0;
}

/* --- Starting ------------------------------------------------------------------------------------------ */

static int watch(struct pathproof *p, int fd, sd_event_source **ret) {
        int r = sd_event_add_io(p->event, ret, fd, EPOLLIN, on_answer, p);

        return r < 0 ? r : sd_event_source_set_description(*ret, "path: answers");
}

static int not_permitted(struct pathproof *p) {
        char range[64], reason[256];
        int r = host_read(p->host, PING_GROUPS, range, sizeof(range), NULL);

        for (char *c = range; r == 0 && *c; c++)
                if (*c == '\t')
                        *c = ' ';
        (void) snprintf(reason, sizeof(reason),
                        "net.ipv4.ping_group_range is \"%s\": no group of this process (gid %u) is in it, "
                        "so it may not send an echo",
                        r == 0 ? range : "not readable", (unsigned) getegid());
        return unknown(p, "not tried: ping sockets are not permitted", reason,
                       "sysctl -w net.ipv4.ping_group_range='0 2147483647'");
}

static int add_lane(struct pathproof *p, const struct path *x) {
        uint64_t secret;
        int r;

        if (p->n_lanes == PROOF_LANES_MAX)
                return -E2BIG;
        if (getrandom(&secret, sizeof(secret), 0) != (ssize_t) sizeof(secret))
                return -EIO;
        r = lane_new(&x->what.from, secret, &p->lanes[p->n_lanes]);
        if (r < 0)
                return r;
        p->sources[p->n_lanes++] = x->what.from;
        r = watch(p, lane_ping_fd(p->lanes[p->n_lanes - 1]), &p->io[p->n_lanes - 1][0]);
        return r < 0 ? r : watch(p, lane_udp_fd(p->lanes[p->n_lanes - 1]), &p->io[p->n_lanes - 1][1]);
}

/* Returns 0 with targets and lanes, or -EACCES and others. */
static int make_targets(struct pathproof *p, struct proof_target *targets) {
        for (size_t i = 0; i < p->plan.n; i++) {
                const struct path *x = &p->plan.paths[i];
                unsigned lane;
                int r;

                if (!x->usable)
                        continue;
                if (p->n_targets == PROOF_TARGETS_MAX)
                        return -E2BIG;
                lane = lane_of(p, x);
                if (lane == p->n_lanes) {
                        r = add_lane(p, x);
                        if (r < 0)
                                return r;
                }
                targets[p->n_targets] = (struct proof_target){ .full = x->what.mtu, .lane = lane };
                p->targets[p->n_targets++] = i;
        }
        return 0;
}

static int nothing_to_try(struct pathproof *p) {
        struct finding f;

        if (p->report.findings.n > 0)
                return 0;
        if (p->plan.n == 0)
                return unknown(p, "not tried: no peer is known",
                               "the identity names no workers, and no peer is configured",
                               "tpuctl check path --peer HOST; or WorkerHostnames= in "
                               "/etc/tpu-hostd/identity.conf.d/");
        finding_init(&f, PATH_CHECK, NULL);
        f.verdict = VERDICT_OK;
        finding_set(f.found, "no peer but this host: there is no path to prove");
        return finding_list_add(&p->report.findings, &f);
}

static int start_proof(struct pathproof *p) {
        _cleanup_free_ struct proof_target *targets = calloc(p->plan.n + 1, sizeof(*targets));
        int r;

        p->targets = calloc(p->plan.n + 1, sizeof(*p->targets));
        if (!targets || !p->targets)
                return -ENOMEM;
        r = make_targets(p, targets);
        if (r < 0)
                return r;
        if (p->n_targets == 0)
                return nothing_to_try(p);
        p->report.results = calloc(p->n_targets, sizeof(*p->report.results));
        if (!p->report.results)
                return -ENOMEM;
        r = proof_new(targets, p->n_targets, &p->proof);
        if (r < 0)
                return r;
        r = sd_event_add_time(p->event, &p->timer, CLOCK_BOOTTIME, 0, USEC_PER_MSEC, on_time, p);
        return r < 0 ? r : sd_event_source_set_description(p->timer, "path: next packet");
}

static int could_not(struct pathproof *p, int error) {
        char reason[128];

        if (error == -EACCES)
                return not_permitted(p);
        (void) snprintf(reason, sizeof(reason), "%s",
                        error == -E2BIG ? "too many paths: name fewer peers" : strerror(-error));
        return unknown(p, "not tried", reason, "tpuctl check path --peer HOST");
}

static void on_names(void *userdata) {
        struct pathproof *p = userdata;
        int r = path_plan_route(&p->plan, p->host, &p->links, p->asked_for, &p->report.findings);

        if (r == 0)
                r = start_proof(p);
        if (r < 0)
                (void) could_not(
                        p,
                        r); /* without memory for one finding, the empty list says that nothing is known */
        if (r < 0 || p->n_targets == 0)
                finish(p);
}

int pathproof_new(sd_event *e, const struct host *h, const struct intent *intent,
                  const struct path_peers *peers, bool asked_for,
                  void (*done)(struct path_report *r, void *userdata), void *userdata,
                  struct pathproof **ret) {
        _cleanup_(pathproof_freep) struct pathproof *p = calloc(1, sizeof(*p));
        int r;

        if (!p)
                return -ENOMEM;
        *p = (struct pathproof){
                .event = e, .host = h, .asked_for = asked_for, .done = done, .userdata = userdata
        };
        if (!h->real_root)
                return -EOPNOTSUPP;
        p->started = now_of(p);
        r = links_read(h, &p->links);
        if (r == 0)
                r = path_plan_make(&p->links, intent, peers, &p->plan);
        if (r == 0)
                r = resolver_new(e, &p->plan, PATHPROOF_NAMES_TIME, on_names, p, &p->resolver);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}
