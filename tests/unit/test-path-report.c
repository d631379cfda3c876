/* SPDX-License-Identifier: Apache-2.0 */
/* Saved reports of the path proof: there and back again, what is refused, and what two of them tell
 * together. */
#include "path_report.h"
#include "test.h"
#include "verdict.h"

static struct path_result result(const char *from, const char *to, uint32_t mtu, enum proof_answer answer,
                                 enum proof_direction direction, uint32_t passes) {
        struct path_result r = { .nic = "eth1",
                                 .mtu = mtu,
                                 .proof = { .answer = answer, .direction = direction, .passes = passes } };

        (void) snprintf(r.peer, sizeof(r.peer), "%s", to);
        ASSERT_OK(address_parse(from, &r.from));
        ASSERT_OK(address_parse(to, &r.to));
        return r;
}

static void add(struct path_report *p, const struct path_result *r) {
        p->results = reallocarray(p->results, p->n_results + 1, sizeof(*p->results));
        ASSERT_TRUE(p->results);
        ASSERT_OK(path_report_add(p, r));
}

static void name(struct path_report *p, const char *host) {
        *p = (struct path_report){ .packets = 3, .duration = 1500 * USEC_PER_MSEC };
        (void) snprintf(p->host, sizeof(p->host), "%s", host);
        (void) clock_text(1795248741 * USEC_PER_SEC, p->time);
}

/* --- There and back ------------------------------------------------------------------------------------ */

static char *print(const struct path_report *p) {
        json_t *o = path_report_to_json(p);
        char *text = o ? json_dumps(o, JSON_SORT_KEYS) : NULL;

        ASSERT_TRUE(text);
        json_decref(o);
        return text;
}

static void test_round_trip(void) {
        const struct path_result all[] = {
                result("10.0.0.1", "10.0.0.2", 8896, PROOF_PASSES, PROOF_DIRECTION_UNKNOWN, 8896),
                result("10.0.0.1", "10.0.0.3", 8896, PROOF_SMALLER, PROOF_BACK, 1500),
                result("fd00::1", "fd00::3", 8896, PROOF_SMALLER, PROOF_THERE, 1460),
                result("10.0.0.1", "10.0.0.4", 8896, PROOF_PIECES, PROOF_DIRECTION_UNKNOWN, 1460),
                result("10.0.0.1", "10.0.0.5", 8896, PROOF_SILENT, PROOF_DIRECTION_UNKNOWN, 0),
                result("10.0.0.1", "10.0.0.6", 8896, PROOF_REFUSED, PROOF_DIRECTION_UNKNOWN, 0),
        };
        _cleanup_path_report_ struct path_report p = PATH_REPORT_NULL, back = PATH_REPORT_NULL;
        _cleanup_free_ char *text = NULL, *again = NULL;
        char why[PATH_REPORT_WHY_MAX];

        name(&p, "h0");
        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                add(&p, &all[i]);
        p.results[5].proof.error = -ENETUNREACH;
        path_judge(&p.results[5], &p.findings.items[5]);
        text = print(&p);
        ASSERT_OK(path_report_parse(text, strlen(text), &back, NULL, why));
        back.packets = p.packets; /* those are not read */
        back.duration = p.duration;
        again = print(&back);
        ASSERT_STREQ(again, text);
        ASSERT_EQ(back.results[5].proof.error, -ENETUNREACH);
}

static void test_several_in_one_file(void) {
        _cleanup_path_report_ struct path_report p = PATH_REPORT_NULL, back = PATH_REPORT_NULL;
        _cleanup_free_ char *text = NULL, *both = NULL;
        char why[PATH_REPORT_WHY_MAX];
        size_t used;

        name(&p, "h0");
        text = print(&p);
        ASSERT_TRUE(asprintf(&both, "%s\n%s\n", text, text) > 0);
        ASSERT_OK(path_report_parse(both, strlen(both), &back, &used, why));
        ASSERT_EQ(used, strlen(text));
        path_report_clear(&back);
        ASSERT_EQ(path_report_parse(both, strlen(both), &back, NULL, why), -EBADMSG);
}

static void refuse(const char *results, const char *complaint) {
        _cleanup_path_report_ struct path_report back = PATH_REPORT_NULL;
        _cleanup_free_ char *text = NULL;
        char why[PATH_REPORT_WHY_MAX] = "";

        ASSERT_TRUE(asprintf(&text,
                             "{\"host\":\"h1\",\"time\":\"now\",\"checks\":[],\"packets\":1,\"seconds\":1,"
                             "\"results\":%s}",
                             results) > 0);
        ASSERT_EQ(path_report_parse(text, strlen(text), &back, NULL, why), complaint ? -EBADMSG : 0);
        if (complaint && !strstr(why, complaint))
                test_fail(__FILE__, __LINE__, "%s: \"%s\" says nothing of \"%s\"", results, why, complaint);
}

#define FULL "\"mtu\":8896,"
#define ONE(more)                                                                                           \
        "[{\"nic\":\"eth0\",\"peer\":\"h0\",\"from\":\"10.0.0.2\",\"to\":\"10.0.0.1\",\"error\":0,"         \
        "\"exact\":true," more "}]"

#define REST(to)                                                                                            \
        "\"from\":\"10.0.0.2\",\"to\":\"" to "\",\"error\":0,\"exact\":true,\"mtu\":8896,"                  \
        "\"answer\":\"smaller\",\"direction\":\"back\",\"passes\":1500"

static void test_what_is_refused(void) {
        refuse("[]", NULL);
        refuse("{}", "no report of 'tpuctl check path --json'");
        refuse("[1]", "results[0]: ");
        refuse(ONE(FULL "\"answer\":\"smaller\",\"direction\":\"back\",\"passes\":1500"), NULL);
        refuse(ONE(FULL "\"answer\":\"smaller\",\"direction\":\"back\",\"passes\":8896"), "passes");
        refuse(ONE(FULL "\"answer\":\"passes\",\"direction\":\"unknown\",\"passes\":1500"), "passes");
        refuse(ONE(FULL "\"answer\":\"passes\",\"direction\":\"back\",\"passes\":8896"), "direction");
        refuse(ONE(FULL "\"answer\":\"great\",\"direction\":\"back\",\"passes\":8896"), "answer");
        refuse(ONE("\"mtu\":65536,\"answer\":\"silent\",\"direction\":\"unknown\",\"passes\":0"), "mtu");
        refuse(ONE("\"mtu\":1,\"answer\":\"silent\",\"direction\":\"unknown\",\"passes\":0"), "mtu");
        refuse(ONE("\"mtu\":-1,\"answer\":\"silent\",\"direction\":\"unknown\",\"passes\":0"), "mtu");
        refuse(ONE("\"mtu\":8896,\"mtu\":8896"), "line 1");
        refuse("[{\"nic\":\"eth0\",\"peer\":\"h0\",\"from\":\"10.0.0.2\",\"to\":\"10.0.0.1\",\"exact\":true,"
               FULL "\"answer\":\"silent\",\"direction\":\"unknown\",\"passes\":0,"
               "\"error\":-9223372036854775808}]",
               "error");
        refuse("[{\"nic\":\"eth0\\u001b[2J\"}]", "results[0]: ");
        refuse("[{\"nic\":\"eth0\",\"peer\":\"h0\",\"from\":\"10.0.0.3\",\"to\":\"::1\"}]", "mtu");
        refuse("[{\"nic\":\"eth0\\u001b[2J\",\"peer\":\"h0\"," REST("10.0.0.1") "}]", "no name");
        refuse("[{\"nic\":\"eth0\",\"peer\":\"h0\"," REST("10.0.0.300") "}]", "no IP address");
        refuse("[{\"nic\":\"eth0\",\"peer\":\"h0\"," REST("::1") "}]", "two families");
}

/* --- Two together -------------------------------------------------------------------------------------- */

static const struct finding *both(struct path_report *own, const struct path_result *ours,
                                  const struct path_result *theirs) {
        _cleanup_path_report_ struct path_report peer = PATH_REPORT_NULL;

        path_report_clear(own);
        name(own, "h0");
        add(own, ours);
        name(&peer, "h1");
        if (theirs)
                add(&peer, theirs);
        path_report_add_witnesses(own, &peer, 1);
        return &own->findings.items[0];
}

static struct path_result here(enum proof_answer answer, enum proof_direction direction) {
        return result("10.0.0.1", "10.0.0.2", 8896, answer, direction,
                      answer == PROOF_PASSES    ? 8896
                      : answer == PROOF_SMALLER ? 1500
                                                : 0);
}

static struct path_result there(uint32_t mtu, enum proof_answer answer, enum proof_direction direction) {
        return result("10.0.0.2", "10.0.0.1", mtu, answer, direction,
                      answer == PROOF_PASSES    ? mtu
                      : answer == PROOF_SMALLER ? 1500
                                                : 0);
}

static void test_directions(void) {
        static const char *const wanted[3][3] = {
                /* own: unknown, there, back; the peer's: unknown, there, back */
                { "direction UNKNOWN", "from the peer", "towards the peer only" },
                { "towards the peer", "both ways", "towards the peer only" },
                { "from the peer only", "from the peer only", NULL },
        };
        _cleanup_path_report_ struct path_report own = PATH_REPORT_NULL;

        for (enum proof_direction i = PROOF_DIRECTION_UNKNOWN; i <= PROOF_BACK; i++)
                for (enum proof_direction k = PROOF_DIRECTION_UNKNOWN; k <= PROOF_BACK; k++) {
                        const struct path_result ours = here(PROOF_SMALLER, i),
                                                 theirs = there(8896, PROOF_SMALLER, k);
                        const struct finding *f = both(&own, &ours, &theirs);
                        char text[160];

                        ASSERT_EQ(f->verdict, VERDICT_FAIL);
                        if (!wanted[i][k]) {
                                /* Each says that its own way is free: one of them is of another time. */
                                ASSERT_STREQ(f->found, "1500 bytes pass, 8896 do not (from the peer)");
                                ASSERT_TRUE(strstr(f->reason, "path changed between the two runs"));
                                continue;
                        }
                        (void) snprintf(text, sizeof(text), "1500 bytes pass, 8896 do not (%s)",
                                        wanted[i][k]);
                        ASSERT_STREQ(f->found, text);
                        ASSERT_TRUE(strstr(f->reason, "h1's own run (2026-11-21T"));
                }
}

static void test_what_a_witness_cannot_do(void) {
        _cleanup_path_report_ struct path_report own = PATH_REPORT_NULL;
        struct path_result ours, theirs;
        const struct finding *f;

        /* A host that does not answer now is not proven by what was then. */
        ours = here(PROOF_SILENT, PROOF_DIRECTION_UNKNOWN);
        theirs = there(8896, PROOF_PASSES, PROOF_DIRECTION_UNKNOWN);
        f = both(&own, &ours, &theirs);
        ASSERT_EQ(f->verdict, VERDICT_UNKNOWN);
        ASSERT_TRUE(strstr(f->reason, "8896 bytes passed in both directions"));
        /* A black hole that only one of them saw. */
        ours = here(PROOF_SMALLER, PROOF_THERE);
        f = both(&own, &ours, &theirs);
        ASSERT_EQ(f->verdict, VERDICT_FAIL);
        ASSERT_STREQ(f->found, "1500 bytes pass, 8896 do not (towards the peer)");
        ASSERT_TRUE(strstr(f->reason, "path changed"));
        ours = here(PROOF_PASSES, PROOF_DIRECTION_UNKNOWN);
        theirs = there(8896, PROOF_SMALLER, PROOF_THERE);
        f = both(&own, &ours, &theirs);
        ASSERT_EQ(f->verdict, VERDICT_WARN);
        /* A larger NIC's black hole is none of ours, a smaller one's proof says nothing about our size. */
        theirs = there(9000, PROOF_SMALLER, PROOF_THERE);
        f = both(&own, &ours, &theirs);
        ASSERT_EQ(f->verdict, VERDICT_OK);
        ASSERT_STREQ(f->reason, "");
        ours = here(PROOF_SMALLER, PROOF_THERE);
        theirs = there(1460, PROOF_PASSES, PROOF_DIRECTION_UNKNOWN);
        f = both(&own, &ours, &theirs);
        ASSERT_STREQ(f->found, "1500 bytes pass, 8896 do not (towards the peer)");
        ASSERT_FALSE(strstr(f->reason, "changed"));
        /* Another path's report. */
        theirs = result("10.0.1.2", "10.0.1.1", 8896, PROOF_SMALLER, PROOF_BACK, 1500);
        f = both(&own, &ours, &theirs);
        ASSERT_STREQ(f->found, "1500 bytes pass, 8896 do not (towards the peer)");
        ASSERT_TRUE(strstr(f->reason, "no report given"));
        f = both(&own, &ours, NULL);
        ASSERT_TRUE(strstr(f->reason, "no report given"));
}

/* Whatever two results say: seen from the other side it is the same. */
static void test_both_sides_agree(void) {
        for (unsigned i = 0; i < 36; i++) {
                enum proof_answer a = i % 2 ? PROOF_SMALLER : PROOF_PASSES,
                                  b = i / 2 % 2 ? PROOF_SMALLER : PROOF_PASSES;
                enum proof_direction c = a == PROOF_SMALLER ? i / 4 % 3 : 0,
                                     d = b == PROOF_SMALLER ? i / 12 % 3 : 0;
                const struct path_result ours = here(a, c), theirs = there(8896, b, d);
                struct path_legs x, y;

                path_legs_merge(&ours, &theirs, &x);
                path_legs_merge(&theirs, &ours, &y);
                ASSERT_EQ(x.contradiction, y.contradiction);
                if (x.contradiction)
                        continue;
                ASSERT_EQ(x.there, y.back);
                ASSERT_EQ(x.back, y.there);
        }
}

TEST_MAIN(test_round_trip, test_several_in_one_file, test_what_is_refused, test_directions,
          test_what_a_witness_cannot_do, test_both_sides_agree)
