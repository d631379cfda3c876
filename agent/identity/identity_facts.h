/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Apart from identity.h, because this alone needs the messages of tpu-launchd: who this host is, for a
 * RunRequest. tpu-launchd, which reads the static file alone, adds these fields.
 */
#include "identity.h"
#include "local.pb-c.h"

struct identity_facts {
        Local__World world; /* facts alone; the caller sets the rest */
        Local__Fact items[_IDENTITY_FIELD_MAX], *list[_IDENTITY_FIELD_MAX];
};
/* Borrows from i. */
void identity_facts_fill(const struct identity *i, struct identity_facts *ret);
