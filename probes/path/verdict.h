/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What became of one path, as a finding "path.mtu". Pure. */
#include "finding.h"
#include "lane.h"
#include "proof.h"

#define PATH_CHECK "path.mtu"

struct path_facts {
        const char *nic; /* "eth0" */
        const char *name; /* the peer's, as it was asked for */
        const union path_address *from, *to; /* NULL: not known */
        uint32_t mtu; /* of the NIC; 0: not known */
};

/* Makes the subject: "eth0→h3 (10.10.0.13)"; a long name is cut, never the address. */
void path_finding_init(struct finding *f, const struct path_facts *p);
void path_judge(const struct path_facts *p, const struct proof_result *r, struct finding *ret);
