/* SPDX-License-Identifier: Apache-2.0 */
/* The names of workers against the registry's addresses. */
#include "test.h"
#include "worker_names.h"

static json_t *roster(void) {
        return json_pack("[{s:i, s:s, s:[ss]}, {s:i, s:s, s:[s]}, {s:i, s:s, s:[s]}]", "worker", 0, "host",
                         "h0",
                         "address", "10.0.0.1", "10.1.0.1", "worker", 1, "host", "h1", "address", "10.0.0.2",
                         "worker", 2, "host", "h2", "address", "10.0.0.3");
}

static struct finding judge(const char *found) {
        json_t *r = roster();
        struct finding f;

        worker_names_judge("h0,h1,h2", r, found, &f);
        json_decref(r);
        ASSERT_STREQ(f.check, "preflight.names");
        return f;
}

static void right(void) {
        struct finding f = judge("0 10.1.0.1\n1 10.0.0.2\n2 10.0.0.3\n"); /* another NIC of h0 is h0 */

        ASSERT_EQ(f.verdict, VERDICT_OK);
        ASSERT_STREQ(f.found, "3 names looked up");
        ASSERT_EQ(judge("").verdict, VERDICT_OK);
        ASSERT_EQ(judge("7 10.0.0.9\nx").verdict, VERDICT_OK); /* of a worker that is not there */
}

static void another(void) {
        struct finding f = judge("2 192.0.2.7\n1 10.0.0.3\n");

        ASSERT_EQ(f.verdict, VERDICT_FAIL); /* graver than an address that nobody has */
        ASSERT_STREQ(f.reason, "h1 resolves to 10.0.0.3, which is h2's: worker 1 has 10.0.0.2");
        ASSERT_STREQ(f.remedy, "sudo sed -Ei 's/(\\s)h1(\\s|$)/\\1\\2/g; $a 10.0.0.2 h1' /etc/hosts");
        f = judge("2 192.0.2.7\n");
        ASSERT_EQ(f.verdict, VERDICT_WARN);
        ASSERT_STREQ(f.reason,
                     "h2 resolves to 192.0.2.7, which no host of the slice has: worker 2 has 10.0.0.3");
}

TEST_MAIN(right, another)
