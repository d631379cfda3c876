/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What every check says, by id: check_words.def is the one list of verdicts, wanted values, sources, reasons
 * and remedies. A probe or judge gives what it found, and the fields of the texts: {} is the subject, {1} to
 * {9} are the fields.
 *
 * A remedy is a command line that a person can type as it stands: commands with "; " or " | " between, then
 * perhaps "# " and words for the reader. tests/structure/test_remedies.py holds the list to that.
 */
#include "finding.h"

enum check_words {
#define WORDS(id, check, verdict, wanted, source, reason, remedy) WORDS_##id,
#include "check_words.def"
#undef WORDS
        _WORDS_MAX,
};

/* Says it in f, which has its check and subject: what the list leaves empty stays as it is. */
void check_fill(struct finding *f, enum check_words w, const char *const *fields, size_t n);
#define CHECK_FIELDS(...)                                                                                   \
        (const char *const[]) {                                                                             \
                "", ##__VA_ARGS__                                                                           \
        }
#define check_say(f, w, ...)                                                                                \
        check_fill((f), (w), CHECK_FIELDS(__VA_ARGS__), sizeof(CHECK_FIELDS(__VA_ARGS__)) / sizeof(char *))

/* Whether f has the remedy of the list, which has no fields. */
bool check_says(const struct finding *f, enum check_words w);

/* Begins f with the list's check name, and says it. */
void check_begin(struct finding *f, enum check_words w, const char *subject);
#define check_tell(f, w, subject, ...)                                                                      \
        do {                                                                                                \
                check_begin((f), (w), (subject));                                                           \
                check_say((f), (w), ##__VA_ARGS__);                                                         \
        } while (0)
