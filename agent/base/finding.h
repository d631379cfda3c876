/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What was found about one subject: the answer of a check. Answers are not errors: a function returns
 * whether it could look; what it saw travels in a finding. Unreadable is UNKNOWN, never FAIL.
 *
 * Fixed size, no allocation: texts that do not fit end in "…".
 */
#include "base.h"

enum verdict {
        VERDICT_OK,
        VERDICT_WARN,
        VERDICT_FAIL,
        VERDICT_UNKNOWN,
        _VERDICT_MAX,
};

struct finding {
        enum verdict verdict;
        char check[32];   /* stable name: "nic.mtu" */
        char subject[64]; /* what was looked at: "eth0"; may be empty when the host itself is meant */
        char found[160];
        char wanted[160]; /* empty: nothing particular was wanted */
        char source[128]; /* who wants it: "profile v6e: Google TPU network guide" */
        char reason[256]; /* why this verdict, when found/wanted do not say it */
        char remedy[256]; /* a command that a person can run */
};

/* "OK", "WARN", "FAIL", "UNKNOWN". */
const char *verdict_name(enum verdict v);
/* Monitoring-plugin exit codes: 0 OK, 1 WARN, 2 FAIL, 3 UNKNOWN. */
int verdict_exit_code(enum verdict v);
/*
 * How grave a verdict is, for max() over many: 0 OK, 1 UNKNOWN, 2 WARN, 3 FAIL. The exit code is another
 * number, whose order says nothing: what is not known (3) is above what is broken (2) there.
 */
int verdict_gravity(enum verdict v);
/* The graver of two, by verdict_gravity(). */
enum verdict verdict_worse(enum verdict a, enum verdict b);
/* Parses verdict_name()'s text. -EINVAL. */
int verdict_parse(const char *name, enum verdict *ret);

/* Empties f and names it. The verdict starts as UNKNOWN. */
void finding_init(struct finding *f, const char *check, const char *subject);
/* Formats into one of the texts of a finding, cut at its size. Use the macro with the array member. */
void finding_format(char *field, size_t size, const char *fmt, ...) _printf_(3, 4);
#define finding_set(member, ...) finding_format((member), sizeof(member), __VA_ARGS__)

/* A growing list (for reports). finding_list_add returns -ENOMEM or -E2BIG past FINDING_LIST_MAX. */
#define FINDING_LIST_MAX 4096
struct finding_list {
        struct finding *items;
        size_t n, size;
};
#define FINDING_LIST_NULL ((struct finding_list) { 0 })
int finding_list_add(struct finding_list *l, const struct finding *f);
void finding_list_clear(struct finding_list *l);
#define _cleanup_finding_list_ _cleanup_(finding_list_clear)
/* OK when the list is empty. */
enum verdict finding_list_worst(const struct finding_list *l);
