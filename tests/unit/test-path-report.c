/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a path proof as JSON. */
#include "path_report.h"
#include "test.h"

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

TEST_MAIN(test_json)
