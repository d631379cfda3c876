/* SPDX-License-Identifier: Apache-2.0 */
/* tpu-env and worker-network-endpoints, in both forms, and what is neither. */
#include "tpu_env.h"
#include "test.h"

static int parse(const char *text, struct identity *i, char why[static TPU_ENV_WHY_MAX]) {
        return tpu_env_parse(text, strlen(text), "metadata", i, why);
}

/* As a v4-256 of the Cloud TPU API had it; values of people and projects left out. */
static const char cloud_tpu[] =
        "ACCELERATOR_TYPE: 'v4-256'\nAGENT_BOOTSTRAP_IMAGE: "
        "'gcr.io/cloud-tpu-v2-images/instance_agent:stable'\n"
        "ALT: 'false'\nCHIPS_PER_HOST_BOUNDS: '2,2,1'\nENABLE_ICI_RESILIENCY: 'true'\nHOST_BOUNDS: '2,2,8'\n"
        "INJECT_SLICE_BUILDER_FAULT: ''\nMAINTENANCE_ACTION_FLAG: 'unhealthy-maintenance'\nNODE_ID: "
        "'tpu-1'\n"
        "PREEMPTIBLE: 'false'\nRUNTIME_MONITOR_DOCKER_URL: 'gcr.io/x/runtime_monitor:cl_534554121'\n"
        "TOPOLOGY: '4x4x8'\nTPU_CHIPS_PER_PROCESS_BOUNDS: '2,2,1'\nTPU_PROCESS_BOUNDS: '2,2,8'\n"
        "TPU_RUNTIME_METRICS_PORTS: '8431,8432,8433,8434'\nTPU_TOPOLOGY_ALT: 'false'\n"
        "TPU_TOPOLOGY_WRAP: 'true,true,true'\nTYPE: 'V4'\nUID: '6502082742571311568'\nWORKER_ID: '0'\n"
        "WRAP: 'true,true,true'\nZONE: 'us-central2-b'\n";
static const char compute_engine[] =
        "ALT:'false'\nTPU_ACCELERATOR_TYPE:'v6e-8'\nTPU_WORKER_ID:'1'\nTOPOLOGY:'2x4'\nWRAP:'false,false,"
        "false'\n"
        "HOST_BOUNDS:'1,2,1'\nCHIPS_PER_HOST_BOUNDS:'2,2,1'\nNODE_ID:'mig-1'\nZONE:'us-east5-b'\n";

static void expect(const struct identity *i, enum identity_field f, const char *text) {
        ASSERT_STREQ(identity_get(i, f), text);
        ASSERT_STREQ(i->fields[f].origin, "metadata");
}

static void test_both_dialects(void) {
        _cleanup_identity_ struct identity a = IDENTITY_NULL, b = IDENTITY_NULL;
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;
        char why[TPU_ENV_WHY_MAX];

        ASSERT_OK(parse(cloud_tpu, &a, why));
        ASSERT_STREQ(why, "");
        expect(&a, IDENTITY_ACCELERATOR_TYPE, "v4-256");
        expect(&a, IDENTITY_WORKER_ID, "0");
        expect(&a, IDENTITY_TOPOLOGY, "4x4x8");
        expect(&a, IDENTITY_HOST_BOUNDS, "2,2,8");
        expect(&a, IDENTITY_CHIPS_PER_HOST_BOUNDS, "2,2,1");
        expect(&a, IDENTITY_TOPOLOGY_WRAP, "true,true,true");
        expect(&a, IDENTITY_ICI_RESILIENCY, "true");
        expect(&a, IDENTITY_PREEMPTIBLE, "false");
        expect(&a, IDENTITY_SLICE_NAME, "tpu-1");
        expect(&a, IDENTITY_ZONE, "us-central2-b");
        ASSERT_OK(parse(compute_engine, &b, why));
        expect(&b, IDENTITY_ACCELERATOR_TYPE, "v6e-8");
        expect(&b, IDENTITY_WORKER_ID, "1");
        /* what a real one says is sound by our own arithmetic */
        ASSERT_OK(identity_derive(&a));
        ASSERT_OK(identity_derive(&b));
        ASSERT_OK(identity_check(&a, &l));
        ASSERT_OK(identity_check(&b, &l));
        ASSERT_EQ(finding_list_worst(&l), VERDICT_OK);
}

static void test_forms_of_a_line(void) {
        static const char *const good[] = { "ZONE: 'a-b'",     "ZONE:a-b",
                                            "ZONE : \"a-b\" ", "\n# x\n---\nZONE: 'a-b'\r\n\n",
                                            "  ZONE:\t'a-b'",  "ZONE: 'a-b'\nZONE: 'c'" };
        char why[TPU_ENV_WHY_MAX];

        for (size_t k = 0; k < ELEMENTSOF(good); k++) {
                _cleanup_identity_ struct identity i = IDENTITY_NULL;

                ASSERT_OK(parse(good[k], &i, why));
                expect(&i, IDENTITY_ZONE, "a-b");
        }
}

static void test_what_is_no_tpu_env(void) {
        static const struct {
                const char *text, *why;
        } t[] = {
                { "", "it is empty" },
                { "\n\n# x\n", "it is empty" },
                { "<html>", "line 1: not KEY: 'VALUE'" },
                { "ZONE: 'a'\n<a href='http://x'>", "line 2: its key is none" },
                { "ZONE: 'a", "line 1: a quote is not closed" },
                { "ZONE: '", "line 1: a quote is not closed" },
                { ": x", "line 1: its key is none" },
                { "{\"a\": 1}", "line 1: its key is none" },
        };
        char huge[TPU_ENV_VALUE_MAX + 64], why[TPU_ENV_WHY_MAX];
        _cleanup_free_ char *many = calloc(TPU_ENV_LINES_MAX + 2, 8);
        _cleanup_identity_ struct identity i = IDENTITY_NULL;

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                ASSERT_EQ(parse(t[k].text, &i, why), -EBADMSG);
                ASSERT_STREQ(why, t[k].why);
        }
        ASSERT_EQ(tpu_env_parse("ZONE: 'a\0b'", 11, "metadata", &i, why), -EBADMSG);
        memset(huge, 'x', sizeof(huge));
        memcpy(huge, "ZONE: ", 6);
        huge[sizeof(huge) - 1] = '\0';
        ASSERT_EQ(parse(huge, &i, why), -EBADMSG);
        ASSERT_TRUE(many != NULL);
        for (size_t k = 0; k <= TPU_ENV_LINES_MAX; k++)
                memcpy(many + 7 * k, "A: 'b'\n", 7);
        ASSERT_EQ(parse(many, &i, why), -EBADMSG);
        for (enum identity_field f = 0; f < _IDENTITY_FIELD_MAX; f++)
                ASSERT_TRUE(!identity_get(&i, f));
}

static void test_a_strange_value_is_passed_over(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        char why[TPU_ENV_WHY_MAX];

        ASSERT_OK(parse("WORKER_ID: '-1'\nZONE: 'a'\nTOPOLOGY: '4'\n", &i, why));
        ASSERT_STREQ(why, "WORKER_ID cannot be worker-id: it is passed over");
        expect(&i, IDENTITY_ZONE, "a");
        ASSERT_TRUE(!identity_get(&i, IDENTITY_WORKER_ID) && !identity_get(&i, IDENTITY_TOPOLOGY));
}

static void test_endpoints(void) {
        static const struct {
                const char *text, *names, *addresses, *why; /* why: refused */
        } t[] = {
                { "a:1:10.0.0.1,b:2:10.0.0.2", "a,b", "10.0.0.1,10.0.0.2", NULL },
                { "unknown:unknown:10.0.0.1,unknown:unknown:10.0.0.2\n", NULL, "10.0.0.1,10.0.0.2", NULL },
                { ":1:10.0.0.1", NULL, "10.0.0.1", NULL },
                { "a:1:fd00::1", "a", "fd00::1", NULL },
                { "a, b,c", "a,b,c", NULL, NULL },
                { "10.0.0.1,10.0.0.2", "10.0.0.1,10.0.0.2", NULL, NULL },
                { "", NULL, NULL, "endpoint 0: no host name" },
                { "a,,b", NULL, NULL, "endpoint 1: no host name" },
                { "a,", NULL, NULL, "endpoint 1: no host name" },
                { "a,unknown", NULL, NULL, "endpoint 1: no host name" },
                { "a:b", NULL, NULL, "endpoint 0: neither NAME:UID:ADDRESS nor NAME" },
                { "a,b:1:10.0.0.1", NULL, NULL, "endpoint 1: not of the form of those before it" },
                { "a:1:b", NULL, NULL, "endpoint 0: its third part is no address" },
                { "a:1:", NULL, NULL, "endpoint 0: its third part is no address" },
                { "<html>", NULL, NULL, "endpoint 0: no host name" },
        };
        char why[TPU_ENV_WHY_MAX];

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                _cleanup_identity_ struct identity i = IDENTITY_NULL;
                const char *names, *addresses;

                ASSERT_EQ(tpu_endpoints_parse(t[k].text, strlen(t[k].text), "metadata", &i, why),
                          t[k].why ? -EBADMSG : 0);
                ASSERT_STREQ(why, t[k].why ? t[k].why : "");
                names = identity_get(&i, IDENTITY_WORKER_HOSTNAMES);
                addresses = identity_get(&i, IDENTITY_WORKER_ADDRESSES);
                ASSERT_STREQ(names ? names : "-", t[k].names ? t[k].names : "-");
                ASSERT_STREQ(addresses ? addresses : "-", t[k].addresses ? t[k].addresses : "-");
        }
}

/* The largest slices have 2,304 hosts; more than IDENTITY_HOSTS_MAX is refused, not cut. */
static void test_many_endpoints(void) {
        _cleanup_free_ char *text = malloc((IDENTITY_HOSTS_MAX + 1) * 40);
        char why[TPU_ENV_WHY_MAX], *at = text;
        ASSERT_TRUE(text != NULL);

        for (unsigned n = 0; n <= IDENTITY_HOSTS_MAX; n++) {
                at += sprintf(at, "%sw-%u:%u:10.0.%u.%u", n > 0 ? "," : "", n, n, n / 256, n % 256);
                if (n + 1 == IDENTITY_HOSTS_MAX || n == IDENTITY_HOSTS_MAX) {
                        _cleanup_identity_ struct identity i = IDENTITY_NULL;

                        ASSERT_EQ(tpu_endpoints_parse(text, strlen(text), "m", &i, why),
                                  n < IDENTITY_HOSTS_MAX ? 0 : -EBADMSG);
                }
        }
}

TEST_MAIN(test_both_dialects, test_forms_of_a_line, test_what_is_no_tpu_env,
          test_a_strange_value_is_passed_over, test_endpoints, test_many_endpoints)
