/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a path proof as JSON. */
#include "path_report.h"

#include "scratch.h"

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

static void test_json(void) {
        const struct path_result all[] = {
                result("10.0.0.1", "10.0.0.2", 8896, PROOF_PASSES, PROOF_DIRECTION_UNKNOWN, 8896),
                result("10.0.0.1", "10.0.0.3", 8896, PROOF_SMALLER, PROOF_BACK, 1500),
                result("fd00::1", "fd00::3", 8896, PROOF_SMALLER, PROOF_THERE, 1460),
                result("10.0.0.1", "10.0.0.4", 8896, PROOF_PIECES, PROOF_DIRECTION_UNKNOWN, 1460),
                result("10.0.0.1", "10.0.0.5", 8896, PROOF_SILENT, PROOF_DIRECTION_UNKNOWN, 0),
                result("10.0.0.1", "10.0.0.6", 8896, PROOF_REFUSED, PROOF_DIRECTION_UNKNOWN, 0),
        };
        static const char *const wanted[][2] = {
                { "passes", "unknown" }, { "smaller", "back" },   { "smaller", "there" },
                { "pieces", "unknown" }, { "silent", "unknown" }, { "refused", "unknown" },
        };
        _cleanup_path_report_ struct path_report p = PATH_REPORT_NULL;
        json_t *o, *results;

        name(&p, "h0");
        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                struct path_result r = all[i];

                if (r.proof.answer == PROOF_REFUSED)
                        r.proof.error = -ENETUNREACH;
                add(&p, &r);
        }
        o = path_report_to_json(&p);
        ASSERT_TRUE(o);
        ASSERT_STREQ(json_string_value(json_object_get(o, "host")), "h0");
        ASSERT_EQ(json_array_size(json_object_get(o, "checks")), ELEMENTSOF(all));
        results = json_object_get(o, "results");
        ASSERT_EQ(json_array_size(results), ELEMENTSOF(all));
        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                const json_t *r = json_array_get(results, i);

                ASSERT_STREQ(json_string_value(json_object_get(r, "answer")), wanted[i][0]);
                ASSERT_STREQ(json_string_value(json_object_get(r, "direction")), wanted[i][1]);
        }
        ASSERT_EQ(json_integer_value(json_object_get(json_array_get(results, 5), "error")), ENETUNREACH);
        json_decref(o);
}

static void test_port(void) {
        static const struct {
                struct path_port port;
                enum proof_answer echo;
                const char *reason; /* NULL: nothing is said */
        } cases[] = {
                { { .tried = false }, PROOF_PASSES, NULL },
                { { .tried = true, .answer = PORT_ANSWERS }, PROOF_PASSES, NULL },
                { { .tried = true, .answer = PORT_REFUSES }, PROOF_SILENT, NULL },
                { { .tried = true, .answer = PORT_SILENT }, PROOF_SILENT, NULL },
                { { .tried = true, .answer = PORT_SILENT }, PROOF_PASSES, "a firewall on 10.0.0.2" },
                { { .tried = true, .answer = PORT_SILENT, .lossy = true }, PROOF_PASSES, "that alone" },
                { { .tried = true, .answer = PORT_SILENT, .lossy = true, .dropped_by = "x" }, PROOF_PASSES,
                  ": x drops" },
                { { .tried = true, .answer = PORT_REJECTED }, PROOF_PASSES, "is rejected" },
                { { .tried = true, .answer = PORT_SILENT, .dropped_by = "x" }, PROOF_SILENT, ": x drops" },
                { { .tried = true, .answer = PORT_NO_WAY, .error = EPERM }, PROOF_REFUSED, "packet filter" },
                { { .tried = true, .answer = PORT_NO_WAY, .error = EINVAL }, PROOF_PASSES, "Invalid arg" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct path_result r =
                        result("10.0.0.1", "10.0.0.2", 8896, cases[i].echo, PROOF_DIRECTION_UNKNOWN, 8896);
                struct finding f;

                r.port = cases[i].port;
                ASSERT_EQ(path_judge_port(&r, &f), cases[i].reason != NULL);
                if (!cases[i].reason)
                        continue;
                ASSERT_EQ(f.verdict,
                          r.port.lossy && !r.port.dropped_by ? VERDICT_WARN : VERDICT_FAIL);
                ASSERT_STREQ(f.check, "path.tcp");
                ASSERT_TRUE(strstr(f.reason, cases[i].reason));
        }
}

/* Numbers stand below their names; a file that is cut or not there says 0. */
static void test_own_drops(void) {
        _cleanup_scratch_ struct scratch s = scratch_new(), none = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL, bare = HOST_NULL;
        struct own_drops d, zero;

        scratch_write(&s, "proc/net/netstat", "TcpExt: SyncookiesSent TCPRetransFail X\nTcpExt: 1 7 9\n"
                                              "IpExt: A\nIpExt: 1\n");
        scratch_write(&s, "proc/net/xfrm_stat", "XfrmInError 5\nXfrmOutPolBlock \t2\nXfrmOutNoStates 1\n");
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_OK(host_open(none.path, &bare));
        own_drops_read(&h, &d);
        own_drops_read(&bare, &zero);
        ASSERT_TRUE(d.refused == 7 && d.ipsec == 3 && zero.refused == 0 && zero.ipsec == 0);
        ASSERT_TRUE(own_drops_words(&d, &d) == NULL);
        ASSERT_TRUE(strstr(own_drops_words(&zero, &d), "IPsec"));
        scratch_write(&s, "proc/net/netstat", "TcpExt: SyncookiesSent TCPRetransFail X\nTcpExt: 1\n");
        own_drops_read(&h, &d);
        ASSERT_EQ(d.refused, 0);
}

TEST_MAIN(test_json, test_port, test_own_drops)
