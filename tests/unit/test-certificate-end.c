/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a certificate before, in and after its time. */
#include "uplink_part.h"
#include "test.h"

#define HOUR (3600 * USEC_PER_SEC)
#define BEGIN (1000000 * HOUR)

static struct finding at(usec_t life, usec_t now, enum verdict gravest) {
        const struct certificate_end c = { .not_before = BEGIN,
                                           .not_after = BEGIN + life,
                                           .path = "/x.pem",
                                           .what_then = "nothing goes",
                                           .gravest = gravest };
        struct finding f;

        finding_init(&f, "a.certificate", "");
        certificate_end_judge(&c, now, &f);
        return f;
}

static void test_verdicts(void) {
        static const struct {
                usec_t life, since_begin;
                enum verdict wanted;
                const char *reason;
        } cases[] = {
                { 24 * HOUR, 0, VERDICT_OK, "" },
                { 24 * HOUR, 16 * HOUR, VERDICT_OK, "" },
                { 24 * HOUR, 17 * HOUR, VERDICT_WARN,
                  "the certificate ends in 7 h, and nobody has renewed it" },
                { 24 * HOUR, 24 * HOUR, VERDICT_FAIL, "the certificate has expired: nothing goes" },
                /* 14 days, not a third of a year */
                { 8760 * HOUR, 8760 * HOUR - 336 * HOUR, VERDICT_OK, "" },
                { 8760 * HOUR, 8760 * HOUR - 335 * HOUR, VERDICT_WARN,
                  "the certificate ends in 335 h, and nobody has renewed it" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct finding f = at(cases[i].life, BEGIN + cases[i].since_begin, VERDICT_FAIL);

                ASSERT_EQ(f.verdict, cases[i].wanted);
                ASSERT_STREQ(f.reason, cases[i].reason);
                ASSERT_STREQ(f.remedy,
                             f.verdict == VERDICT_OK ? "" : "openssl x509 -noout -dates -in /x.pem");
        }
        ASSERT_EQ(at(24 * HOUR, BEGIN - 1, VERDICT_FAIL).verdict, VERDICT_FAIL);
        ASSERT_EQ(at(24 * HOUR, BEGIN - 1, VERDICT_WARN).verdict, VERDICT_WARN);
        ASSERT_EQ(at(24 * HOUR, BEGIN + 25 * HOUR, VERDICT_WARN).verdict, VERDICT_WARN);
}

TEST_MAIN(test_verdicts)
