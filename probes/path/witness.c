/* SPDX-License-Identifier: Apache-2.0 */
#include "verdict.h"
#include "witness.h"

/* --- Ways ---------------------------------------------------------------------------------------------- */

void path_ways_of(const struct proof_result *r, struct path_ways *ret) {
        *ret = (struct path_ways){ 0 };
        if (r->answer == PROOF_PASSES)
                ret->there = ret->back = PATH_WAY_CARRIES;
        else if (r->answer == PROOF_SMALLER && r->direction == PROOF_THERE)
                ret->there = PATH_WAY_DROPS;
        else if (r->answer == PROOF_SMALLER && r->direction == PROOF_BACK)
                *ret = (struct path_ways){ .there = PATH_WAY_CARRIES, .back = PATH_WAY_DROPS };
}

/* What a way at the peer's full size says about it at ours. */
static enum path_way at_size(enum path_way way, uint32_t theirs, uint32_t ours) {
        if ((way == PATH_WAY_CARRIES && theirs < ours) || (way == PATH_WAY_DROPS && theirs > ours))
                return PATH_WAY_UNKNOWN;
        return way;
}

static bool join(enum path_way *own, enum path_way theirs) {
        if (*own == PATH_WAY_UNKNOWN)
                *own = theirs;
        return theirs == PATH_WAY_UNKNOWN || *own == theirs;
}

void path_ways_merge(const struct path_result *own, const struct path_result *theirs,
                     struct path_ways *ret) {
        struct path_ways w, alone, seen;
        bool agree;

        path_ways_of(&own->proof, &alone);
        path_ways_of(&theirs->proof, &seen);
        w = alone;
        agree = join(&w.there, at_size(seen.back, theirs->mtu, own->mtu));
        agree = join(&w.back, at_size(seen.there, theirs->mtu, own->mtu)) && agree;
        /* An echo that failed needs a way that drops. */
        if (w.there == PATH_WAY_CARRIES && w.back == PATH_WAY_CARRIES &&
            (own->proof.answer == PROOF_SMALLER ||
             (theirs->proof.answer == PROOF_SMALLER && theirs->mtu <= own->mtu)))
                agree = false;
        if (!agree)
                w = alone;
        w.contradiction = !agree;
        *ret = w;
}

/* --- Words --------------------------------------------------------------------------------------------- */

static const char *direction_of(const struct path_ways *w) {
        if (w->there == PATH_WAY_DROPS && w->back == PATH_WAY_DROPS)
                return "both ways";
        if (w->there == PATH_WAY_DROPS)
                return w->back == PATH_WAY_CARRIES ? "towards the peer only" : "towards the peer";
        if (w->back == PATH_WAY_DROPS)
                return w->there == PATH_WAY_CARRIES ? "from the peer only" : "from the peer";
        return "direction UNKNOWN";
}

/* Of full datagrams: what the sender's closed-port answers told. */
static const char *told_here(const struct proof_result *r) {
        switch (r->direction) {
        case PROOF_THERE:
                return "full datagrams do not arrive there";
        case PROOF_BACK:
                return "full datagrams do arrive there";
        case PROOF_DIRECTION_UNKNOWN:
                break;
        }
        return "no datagram is answered there";
}

static void tell_of(const struct path_report *report, const struct path_result *theirs, char *buf,
                    size_t size) {
        const struct proof_result *r = &theirs->proof;
        char what[96];

        if (r->answer == PROOF_PASSES)
                (void) snprintf(what, sizeof(what), "%" PRIu32 " bytes passed both ways", theirs->mtu);
        else if (r->answer != PROOF_SMALLER)
                (void) snprintf(what, sizeof(what), "no path was settled");
        else if (r->direction == PROOF_DIRECTION_UNKNOWN)
                (void) snprintf(what, sizeof(what), "%" PRIu32 " bytes passed, no datagram was answered",
                                r->passes);
        else
                (void) snprintf(what, sizeof(what), "%" PRIu32 " bytes passed, its full datagrams %s here",
                                r->passes, r->direction == PROOF_BACK ? "arrive" : "do not arrive");
        (void) snprintf(buf, size, "%s's own run (%s): %s", report->host[0] ? report->host : "the peer",
                        report->time[0] ? report->time : "no time", what);
}

static void add_to_reason(struct finding *f, const char *text) {
        char before[sizeof(f->reason)];

        (void) snprintf(before, sizeof(before), "%s", f->reason);
        finding_set(f->reason, "%s%s%s", before, before[0] ? "; " : "", text);
}

static void merge_smaller(const struct path_result *own, const struct path_ways *w, const char *told,
                          struct finding *f) {
        if (w->contradiction) {
                finding_set(f->reason, "here %s; %s: the path changed between the two runs",
                            told_here(&own->proof), told);
                return;
        }
        finding_set(f->found, "%" PRIu32 " bytes pass, %" PRIu32 " do not (%s)", own->proof.passes, own->mtu,
                    direction_of(w));
        finding_set(f->reason, "larger packets vanish without a word: connections open, then stall; %s; %s",
                    told_here(&own->proof), told);
}

static void add_witness(const struct path_result *own, const struct path_report *report,
                        const struct path_result *theirs, struct finding *f) {
        struct path_ways w;
        char told[320];

        path_ways_merge(own, theirs, &w);
        tell_of(report, theirs, told, sizeof(told));
        switch (own->proof.answer) {
        case PROOF_SMALLER:
                merge_smaller(own, &w, told, f);
                break;
        case PROOF_PASSES:
                if (!w.contradiction)
                        break;
                f->verdict = VERDICT_WARN;
                finding_set(f->reason, "%s: the path changed between the two runs, or differs by packet",
                            told);
                finding_set(f->remedy, "again here and on the peer: tpuctl check path");
                break;
        case PROOF_SILENT:
        case PROOF_OPEN:
        case PROOF_PIECES:
        case PROOF_REFUSED:
                add_to_reason(f, told);
                break;
        }
}

/* --- Reports ------------------------------------------------------------------------------------------- */

const struct path_result *path_witness_find(const struct path_report *report,
                                            const struct path_result *own) {
        for (size_t i = 0; i < report->n_results; i++) {
                const struct path_result *r = &report->results[i];

                if (address_equal(&r->from, &own->to) && address_equal(&r->to, &own->from))
                        return r;
        }
        return NULL;
}

void path_report_add_witnesses(struct path_report *own, const struct path_report *peers, size_t n) {
        for (size_t i = 0; i < own->n_results; i++) {
                const struct path_result *x = &own->results[i];
                struct finding *f = &own->findings.items[x->finding];
                bool found = false;

                for (size_t k = 0; k < n && !found; k++) {
                        const struct path_result *theirs = path_witness_find(&peers[k], x);

                        found = theirs != NULL;
                        if (found)
                                add_witness(x, &peers[k], theirs, f);
                }
                if (!found && x->proof.answer == PROOF_SMALLER)
                        add_to_reason(f, "no report given is of this path's other end");
        }
}
