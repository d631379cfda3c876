/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a run, each with a byte before it that says how much time went by: whatever they are, what is
 * learned stays within its bounds, and a suspicion has its reason. The first line is tried as an expression
 * of step lines.
 */
#include <math.h>

#include "steps.h"
#include "suspicion.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct run_watch *w, usec_t now) {
        usec_t due = run_watch_due(w);

        if (w->rhythm.n > RHYTHM_KEPT || w->pauses.n > PAUSE_CHAINS || w->activity.n > ACTIVITY_KEPT ||
            w->last_at > now ||
            (due != USEC_INFINITY && due < w->last_at) ||
            (w->suspicion.suspected && (!w->suspicion.why[0] || w->suspicion.at > now)))
                abort();
}

static struct step_expression *expression(const char *line, size_t len) {
        char text[128], why[96] = "";
        struct step_expression *e = NULL;

        if (len == 0 || len >= sizeof(text) || memchr(line, '\0', len) || memchr(line, '*', len) ||
            memchr(line, '+', len))
                return NULL; /* the C library's matcher takes long for some of these: hostd measures it */
        memcpy(text, line, len);
        text[len] = '\0';
        if (step_expression_new(text, why, sizeof(why), &e) < 0 && !why[0])
                abort();
        return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const uint8_t *end = data + size, *eol = size > 0 ? memchr(data, '\n', size) : NULL;
        _cleanup_(step_expression_freep) struct step_expression *e =
                eol ? expression((const char *) data, (size_t) (eol - data)) : NULL;
        struct activity_reading r = { .at = USEC_PER_SEC, .device_idle = -1 };
        usec_t now = USEC_PER_SEC;
        struct run_watch w;

        run_watch_init(&w);
        for (const uint8_t *p = eol ? eol + 1 : end; p < end; p = eol + 1) {
                const char *line = (const char *) p + 1;
                struct run_stepped stepped;
                struct suspicion ended;
                struct step_line step;
                size_t len;

                eol = memchr(p, '\n', (size_t) (end - p));
                if (!eol)
                        break;
                len = eol > p ? (size_t) (eol - p - 1) : 0;
                now += (usec_t) *p * *p * USEC_PER_SEC / 32;
                r.at = now;
                r.cpu_usec += *p * 10000;
                r.net_bytes += *p * 1000;
                if (step_of_line(len % 2 ? e : NULL, line, len, &step)) {
                        if (step.step > STEP_MAX ||
                            !(isnan(step.seconds) ||
                              (step.seconds >= 0 && step.seconds <= STEP_SECONDS_MAX)) ||
                            isinf(step.tflops) || isinf(step.tokens_per_second) || isinf(step.loss))
                                abort();
                        (void) run_watch_step(&w, step.step, now, &stepped);
                } else
                        run_watch_line(&w, line, len, now);
                check(&w, now);
                if (*p % 4 == 0)
                        (void) run_watch_reading(&w, &r, &ended);
                (void) run_watch_judge(&w, now);
                check(&w, now);
        }
        return 0;
}
