/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which links are bad, and how that is reported to a person. Pure. */
#include "finding.h"
#include "flows.h"

#define FLOW_LINK_CHECK "net.link" /* collector/diagnose reads these findings */
#define FLOW_TEXT_MAX 256

/*
 * What makes a link bad. A lost segment is retransmitted within a round trip or two; a timer that runs out
 * (200 ms at least, Linux TCP_RTO_MIN) means that not even that arrived, and a collective waits for the
 * slowest: three in ten seconds are no accident. With a share p of segments lost TCP sends no more than
 * about 1.2/sqrt(p) segments a round trip (Mathis et al. 1997): twelve at 1 %, which is bad wherever it is
 * more than a few segments by chance.
 */
#define FLOW_BAD_TIMEOUTS 3 /* in 10 s */
#define FLOW_BAD_SHARE 0.01
#define FLOW_BAD_RETRANSMITS 20 /* at least, of that share */
#define FLOW_BAD_SYN_RETRIES 2  /* 3 s without an answer: they come after 1 and 2 s more (RFC 6298) */
#define FLOW_GOOD_FOR 3         /* dumps without a reason end it */

/* Of a run, or to a worker: what is judged. Others' links are shown only. */
bool flow_is_judged(const struct flow_link *l);
/* In flows_end(). */
void flow_judge(const struct flows *f, struct flow_link *l);

/* "worker 5", or the address. */
const char *flow_peer_text(const struct flow_link *l, char buf[static FLOW_NAME_MAX]);
const char *flow_address_text(uint8_t family, const uint8_t *address, char buf[static FLOW_NAME_MAX]);
/* "NIC eth1 to worker 5: 38 RTOs in 10 s, 3.1 % of segments retransmitted". */
void flow_link_text(const struct flows *f, const struct flow_link *l, char buf[static FLOW_TEXT_MAX]);
/* One sentence over all links of all runs. */
void flow_summary(const struct flows *f, char buf[static FLOW_TEXT_MAX]);
/* Whether the largest receive buffer suffices for the runs' connections, with numbers. VERDICT_UNKNOWN: no
 * dump yet, or the limit is not known. */
enum verdict flow_receive_text(const struct flows *f, char buf[static FLOW_TEXT_MAX]);

/* < 0: a is worse. */
int flow_compare(const struct flow_link *a, const struct flow_link *b);
/* The worst that is worse than none of those before it (NULL: the first), for runs of more than one; NULL:
 * no more. For the few that a person sees or a capture holds. */
const struct flow_link *flow_next_bad(const struct flows *f, const struct flow_link *before);

/* A WARN for each bad link, the worst first, most at most: subject is the peer's address, found "from LOCAL,
 * " and flow_link_text(). -ENOMEM. */
int flow_tell(const struct flows *f, size_t most, struct finding_list *list);
