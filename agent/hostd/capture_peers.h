/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What this host's connections say of its peers, for a capture: a cut network shows in no stack. What cannot be looked
 * at is no finding.
 */
#include "capture_host.h"
#include "unanswered.h"

/* Those that nobody answers. */
void capture_peers_unanswered(const struct host *h, struct finding_list *ret);
/* A host that is cut off while it had nothing to send is missed by nobody's data: its peers are asked in the first capture
 * of a round, and those that have not answered by the second are told. */
void capture_peers_ask(const struct host *h, struct reach **ret);
void capture_peers_answered(const struct reach *r, struct finding_list *ret, uint32_t *ret_reached);

/* Whose the addresses are that others miss, and on which NIC: this host's own. */
void capture_peers_own(const struct host *h, struct capture_own *ret);
