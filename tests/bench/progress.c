/* SPDX-License-Identifier: Apache-2.0 */
/* N lines of a run, for tests/hostd/test_progress_cost.py, which counts instructions. Usage: bench-progress
 * KIND N */
#include "steps.h"
#include "suspicion.h"

static const char *text(const char *kind, unsigned i, char buf[static 256]) {
        if (streq(kind, "maxtext"))
                (void) snprintf(buf, 256, "completed step: %u, seconds: 0.693, TFLOP/s/device: 83.171, "
                                          "Tokens/s/device: 11819.175, "
                                          "total_weights: 262144, loss: 0.334", i);
        else if (streq(kind, "torch"))
                (void) snprintf(buf, 256, "[rank0]: step: %u  loss:  8.1372  memory: 20.1GiB(25.40%%)  tps: "
                                          "2,345  tflops: 12.31", i);
        else
                (void) snprintf(buf, 256, "I0804 08:20:00.0 %u worker.py:210] fetched the next shard of the "
                                          "corpus, 81920 records of it", i);
        return buf;
}

int main(int argc, char *argv[]) {
        unsigned n = argc == 3 ? (unsigned) strtoul(argv[2], NULL, 10) : 0;
        struct run_watch w;

        run_watch_init(&w);
        for (unsigned i = 0; i < n; i++) {
                struct run_stepped stepped;
                struct step_line step;
                char buf[256];
                const char *line = text(argv[1], i, buf);
                usec_t now = (i + 1) * USEC_PER_SEC;

                if (step_of_line(NULL, line, strlen(line), &step))
                        (void) run_watch_step(&w, step.step, now, &stepped);
                else
                        run_watch_line(&w, line, strlen(line), now);
                (void) run_watch_due(&w);
        }
        return w.rhythm.n > RHYTHM_KEPT;
}
