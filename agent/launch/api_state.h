/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside this room only: the API's state, which api.c answers requests with, and api_news.c what the runs
 * report.
 */
#include "api.h"
#include "owners.h"
#include "questions.h"
#include "rights.h"

#define WATCHERS_MAX FRAME_PEERS_MAX /* nobody can keep tpu-hostd out */

struct launch_api {
        sd_event *event;
        const struct host *host;
        const char *identity_config;
        struct runs *runs;
        struct askers askers;
        /* Who gets the list again whenever a run starts or ends; NULL: a free place. */
        struct frame_peer *watchers[WATCHERS_MAX];
        struct owners_cache owners;
        struct questions questions;
        struct refusals refusals;
};
