/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which host's network does not carry: out of connections that get no answer, as both of their ends report
 * them in either capture (findings PATH_CHECK: subject is the peer's address, found begins with "from
 * ADDRESS,"). A connection has two ends and does not say which of them is cut off; the end that all of them
 * have in common is. Where there is one such connection alone, an end that has since had data of other hosts
 * at the same address is sound, and it is the other end. Where no address stands out, a host may: one whose
 * NICs are all cut off.
 *
 * Where every connection is answered, those that lose packets (link_quote_of()) stand in their place.
 *
 * A datagram that is not answered counts only where others were (a firewall may keep all of their answers
 * back), and where datagrams do not show who it is, TCP alone is asked.
 */
#include "evidence.h"

#define PATH_CHECK "path.answer"
/* Of all bad pairs that an end has to be in, to be the one; fewer than half say nothing. */
#define PATH_SHARE 0.75

struct path_end {
        struct address_text address;
        const char *nic;  /* as its host calls it, ended by ' '; NULL: not known */
        uint32_t host;    /* of the evidence; STACK_NONE: nobody says that it is his */
        uint32_t missing; /* how many others it has no answer from, or get none from it; without those
                             outside */
        bool whole;       /* missing: of all addresses of its host */
        bool carries;     /* others' data came there after the last of a bad connection */
        bool outside;     /* no host's, and missed by several */
        const struct path_end *other; /* an end that it misses */
};

enum paths_verdict {
        PATHS_NOTHING, /* they tell nobody apart */
        PATHS_LIKELY,  /* one end is in more than half of the bad pairs; or the other end carries */
        PATHS_CLEAR,   /* one end is in nearly all, and there are several */
        PATHS_PAIR,    /* there is one bad pair alone: either of its two ends, or what lies between */
        _PATHS_VERDICT_MAX,
};

struct paths {
        struct path_end *ends; /* by address */
        size_t n;
        struct path_end **worst; /* of each host: its end that misses most; NULL: it has none */
        uint32_t most; /* the greatest `missing` of a host's end */
        size_t n_most; /* how many ends have that */
        enum paths_verdict verdict; /* of the ends that miss most */
};
#define PATHS_NULL ((struct paths) { 0 })
void paths_clear(struct paths *p);

/* -ENOMEM. */
int paths_survey(const struct evidence *e, struct paths *ret);

/*
 * What agents say of bad links of their hosts (findings LINK_CHECK, the worst first: subject is the peer's
 * address, found is "from ADDRESS, NIC eth1 to worker 5: 38 RTOs in 10 s"): words for a verdict, and
 * evidence only as paths.h takes them.
 */

#define LINK_CHECK "net.link"

/* The worst of the host's own, of this end alone where there is one (end may be NULL), in either capture;
 * "NIC eth1 to …". NULL: it says nothing. */
const char *link_quote_own(const struct evidence *e, uint32_t host, const struct path_end *end);
/* What the first host, in their order, says of its path to that end, of any where end is NULL; ret_host:
 * who. NULL: nobody. */
const char *link_quote_of(const struct evidence *e, const struct path_end *end, uint32_t *ret_host);
