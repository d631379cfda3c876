/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of the query API against docs/api.md. */
#include "api_json.h"
#include "runs_json.h"
#include "settings.h"
#include "test.h"
#include "uplink_part.h"

static const struct health_policy policy = { .fail_after = 1, .heal_after = 1, .hold = 0 };

static void take(struct check_table *t, const char *check, enum verdict v, const char *found,
                 const char *wanted, const char *reason, usec_t now) {
        struct check_change c;
        struct finding f;

        finding_init(&f, check, "eth0");
        f.verdict = v;
        finding_set(f.found, "%s", found);
        finding_set(f.wanted, "%s", wanted);
        finding_set(f.reason, "%s", reason);
        (void) check_table_take(t, &policy, 0, 1, &f, now, &c);
}

static const char *text_at(json_t *o, const char *key) {
        return json_string_value(json_object_get(o, key));
}

static void test_checks(void) {
        struct check_table t;
        json_t *v, *one;

        ASSERT_OK(check_table_init(&t));
        take(&t, "nic.mtu", VERDICT_FAIL, "1460", "8896", "", 10 * USEC_PER_SEC);
        take(&t, "nic.link", VERDICT_OK, "up", "", "", 20 * USEC_PER_SEC);
        take(&t, "nic.other", VERDICT_WARN, "x", "", "because", 20 * USEC_PER_SEC);
        v = api_json_checks(&t, 30 * USEC_PER_SEC, (usec_t) 1795237230000000);
        ASSERT_EQ(json_array_size(json_object_get(v, "checks")), 3);
        one = json_array_get(json_object_get(v, "checks"), 0);
        ASSERT_STREQ(text_at(one, "verdict"), "FAIL");
        ASSERT_STREQ(text_at(one, "settled"), "FAIL");
        ASSERT_STREQ(text_at(one, "since"), "2026-11-21T05:00:10.000Z");
        json_decref(v);
        v = api_json_reasons(&t, 30 * USEC_PER_SEC, (usec_t) 1795237230000000);
        ASSERT_EQ(json_array_size(v), 2); /* what is OK is no reason */
        ASSERT_STREQ(text_at(json_array_get(v, 0), "reason"), "found 1460, wanted 8896");
        ASSERT_STREQ(text_at(json_array_get(v, 1), "reason"), "because");
        ASSERT_STREQ(text_at(json_array_get(v, 1), "since"), "2026-11-21T05:00:20.000Z");
        ASSERT_EQ(json_integer_value(json_object_get(json_array_get(v, 1), "worsened")), 1);
        ASSERT_TRUE(json_is_null(json_object_get(json_array_get(v, 1), "last_good"))); /* never */
        json_decref(v);
        check_table_clear(&t);
}

static void test_status(void) {
        static struct bus b;
        struct host_runs *runs = calloc(1, sizeof(*runs));
        json_t *v;

        ASSERT_TRUE(runs);
        b.started_real = (usec_t) 1795237200000000;
        b.runs = runs;
        ASSERT_OK(check_table_init(&b.checks));
        v = api_json_status(&b, 10 * USEC_PER_SEC, (usec_t) 1795237210000000);
        ASSERT_STREQ(text_at(v, "state"), "unknown"); /* nothing was looked at yet */
        ASSERT_TRUE(json_is_null(json_object_get(v, "live_runs")));
        ASSERT_TRUE(json_is_null(json_object_get(json_object_get(v, "identity"), "slice")));
        ASSERT_STREQ(text_at(v, "started"), "2026-11-21T05:00:00.000Z");
        json_decref(v);
        runs->known = true;
        runs->n = 2;
        (void) snprintf(runs->runs[0].state, sizeof(runs->runs[0].state), "exited");
        (void) snprintf(runs->runs[1].state, sizeof(runs->runs[1].state), "running");
        v = api_json_status(&b, 10 * USEC_PER_SEC, (usec_t) 1795237210000000);
        ASSERT_EQ(json_integer_value(json_object_get(v, "live_runs")), 1); /* those that live */
        json_decref(v);
        check_table_clear(&b.checks);
        free(runs);
}

static void test_uplink(void) {
        struct uplink_stats uplink = { .durable = true, .last_ok_boot = 5 * USEC_PER_SEC };
        json_t *v;

        uplink.classes[UPLINK_EVENTS].spool.records = 3;
        v = uplink_to_json(&uplink, "", 10 * USEC_PER_SEC, (usec_t) 1795237210000000);
        ASSERT_STREQ(text_at(v, "last_ok"), "2026-11-21T05:00:05.000Z");
        ASSERT_EQ(json_integer_value(json_object_get(
                          json_object_get(json_object_get(v, "classes"), "events"), "kept")),
                  3);
        json_decref(v);
}

static struct run_seen progress_of(const char *run, void *userdata) {
        static const struct goodput half = { .spent = { [GOODPUT_STEP] = 30 * USEC_PER_SEC,
                                                        [GOODPUT_STALL] = 30 * USEC_PER_SEC } };

        static const struct checkpoint whole = {
                .at_real = (usec_t) 1795237200000000, .took = USEC_PER_SEC / 2, .step = 7, .path = "/gs/7"
        };

        if (streq(run, "train"))
                return (struct run_seen){ .step = userdata,
                                          .goodput = &half,
                                          .checkpoint = &whole,
                                          .steps_since = 5,
                                          .suspicion = "no step" };
        return (struct run_seen){ .step = NULL };
}

static void test_runs(void) {
        struct host_runs *l = calloc(1, sizeof(*l));
        struct step_line p = { .step = 12, .seconds = 0.5 };
        json_t *list, *whole;

        ASSERT_TRUE(l);
        list = runs_to_json(l, progress_of, &p);
        ASSERT_TRUE(json_is_null(list)); /* launchd has not answered */
        json_decref(list);
        l->known = true;
        l->n = 2;
        (void) snprintf(l->runs[0].name, sizeof(l->runs[0].name), "train");
        l->runs[0].started_real = (usec_t) 1795237200000000;
        (void) snprintf(l->runs[1].name, sizeof(l->runs[1].name), "other");
        list = runs_to_json(l, progress_of, &p);
        ASSERT_EQ(json_integer_value(json_object_get(json_array_get(list, 0), "step")), 12);
        ASSERT_STREQ(text_at(json_array_get(list, 0), "started"), "2026-11-21T05:00:00.000Z");
        ASSERT_TRUE(json_is_null(json_object_get(json_array_get(list, 0), "ended")));
        ASSERT_STREQ(text_at(json_array_get(list, 0), "suspicion"), "no step");
        ASSERT_TRUE(json_real_value(json_object_get(json_array_get(list, 0), "goodput")) == 0.5);
        ASSERT_TRUE(json_real_value(json_object_get(
                            json_object_get(json_array_get(list, 0), "spent_seconds"), "stall")) == 30);
        whole = json_object_get(json_array_get(list, 0), "checkpoint");
        ASSERT_STREQ(text_at(whole, "at"), "2026-11-21T05:00:00.000Z");
        ASSERT_STREQ(text_at(whole, "path"), "/gs/7");
        ASSERT_TRUE(json_real_value(json_object_get(whole, "took_seconds")) == 0.5);
        ASSERT_EQ(json_integer_value(json_object_get(whole, "step")), 7);
        ASSERT_EQ(json_integer_value(json_object_get(whole, "steps_since")), 5);
        ASSERT_TRUE(json_is_null(json_object_get(json_array_get(list, 1), "checkpoint")));
        ASSERT_TRUE(json_is_null(json_object_get(json_array_get(list, 1), "step")));
        ASSERT_TRUE(json_is_null(json_object_get(json_array_get(list, 1), "goodput")));
        ASSERT_TRUE(json_is_null(json_object_get(json_array_get(list, 1), "spent_seconds")));
        ASSERT_TRUE(json_is_null(json_object_get(json_array_get(list, 1), "suspicion")));
        json_decref(list);
        free(l);
}

/* Bad values keep the default and are counted. */
static void test_settings(void) {
        static const char text[] = "[Hostd]\nEndpoint=ftp://"
                                   "x\nMetricsInterval=1ms\nSpoolBytes=1\nApiSocket=relative\nNoSuchKey=1\n"
                                   "Endpoint=http://user:secret@x:1\n[Health]\nFailAfter=0\nHealAfter=5\n";
        char path[] = "/tmp/test-hostd-settings-XXXXXX";
        _cleanup_host_ struct host h = HOST_NULL;
        struct settings_source source = { 0 };
        struct settings s = { 0 };
        _cleanup_close_ int fd = mkstemp(path);

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
        ASSERT_OK(host_open(NULL, &h));
        ASSERT_OK(settings_load(&s, &source, &h, path));
        ASSERT_OK(unlink(path));
        ASSERT_EQ(source.config.warnings, 7);
        ASSERT_STREQ(s.endpoint, "");
        ASSERT_EQ(s.metrics_interval, 10 * USEC_PER_SEC);
        ASSERT_EQ(s.spool_bytes, 256 * 1024 * 1024);
        ASSERT_STREQ(s.api_socket, "/run/tpu-hostd/api.sock");
        ASSERT_EQ(s.health.fail_after, 2);
        ASSERT_EQ(s.health.heal_after, 5);
        config_clear(&source.config);
}

TEST_MAIN(test_checks, test_status, test_uplink, test_runs, test_settings)
