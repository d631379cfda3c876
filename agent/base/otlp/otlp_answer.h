/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What an HTTP answer to an OTLP export means (OTLP specification 1.11, "OTLP/HTTP Response"; DESIGN,
 * Wire). Pure.
 */
#include "base.h"

enum answer {
        ANSWER_DONE,    /* delivered */
        ANSWER_PARTIAL, /* delivered; the receiver refused some of its points or log records: counted, never
                           sent again */
        ANSWER_REFUSED, /* 400, 413, 422: this content will never be taken: dropped and counted */
        ANSWER_RETRY,   /* 429, 502, 503, 504: later */
        ANSWER_PARKED,  /* anything else: the endpoint or the rights are wrong, the content is kept */
};

#define ANSWER_TEXT_MAX 96

/*
 * content_type may be NULL. text: what to tell a person, for ANSWER_DONE the receiver's warning or empty;
 * rejected: what ANSWER_PARTIAL refused. A 200 with a body that is no OTLP answer (a captive portal's page)
 * parks: nothing says that the content was taken.
 */
enum answer answer_judge(long status, const char *content_type, const void *body, size_t len,
                         uint64_t *ret_rejected, char ret_text[static ANSWER_TEXT_MAX]);
