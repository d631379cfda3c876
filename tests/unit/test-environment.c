/* SPDX-License-Identifier: Apache-2.0 */
#include "environment-case.h"
#include "init_args.h"

static void test_plain(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL, empty = ENVIRONMENT_NULL;
        char why[256];

        make_slice(&i);
        ASSERT_OK(build(&i, FRAMEWORK_PLAIN, NULL, 0, &e, why));
        ASSERT_EQ(e.n, 6);
        expect(&e, "PYTHONUNBUFFERED", "1");
        expect(&e, "TPU_NAME", "slice-a");
        expect(&e, "TPU_WORKER_ID", "3");
        expect(&e, "TPU_WORKER_HOSTNAMES", "h0,h1,h2,h3");
        ASSERT_STREQ(get(&e, "TPU_WORKER_ID")->reason, "worker-id from /etc/x.conf:5");
        /* Nothing that turns a framework from its own discovery. */
        ASSERT_TRUE(!get(&e, "TPU_SKIP_MDS_QUERY") && !get(&e, "MASTER_ADDR") && !get(&e, "RANK"));

        identity_clear(&i);
        ASSERT_OK(build(&i, FRAMEWORK_PLAIN, NULL, 0, &empty, why));
        ASSERT_EQ(empty.n, 1); /* Python's own, which needs no identity */
}

static void test_jax(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        char why[256];

        make_slice(&i);
        ASSERT_OK(build(&i, FRAMEWORK_JAX, NULL, 0, &e, why));
        expect(&e, "TPU_SKIP_MDS_QUERY", "1");
        expect(&e, "TPU_WORKER_ID", "3");
        expect(&e, "TPU_WORKER_HOSTNAMES", "h0,h1,h2,h3");
        expect(&e, "TPU_ACCELERATOR_TYPE", "v6e-16");
        expect(&e, "TPU_TOPOLOGY", "4x4");
        expect(&e, "TPU_CHIPS_PER_HOST_BOUNDS", "2,2,1");
        expect(&e, "TPU_HOST_BOUNDS", "2,2,1");
        expect(&e, "TPU_CHIPS_PER_PROCESS_BOUNDS", "2,2,1");
        expect(&e, "TPU_PROCESS_BOUNDS", "2,2,1");
        expect(&e, "JAX_PLATFORMS", "tpu,cpu");
        expect(&e, "JAX_COORDINATOR_PORT", "8476");
        expect(&e, "JAX_COORDINATOR_ADDRESS", "h0:8476");
        expect(&e, "TPU_RUNTIME_METRICS_PORTS", "8431,8432,8433,8434");
        /* of Multislice what JAX asks the metadata server for where it is not there */
        expect(&e, "MEGASCALE_COORDINATOR_ADDRESS", "h0");
        expect(&e, "MEGASCALE_NUM_SLICES", "1");
        expect(&e, "MEGASCALE_SLICE_ID", "0");
        ASSERT_EQ(e.n, 18); /* no MEGASCALE_PORT, nothing of a run of several hosts */
}

/* One of two slices, of which the other is not known, is not the only one. */
static void test_half_of_two_slices(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        char why[256];

        make_slice(&i);
        set(&i, IDENTITY_SLICES, "2");
        ASSERT_OK(build(&i, FRAMEWORK_JAX, NULL, 0, &e, why));
        ASSERT_TRUE(environment_get(&e, "MEGASCALE_SLICE_ID") == NULL);
}

/* Half an environment would leave JAX waiting for a server that it was told not to ask. */
static void test_jax_needs_all(void) {
        static const enum identity_field needed[] = { IDENTITY_ACCELERATOR_TYPE, IDENTITY_TOPOLOGY,
                                                      IDENTITY_WORKER_ID, IDENTITY_WORKER_HOSTNAMES,
                                                      IDENTITY_CHIPS };
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        char why[256];

        for (size_t f = 0; f < ELEMENTSOF(needed); f++) {
                _cleanup_identity_ struct identity i = IDENTITY_NULL;

                make_slice(&i);
                set(&i, needed[f], NULL);
                ASSERT_EQ(build(&i, FRAMEWORK_JAX, NULL, 0, &e, why), -ENODATA);
                ASSERT_TRUE(strstr(why, identity_field_name(needed[f])) != NULL);
                ASSERT_TRUE(strstr(why, "identity.conf.d") != NULL);
                ASSERT_TRUE(e.entries == NULL);
        }
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        make_slice(&i);
        set(&i, IDENTITY_CHIPS, "3");
        ASSERT_EQ(build(&i, FRAMEWORK_JAX, NULL, 0, &e, why), -ENODATA);
        set(&i, IDENTITY_CHIPS, "8");
        set(&i, IDENTITY_TOPOLOGY, "4x2");
        ASSERT_EQ(build(&i, FRAMEWORK_JAX, NULL, 0, &e, why), -ENODATA);
}

static void test_users_values_stand(void) {
        static const char *const user[] = { "TPU_WORKER_ID=7", "MY_TOKEN=secret",  "JAX_PLATFORMS=cpu",
                                            "EMPTY=",          "TPU_NAME=slice-a", "MY_TOKEN=later" };
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        char why[256];

        make_slice(&i);
        ASSERT_OK(build(&i, FRAMEWORK_JAX, user, ELEMENTSOF(user), &e, why));
        expect(&e, "TPU_WORKER_ID", "7");
        expect(&e, "JAX_PLATFORMS", "cpu");
        expect(&e, "MY_TOKEN", "later");
        expect(&e, "EMPTY", "");
        ASSERT_STREQ(get(&e, "TPU_WORKER_ID")->conflict,
                     "yours '7' kept, ours would be '3' (worker-id from /etc/x.conf:5)");
        ASSERT_TRUE(strstr(get(&e, "JAX_PLATFORMS")->conflict, "'tpu,cpu'") != NULL);
        ASSERT_TRUE(get(&e, "TPU_NAME")->conflict == NULL);
        ASSERT_TRUE(get(&e, "TPU_TOPOLOGY")->conflict == NULL);
        ASSERT_STREQ(get(&e, "MY_TOKEN")->reason, "set by the user");
}

/* JAX looks at JAX_COORDINATOR_ADDRESS first, so it must not go round what the user said elsewhere. */
static void test_coordinator_of_the_user(void) {
        static const struct {
                const char *user, *wanted; /* NULL: left out */
        } t[] = {
                { "JAX_COORDINATOR_PORT=9000", "h0:9000" },
                { "JAX_COORDINATOR_PORT=x", NULL },
                { "JAX_COORDINATOR_PORT=65536", NULL },
                { "MEGASCALE_COORDINATOR_ADDRESS=h9:8080", NULL },
                { "JAX_COORDINATOR_ADDRESS=h8:1", "h8:1" },
                { "MEGASCALE_NUM_SLICES=2", "h0:8476" },
        };
        char why[256];

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                _cleanup_identity_ struct identity i = IDENTITY_NULL;
                _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;

                make_slice(&i);
                ASSERT_OK(build(&i, FRAMEWORK_JAX, &t[k].user, 1, &e, why));
                ASSERT_TRUE(!t[k].wanted == !get(&e, "JAX_COORDINATOR_ADDRESS"));
                if (t[k].wanted)
                        expect(&e, "JAX_COORDINATOR_ADDRESS", t[k].wanted);
        }
}

static void test_hostile_assignments(void) {
        static const char *const bad[] = { "",
                                           "=",
                                           "=x",
                                           "NAME",
                                           "1A=x",
                                           "A B=x",
                                           "A-B=x",
                                           "A=\x1b[31m",
                                           "A=\xff\xfe",
                                           "A=\xc0\xaf",
                                           "A=\xed\xa0\x80",
                                           "A=\xf5\x80\x80\x80",
                                           "A=\xe2\x82",
                                           "\xff=x",
                                           "B\n=1" };
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        _cleanup_free_ char *huge = malloc(ENVIRONMENT_ASSIGNMENT_MAX + 2);
        const char *user;
        char why[256];

        for (size_t k = 0; k < ELEMENTSOF(bad); k++) {
                ASSERT_EQ(build(&i, FRAMEWORK_PLAIN, &bad[k], 1, &e, why), -EINVAL);
                ASSERT_TRUE(environment_text_is_valid(why) && why[0]);
        }
        ASSERT_TRUE(huge != NULL);
        memset(huge, 'x', ENVIRONMENT_ASSIGNMENT_MAX + 1);
        memcpy(huge, "SECRET=", 7);
        huge[ENVIRONMENT_ASSIGNMENT_MAX + 1] = '\0';
        user = huge;
        ASSERT_EQ(build(&i, FRAMEWORK_PLAIN, &user, 1, &e, why), -EINVAL);
        ASSERT_TRUE(strstr(why, "SECRET") != NULL && !strstr(why, "xxx")); /* the name, never the value */
        huge[ENVIRONMENT_ASSIGNMENT_MAX] = '\0';
        ASSERT_OK(build(&i, FRAMEWORK_PLAIN, &user, 1, &e, why));
        environment_clear(&e);
        user = "A=tab\tnewline\n\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80";
        ASSERT_OK(build(&i, FRAMEWORK_PLAIN, &user, 1, &e, why));
}

static void test_frameworks(void) {
        static const char *const names[] = { "plain", "jax", "torch_xla", "ray", "torch" };
        enum framework f;

        for (size_t k = 0; k < ELEMENTSOF(names); k++) {
                ASSERT_OK(framework_parse(names[k], &f));
                ASSERT_STREQ(framework_name(f), names[k]);
        }
        ASSERT_EQ(framework_parse("", &f), -EINVAL);
        ASSERT_EQ(framework_parse("tf", &f), -EINVAL);
}

/* --- PyTorch/XLA, Ray ---------------------------------------------------------------------------------- */

static void test_torch_xla(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL, chip = ENVIRONMENT_NULL,
                                                 none = ENVIRONMENT_NULL;
        struct environment_options o = { .framework = FRAMEWORK_TORCH_XLA };
        char why[256];

        make_half(&i);
        set(&i, IDENTITY_WORKER_ID, "1");
        set(&i, IDENTITY_WORKER_HOSTNAMES, "h0,h1");
        ASSERT_OK(environment_build(&i, &o, &e, why));
        expect(&e, "PJRT_DEVICE", "TPU");
        expect(&e, "XLA_USE_SPMD", "1");
        expect(&e, "TPU_HOST_BOUNDS", "1,2,1");
        expect(&e, "TPU_CHIPS_PER_HOST_BOUNDS", "2,2,1");
        /* launch() makes these itself, and takes them for the user's where they are there */
        ASSERT_TRUE(!get(&e, "TPU_PROCESS_BOUNDS") && !get(&e, "TPU_CHIPS_PER_PROCESS_BOUNDS"));
        ASSERT_TRUE(!get(&e, "MEGASCALE_NUM_SLICES") && !get(&e, "JAX_PLATFORMS") &&
                    !get(&e, "CLOUD_TPU_TASK_ID"));

        o.process_per_chip = true;
        o.chip = 2;
        ASSERT_OK(environment_build(&i, &o, &chip, why));
        expect(&chip, "TPU_PROCESS_BOUNDS", "2,4,1");
        expect(&chip, "TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1");
        expect(&chip, "TPU_VISIBLE_CHIPS", "2");
        expect(&chip, "TPU_VISIBLE_DEVICES", "2");
        expect(&chip, "CLOUD_TPU_TASK_ID", "6");
        expect(&chip, "TPU_PROCESS_PORT", "8478");
        expect(&chip, "TPU_PROCESS_ADDRESSES",
               "h0:8476,h0:8477,h0:8478,h0:8479,h1:8476,h1:8477,h1:8478,h1:8479");
        ASSERT_TRUE(!get(&chip, "XLA_USE_SPMD"));
        for (size_t k = 0; k < chip.n; k++)
                ASSERT_TRUE(chip.entries[k].conflict == NULL);

        o.chip = 4;
        ASSERT_EQ(environment_build(&i, &o, &none, why), -EINVAL);
        ASSERT_TRUE(strstr(why, "no chip 4") != NULL);
        o.chip = 0;
        set(&i, IDENTITY_ACCELERATOR_TYPE, "tpu7x-16");
        ASSERT_EQ(environment_build(&i, &o, &none, why), -EINVAL);
        ASSERT_TRUE(strstr(why, "one process per chip on tpu7x") != NULL);
        o.framework = FRAMEWORK_JAX;
        ASSERT_EQ(environment_build(&i, &o, &none, why), -EINVAL);
}

static void test_ray(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment head = ENVIRONMENT_NULL, other = ENVIRONMENT_NULL,
                                                 outside = ENVIRONMENT_NULL;
        struct environment_gang g = gang;
        struct environment_options o = { .framework = FRAMEWORK_RAY, .gang = &g };
        char why[256];

        make_half(&i);
        g.slice = g.worker = 0;
        g.hosts = hosts_of[0];
        ASSERT_OK(environment_build(&i, &o, &head, why));
        expect(&head, "RAY_ADDRESS", "10.0.0.1:6379");
        expect(&head, "TPU_RAY_START",
               "--head --port=6379 --resources={\"TPU\":4,\"s0\":1,\"TPU-v6e-8-head\":1} "
               "--labels=ray.io/accelerator-type=TPU-V6E,ray.io/tpu-pod-type=v6e-8,ray.io/tpu-topology=2x4,"
               "ray.io/tpu-worker-id=0,ray.io/tpu-slice-name=s0");
        expect(&head, "MEGASCALE_PORT", "8081");
        expect(&head, "JAX_COORDINATOR_ADDRESS", "10.0.0.1:8476");
        expect(&head, "RAY_EXPERIMENTAL_NOSET_TPU_VISIBLE_CHIPS", "1");
        g.slice = 1; /* its worker 0 is a head of its slice, not of Ray */
        g.hosts = hosts_of[1];
        ASSERT_OK(environment_build(&i, &o, &other, why));
        ASSERT_TRUE(startswith(
                environment_get(&other, "TPU_RAY_START"),
                "--address=10.0.0.1:6379 --resources={\"TPU\":4,\"s1\":1,\"TPU-v6e-8-head\":1} "));
        set(&i, IDENTITY_ACCELERATOR_TYPE, "tpu7x-16");
        g.worker = 1;
        o.ray_head = "ray-head.example:6380";
        ASSERT_OK(environment_build(&i, &o, &outside, why));
        expect(&outside, "RAY_ADDRESS", "ray-head.example:6380");
        ASSERT_TRUE(startswith(environment_get(&outside, "TPU_RAY_START"),
                               "--address=ray-head.example:6380 --resources={\"TPU\":4,\"s1\":1} "
                               "--labels=ray.io/accelerator-type=TPU-V7X,ray.io/tpu-pod-type=v7x-16,"));
        /* a run over slices may have Ray's head where JAX would listen */
        o.ray_head = NULL;
        g.port = PORT_JAX;
        environment_clear(&outside);
        ASSERT_OK(environment_build(&i, &o, &outside, why));
        expect(&outside, "RAY_ADDRESS", "10.0.0.1:8476");
        expect(&outside, "JAX_COORDINATOR_ADDRESS", "10.0.0.1:8482");
        static const char *const bad[] = { "", "x", "x:", ":1", "x:0", "x:99999", "a b:1", "x:1y" };
        for (size_t k = 0; k < ELEMENTSOF(bad); k++) {
                _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;

                o.ray_head = bad[k];
                ASSERT_EQ(environment_build(&i, &o, &e, why), -EINVAL);
        }
}

/* --- Ports and flags ----------------------------------------------------------------------------------- */

static void test_ports(void) {
        ASSERT_EQ(port_of_megascale(NULL, PORT_JAX, false), 8081);
        ASSERT_EQ(port_of_megascale("--megascale_debug_port=8081", PORT_JAX, false), 9915);
        ASSERT_EQ(port_of_megascale("--megascale_debug_port=8081", 9915, false), 8080);
        ASSERT_EQ(port_of_megascale("--megascale_debug_port=8081", 9915, true), 0); /* Ray's metrics */
        ASSERT_EQ(port_of_megascale("--megascale_debug_port=9000", 8081, true), 9915);
        ASSERT_STREQ(port_owner(8471), "libtpu's mesh");
        ASSERT_STREQ(port_owner(8438), "libtpu's runtime metrics");
        ASSERT_TRUE(port_owner(8439) == NULL);
        for (int f = 0; f < _FRAMEWORK_MAX; f++) {
                uint16_t port = framework_port((enum framework) f);

                ASSERT_TRUE(port == 0 || (port_owner(port) && port_of_megascale(NULL, port, true) != port));
        }
}

static void test_init_args_get(void) {
        size_t len = 0;

        ASSERT_TRUE(init_args_get("--ab=1 --a=2 --a=3", "a", &len) && len == 1);
        ASSERT_TRUE(init_args_get("--ab=1", "a", &len) == NULL);
}

/* JAX's own flag: two runs of PyTorch wait for each other with it. */
static void test_barrier(void) {
        static const char *const user[] = {
                "LIBTPU_INIT_ARGS=--a=1 --xla_tpu_use_enhanced_launch_barrier=true"
        };
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment xla = ENVIRONMENT_NULL, jax = ENVIRONMENT_NULL;
        struct environment_options o = { .framework = FRAMEWORK_TORCH_XLA, .user = user, .n_user = 1 };
        char why[256];

        make_slice(&i);
        ASSERT_OK(environment_build(&i, &o, &xla, why));
        ASSERT_TRUE(strstr(get(&xla, "LIBTPU_INIT_ARGS")->conflict, "is JAX's"));
        o.framework = FRAMEWORK_JAX;
        ASSERT_OK(environment_build(&i, &o, &jax, why));
        ASSERT_TRUE(get(&jax, "LIBTPU_INIT_ARGS")->conflict == NULL);
}

static void test_json(void) {
        static const char *const user[] = { "A=b=c", "TPU_WORKER_ID=9" };
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        json_t *v, *o;
        char why[256];

        make_slice(&i);
        ASSERT_OK(build(&i, FRAMEWORK_PLAIN, user, 2, &e, why));
        v = environment_to_json(&e);
        ASSERT_EQ(json_array_size(v), e.n);
        o = json_array_get(v, 0);
        ASSERT_STREQ(json_string_value(json_object_get(o, "name")), "A");
        ASSERT_STREQ(json_string_value(json_object_get(o, "value")), "b=c");
        ASSERT_TRUE(json_is_null(json_object_get(o, "conflict")));
        ASSERT_TRUE(json_is_string(json_object_get(json_array_get(v, 1), "conflict")));
        json_decref(v);
}

TEST_MAIN(test_plain, test_jax, test_half_of_two_slices, test_jax_needs_all, test_users_values_stand,
          test_coordinator_of_the_user, test_hostile_assignments,
          test_frameworks, test_torch_xla, test_ray, test_ports, test_init_args_get, test_barrier, test_json)
