/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An answer in full: asked for, then printed as JSON or as a screen, then judged. And what is ordered of a
 * host, which several screens show.
 */
#include "ask.h"
#include "ctl.h"
#include "finding.h"

/* A row of a verb's options. */
#define OPTION_JSON(flag) { "json", NULL, "print JSON", NULL, flag }

struct answer_as {
        bool json;
        /* now: the real clock, for ages. The answer may be added to. -errno when it cannot be shown. */
        int (*screen)(json_t *answer, usec_t now, FILE *out);
        enum verdict (*verdict)(const json_t *answer); /* for the exit code; NULL: 0 */
};

/* Prints an answer and drops the reference. The exit code, after saying what is wrong. */
int answer_print(const struct options *o, json_t *answer, const struct answer_as *as);
/* Asks and prints. The exit code, likewise. */
int answer_of_hostd(const struct options *o, const char *path, usec_t timeout, const struct answer_as *as);
/* url: as --collector gave it. */
int answer_of_collector(const struct options *o, const char *url, const char *path,
                        const struct answer_as *as);

/* One order: "WORD by root until …: reason". Nothing when it is null. */
void screen_order(const char *word, const json_t *order, FILE *out);
/* What is ordered, as lines of a status; silences with their checks. label: of the lines. */
void screen_orders(const json_t *status, const char *label, FILE *out);
