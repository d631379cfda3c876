/* SPDX-License-Identifier: Apache-2.0 */
/* Step lines as MaxText and Ray print them, and lines that only look like them. */
#include "steps.h"
#include "test.h"

static bool parse(const char *line, struct step_line *ret) {
        return step_line_parse(line, strlen(line), ret);
}

static bool near(double a, double b) {
        return fabs(a - b) < 1e-9;
}

static void real_lines(void) {
        struct step_line s;

        ASSERT_TRUE(parse(
                "completed step: 0, seconds: 11.775, TFLOP/s/device: 13.153, Tokens/s/device: 1391.395, "
                "total_weights: 131072, loss: 12.066",
                &s));
        ASSERT_EQ(s.step, 0);
        ASSERT_TRUE(near(s.seconds, 11.775) && near(s.tflops, 13.153) &&
                    near(s.tokens_per_second, 1391.395) && near(s.loss, 12.066));

        ASSERT_TRUE(parse("(RayTrainWorker pid=130520, ip=10.60.7.7) completed step: 99, seconds: 0.693, "
                          "TFLOP/s/device: 83.171, "
                          "Tokens/s/device: 11819.175, total_weights: 262144, loss: 0.334 [repeated 6x "
                          "across cluster]",
                          &s));
        ASSERT_EQ(s.step, 99);
        ASSERT_TRUE(near(s.seconds, 0.693) && near(s.tokens_per_second, 11819.175) && near(s.loss, 0.334));

        ASSERT_TRUE(parse("(run_maxtext_train pid=78967, ip=10.130.0.11) completed step: 4, seconds: 1.116, "
                          "TFLOP/s/device: 138.799, "
                          "Tokens/s/device: 14683.240, total_weights: 131072, loss: 0.000 [repeated 9x "
                          "across cluster]",
                          &s));
        ASSERT_EQ(s.step, 4);
        ASSERT_TRUE(near(s.loss, 0));
}

static void other_real_lines(void) {
        static const char *const lines[] = {
                "(pid=, ip=10.68.9.5) W0421 04:19:07.570048   20579 grpc_transport.cc:1930] "
                "GetMultiSliceTopology returned with status: "
                "UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: ipv4:10.68.8.5:9915: "
                "connect endpoint failed "
                "(Failed to connect to remote host: Connection refused)",
                "(run_maxtext_train pid=78967, ip=10.130.0.11) Using (GB) 1.59 / 30.75 (5.170732%) on "
                "TPU_4(process=1,(0,0,1,0))",
                "(TrainController pid=23150) Detected changes in the cluster resources. Deciding to resize "
                "the worker group from 4 -> 8 workers.",
                "",
        };
        struct step_line s;

        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                ASSERT_FALSE(parse(lines[i], &s));
}

static void optional_numbers(void) {
        struct step_line s;

        ASSERT_TRUE(parse("completed step: 7, seconds: 0.5", &s));
        ASSERT_TRUE(isnan(s.tflops) && isnan(s.tokens_per_second) && isnan(s.loss));
        ASSERT_TRUE(parse("completed step: 7, seconds: 0.5, loss: nan", &s)); /* diverged, but not stalled */
        ASSERT_TRUE(isnan(s.loss));
        ASSERT_TRUE(parse("completed step: 7, seconds: 0.5, TFLOP/s/device: inf, loss: -1.5e-3\r\n", &s));
        ASSERT_TRUE(isnan(s.tflops) && near(s.loss, -0.0015));
        ASSERT_TRUE(parse("completed step: 7, seconds: 0.5, loss: 1e999, loss: 2", &s));
        ASSERT_TRUE(near(s.loss, 2));
}

static void refused(void) {
        static const char *const lines[] = {
                "completed step: ",
                "completed step: ,",
                "completed step: 1",
                "completed step: 1,",
                "completed step: 1, seconds: ",
                "completed step: -1, seconds: 1",
                "completed step: 1x, seconds: 1",
                "completed step: 0x10, seconds: 1",
                "completed step: 99999999999999999999999, seconds: 1",
                "completed step: 1000000000001, seconds: 1",
                "completed step: 1, seconds: nan",
                "completed step: 1, seconds: inf",
                "completed step: 1, seconds: -0.1",
                "completed step: 1, seconds: 1e6",
                "completed step: 1, seconds: 1e999",
                "completed step: 1, seconds: 0x1p3",
                "completed step: 1, seconds: 1.2.3",
                "completed step: 1, seconds: --1",
                "completed step: 1, seconds: 1s",
                "completed step: 1, seconds: 00000000000000000000000000000000000000001",
                "Completed step: 1, seconds: 1",
                "completed step:1, seconds: 1",
                "completed step: 1 seconds: 1",
        };
        struct step_line s;

        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                if (parse(lines[i], &s))
                        test_fail(__FILE__, __LINE__, "taken: %s", lines[i]);
}

static void hostile(void) {
        static const char nul[] = "x\0completed step: 3, seconds: 1\0, loss: 2";
        static const char twice[] = "completed step: of 9 completed step: 8, seconds: 2, loss: 1";
        static char big[1 << 20];
        struct step_line s;

        /* NUL ends no field: the number in front of it is not followed by what may follow one. */
        ASSERT_FALSE(step_line_parse(nul, sizeof(nul) - 1, &s));
        ASSERT_TRUE(parse(twice, &s));
        ASSERT_EQ(s.step, 8);
        /* Only the length counts: what stands behind it is never read. */
        ASSERT_FALSE(step_line_parse("completed step: 3, seconds: 1", 26, &s));
        ASSERT_TRUE(step_line_parse("completed step: 3, seconds: 12", 29, &s));
        ASSERT_TRUE(near(s.seconds, 1));
        ASSERT_FALSE(step_line_parse(NULL, 0, &s));
        for (size_t i = 0; i + 16 <= sizeof(big); i += 16)
                memcpy(big + i, "completed step: ", 16);
        ASSERT_FALSE(step_line_parse(big, sizeof(big), &s));
        memcpy(big + STEP_LINE_MAX, "completed step: 3, seconds: 1, ", 31); /* behind the limit */
        ASSERT_FALSE(step_line_parse(big, sizeof(big), &s));
}

TEST_MAIN(real_lines, other_real_lines, optional_numbers, refused, hostile)
