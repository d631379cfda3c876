/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Settings that are contested, as files say it: tpu-netcfg's (CONTESTED_FILE in its directory) which ones,
 * tpu-hostd's (the same in its own) who writes them. A line each, fields separated by tabs. tpu-netcfg
 * --once takes a line out when it has set that setting, which is how the daemon learns of it.
 */
#include "finding.h"
#include "host.h"

#define CONTESTED_FILE "contested"
#define CONTESTED_MAX 32
#define CONTESTED_TEXT_MAX (CONTESTED_MAX * 640 + 128)

struct contested {
        char check[32], subject[64];  /* of the finding that it explains */
        char setting[64];             /* "net.ipv4.tcp_rmem", "from 10.0.1.5 lookup 847000003" */
        char ours[96], theirs[96];
        unsigned times; /* that others have changed it */
        usec_t since;   /* boot clock */
        int pid;        /* who writes it; 0: not seen */
        char unit[80];  /* its unit; empty: in none */
        char command[96]; /* of a pid; without one: why it was not seen */
};

struct contested_list {
        struct contested items[CONTESTED_MAX];
        size_t n;
};

/* Returns the length, -ENOSPC. */
int contested_format(const struct contested_list *l, const char *boot_id,
                     char buf[static CONTESTED_TEXT_MAX]);
/* -EBADMSG: ret is untouched. Of another boot: none. */
int contested_parse(const char *text, size_t len, const char *boot_id, struct contested_list *ret);
/* Whether it may stand in a remedy, which a person types as root. */
bool contested_is_unit(const char *unit);
/* What tpu-netcfg says, with what tpu-hostd knows of who writes them. No file: none. */
int contested_load(const struct host *h, struct contested_list *ret);
/* tpu-netcfg's alone. */
int contested_load_settings(const struct host *h, struct contested_list *ret);
/* The same setting, of the same contest; NULL: none. */
const struct contested *contested_find(const struct contested_list *l, const struct contested *c);
/* Says in a finding that is not OK that its setting is contested, by whom, and what ends it. */
void contested_explain(const struct host *h, struct finding *f);
/* The reason in words, and the command that ends it. */
void contested_words(const struct host *h, const struct contested *c, struct finding *f);
