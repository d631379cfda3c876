/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The table of a run's keys (run_keys.def), and what one value of a key may be. All that reads or shows a
 * run goes over it: flags, spec files, JSON, frames, units of systemd, help, the manual page. Pure.
 */
#include "base.h"
#include "run.pb-c.h"

enum run_key_kind {
        RUN_KEY_NAME, /* of a run */
        RUN_KEY_TEXT, /* at most so many bytes; these and all that follow: UTF-8 without control characters
                       */
        RUN_KEY_WORD, /* one of words */
        RUN_KEY_PATH, /* absolute */
        RUN_KEY_IMAGE, /* of a container, as engines name them: no option, path or transport */
        RUN_KEY_NUMBER,
        RUN_KEY_SPAN,  /* microseconds; people write 30s, 10min, 2h */
        RUN_KEY_BYTES, /* people write 512M, 8G; UINT64_MAX is "infinity" */
        RUN_KEY_FLAG,
        RUN_KEY_NUMBERS,    /* "0-3,8" */
        RUN_KEY_DEVICES,    /* device_list_add() */
        RUN_KEY_PREEMPT,    /* one of words, or a command for the shell that begins with '/' */
        RUN_KEY_EXPRESSION, /* progress' step_expression */
        RUN_KEY_RANGE,      /* a number; people write it and that of the next key as "MIN:MAX" */
        RUN_KEY_VARIABLES,  /* lists: */
        RUN_KEY_COMMAND,
        RUN_KEY_NAMES, /* of slices, each once; people write "a,b" */
};

enum run_who {
        RUN_HERE = 1 << 0,
        RUN_SLICES = 1 << 1,
};

struct run_key {
        const char *name;
        enum run_key_kind kind;
        uint64_t least, most; /* of numbers; bytes of texts; entries of lists; most 0: no bound */
        unsigned who;         /* enum run_who */
        const char *value, *help;
        const char *flag;  /* where it is another than the name */
        const char *words; /* blanks between */
        const char *variable, *unit, *slice;
};

#define RUN_KEYS_MAX 64
#define RUN_KEY_TEXT_MAX 48
#define RUN_WHY_MAX 320

size_t run_keys_count(void);
const struct run_key *run_key_at(size_t i);
/* NULL: there is none. */
const struct run_key *run_key_find(const char *name);
/* "memory-total", "MemoryTotal". NULL: people cannot set it so. */
const char *run_key_flag(const struct run_key *k, char buf[static RUN_KEY_TEXT_MAX]);
const char *run_key_ini(const struct run_key *k, char buf[static RUN_KEY_TEXT_MAX]);
/* Its help with its words and its default behind. */
const char *run_key_help(const struct run_key *k, char *buf, size_t size);

/* --- A value in a spec -------------------------------------------------------------------------------- */

bool run_key_is_list(const struct run_key *k);
bool run_key_is_text(const struct run_key *k);
/* Whether it is given: a text that is empty is not, unless the default is another. */
bool run_key_given(const struct run_key *k, const Run__Spec *s);
bool run_key_has_default(const struct run_key *k);
/* Given or the default: the number (of a flag 0 or 1), the text (never NULL), the list. */
uint64_t run_key_number(const struct run_key *k, const Run__Spec *s);
const char *run_key_text(const struct run_key *k, const Run__Spec *s);
char **run_key_list(const struct run_key *k, const Run__Spec *s, size_t *ret_n);
/* 0 or -ENOMEM. The text is copied. */
void run_key_set_number(const struct run_key *k, Run__Spec *s, uint64_t n);
int run_key_set_text(const struct run_key *k, Run__Spec *s, const char *text);
int run_key_append(const struct run_key *k, Run__Spec *s, const char *text);
void run_key_unset(const struct run_key *k, Run__Spec *s);

/*
 * By a person's text: a flag's value, a line of a file. Lists grow by it. -EINVAL with why, which is the
 * same for the same mistake in a flag, a file, JSON and a frame; -ENOMEM.
 */
int run_key_parse(const struct run_key *k, Run__Spec *s, const char *text, char why[static RUN_WHY_MAX]);
/* Whether what is given is within its bounds. -EINVAL with why. An expression is not compiled: tpu-launchd,
 * which is root, checks frames by this. */
int run_key_check(const struct run_key *k, const Run__Spec *s, char why[static RUN_WHY_MAX]);
/* The same of what a person wrote, as a flag, in a file or in JSON: an expression is compiled, too. */
int run_key_check_written(const struct run_key *k, const Run__Spec *s, char why[static RUN_WHY_MAX]);
/* The mistake in words; text may be NULL: it is not shown. Returns -EINVAL. */
int run_key_refuse(const struct run_key *k, const char *text, char why[static RUN_WHY_MAX]);
int run_key_refuse_number(const struct run_key *k, uint64_t n, char why[static RUN_WHY_MAX]);

/* --- Kinds -------------------------------------------------------------------------------------------- */

/* [a-z0-9][a-z0-9-]{0,40} */
bool run_name_is_valid(const char *name);

#define NUMBER_SET_TEXT_MAX 128
#define NUMBER_SET_MAX 8192 /* the highest number of a CPU or NUMA node, and one */
/* A set of small numbers as bits, lowest first: what systemd takes for CPUAffinity and NUMAMask. */
struct number_set {
        uint8_t bits[NUMBER_SET_MAX / 8];
        size_t bytes; /* in use; 0: none was given */
};
/* "0-3,8". The empty text is the empty set. -EINVAL, -ERANGE. */
int number_set_parse(const char *text, struct number_set *ret);

/* The number of a signal of preempt; 0 for "none" and for a command; -EINVAL. */
int run_signal_number(const char *name);

/*
 * Which device nodes a run may open besides the TPU's, as people, intents and the configuration name them:
 * paths below /dev and names of drivers in /proc/devices (char-NAME, block-NAME; '*' stands for any
 * letters), as DeviceAllow= of systemd.resource-control(5) takes them.
 */
#define DEVICE_LIST_MAX 32
#define DEVICE_NODE_MAX 64

/*
 * Appends the entries of text (blanks or commas between; "tpu" stands for those of the TPU and is left out)
 * to *list, a NULL-terminated list (texts.h) or NULL. -EINVAL with bad the entry that is none, -E2BIG
 * beyond DEVICE_LIST_MAX of all, -ENOMEM; *list is then as it was. Pure.
 */
int device_list_add(const char *text, char ***list, char bad[static DEVICE_NODE_MAX]);
