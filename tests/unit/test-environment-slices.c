/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a worker of several slices. */
#include "environment-case.h"

static void test_gang_plain(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        struct environment_options o = { .framework = FRAMEWORK_PLAIN, .gang = &gang };
        char why[256];

        ASSERT_OK(environment_build(&i, &o, &e, why));
        expect(&e, "TPU_RUN_NAME", "run1");
        expect(&e, "TPU_RUN_GENERATION", "7");
        expect(&e, "TPU_RUN_SLICES", "2");
        expect(&e, "TPU_RUN_SLICE", "1");
        expect(&e, "TPU_RUN_HOSTS", "4");
        expect(&e, "TPU_RUN_RANK", "3");
        expect(&e, "TPU_RUN_COORDINATOR", "10.0.0.1");
        expect(&e, "TPU_NAME", "s1");
        expect(&e, "TPU_WORKER_ID", "1");
        expect(&e, "TPU_WORKER_HOSTNAMES", "10.0.0.3,b1");
        ASSERT_TRUE(!get(&e, "MEGASCALE_SLICE_ID") && !get(&e, "MASTER_ADDR"));
        ASSERT_STREQ(get(&e, "TPU_WORKER_ID")->reason, "run run1, generation 7: worker 1 of slice s1");
}

static void test_gang_torch(void) {
        static const char *const ranks[2][2] = { { "0", "1" }, { "2", "3" } };
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        struct environment_gang g = gang;
        struct environment_options o = { .framework = FRAMEWORK_TORCH,
                                         .gang = &g,
                                         .interfaces = "eth0,eth1" };
        char why[256];

        for (g.slice = 0; g.slice < 2; g.slice++)
                for (g.worker = 0; g.worker < 2; g.worker++) {
                        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;

                        g.hosts = hosts_of[g.slice];
                        ASSERT_OK(environment_build(&i, &o, &e, why));
                        expect(&e, "RANK", ranks[g.slice][g.worker]);
                        expect(&e, "NODE_RANK", ranks[g.slice][g.worker]);
                        expect(&e, "WORLD_SIZE", "4");
                        expect(&e, "LOCAL_RANK", "0");
                        expect(&e, "MASTER_ADDR", "10.0.0.1");
                        expect(&e, "MASTER_PORT", "29500");
                        expect(&e, "GLOO_SOCKET_IFNAME", "eth0,eth1");
                }
        g = gang;
        g.coordinator = "fd00::9";
        g.port = 4000;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        ASSERT_OK(environment_build(&i, &o, &e, why));
        expect(&e, "MASTER_ADDR", "fd00::9");
        expect(&e, "MASTER_PORT", "4000");
        expect(&e, "TPU_RUN_COORDINATOR", "[fd00::9]:4000");
}

/* Alone, from the identity; a host that does not know its peers would train alone without a word. */
static void test_torch_of_one_slice(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        char why[256];

        ASSERT_EQ(build(&i, FRAMEWORK_TORCH, NULL, 0, &e, why), -ENODATA);
        ASSERT_TRUE(strstr(why, "worker-id") != NULL);
        set(&i, IDENTITY_WORKER_ID, "2");
        ASSERT_EQ(build(&i, FRAMEWORK_TORCH, NULL, 0, &e, why), -ENODATA);
        ASSERT_TRUE(strstr(why, "worker-hostnames") != NULL);
        set(&i, IDENTITY_WORKER_HOSTNAMES, "h0,h1,h2");
        ASSERT_OK(build(&i, FRAMEWORK_TORCH, NULL, 0, &e, why));
        expect(&e, "RANK", "2");
        expect(&e, "WORLD_SIZE", "3");
        expect(&e, "MASTER_ADDR", "h0");
        ASSERT_TRUE(!get(&e, "GLOO_SOCKET_IFNAME") && !get(&e, "TPU_RUN_NAME"));
}

static void test_gang_jax(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        struct environment_options o = { .framework = FRAMEWORK_JAX,
                                         .gang = &gang,
                                         .interfaces = "eth0,eth1" };
        char why[256];

        make_half(&i);
        ASSERT_OK(environment_build(&i, &o, &e, why));
        expect(&e, "MEGASCALE_COORDINATOR_ADDRESS", "10.0.0.1:8081");
        expect(&e, "MEGASCALE_PORT", "8081");
        expect(&e, "MEGASCALE_NUM_SLICES", "2");
        expect(&e, "MEGASCALE_SLICE_ID", "1");
        expect(&e, "TPU_WORKER_ID", "1");
        expect(&e, "TPU_HOST_BOUNDS", "1,2,1");
        expect(&e, "LIBTPU_INIT_ARGS", "--megascale_grpc_interface_prefixes=eth0,eth1,lo");
}

static void test_init_args_of_the_user(void) {
        static const char *const user[] = { "LIBTPU_INIT_ARGS=--a=1 --megascale_debug_port=8081 --a=2" };
        static const char *const chosen[] = { "LIBTPU_INIT_ARGS=--megascale_grpc_interface_prefixes=ib0" };
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL, f = ENVIRONMENT_NULL;
        struct environment_options o = { .framework = FRAMEWORK_JAX,
                                         .gang = &gang,
                                         .interfaces = "eth0,eth1",
                                         .user = user,
                                         .n_user = 1 };
        char why[256];

        make_half(&i);
        ASSERT_OK(environment_build(&i, &o, &e, why));
        /* theirs first and unchanged; the port of Multislice makes room */
        expect(&e, "LIBTPU_INIT_ARGS",
               "--a=1 --megascale_debug_port=8081 --a=2 --megascale_grpc_interface_prefixes=eth0,eth1,lo");
        expect(&e, "MEGASCALE_PORT", "9915");
        o.user = chosen;
        ASSERT_OK(environment_build(&i, &o, &f, why));
        expect(&f, "LIBTPU_INIT_ARGS", "--megascale_grpc_interface_prefixes=ib0");
}

static void test_gang_that_does_not_fit(void) {
        static const char *const bad_slice[] = { "s 0" }, *const bad_host[] = { "a b", "x" };
        static const uint32_t unequal[] = { 2, 1 }, no_hosts[] = { 0 };
        struct environment_gang gangs[8];
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        char why[256];

        for (size_t g = 0; g < ELEMENTSOF(gangs); g++)
                gangs[g] = gang;
        gangs[0].slice = 2;
        gangs[1].worker = 2;
        gangs[2].sizes = unequal;
        gangs[3].slices = bad_slice;
        gangs[4].sizes = no_hosts;
        gangs[5].hosts = bad_host;
        gangs[6].coordinator = NULL;
        gangs[7].coordinator = "a\nb";
        for (size_t g = 3; g < 5; g++) {
                gangs[g].n_slices = 1;
                gangs[g].slice = 0;
        }
        for (size_t g = 0; g < ELEMENTSOF(gangs); g++) {
                struct environment_options o = { .framework = FRAMEWORK_PLAIN, .gang = &gangs[g] };
                struct environment e = ENVIRONMENT_NULL;

                ASSERT_EQ(environment_build(&i, &o, &e, why), -EINVAL);
                ASSERT_TRUE(why[0] != '\0' && e.entries == NULL);
        }
}

/* What the metadata server says of queued resources of several slices. */
static void test_slices_of_the_identity(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL, torch = ENVIRONMENT_NULL;
        char why[256];

        make_slice(&i);
        set(&i, IDENTITY_SLICES, "3");
        set(&i, IDENTITY_SLICE_ID, "2");
        set(&i, IDENTITY_COORDINATOR, "10.9.0.1:8080");
        set(&i, IDENTITY_TOPOLOGY_WRAP, "false,false,false");
        set(&i, IDENTITY_ICI_RESILIENCY, "true");
        ASSERT_OK(build(&i, FRAMEWORK_JAX, NULL, 0, &e, why));
        expect(&e, "MEGASCALE_NUM_SLICES", "3");
        expect(&e, "MEGASCALE_SLICE_ID", "2");
        expect(&e, "MEGASCALE_COORDINATOR_ADDRESS", "10.9.0.1:8081");
        expect(&e, "TPU_TOPOLOGY_WRAP", "false,false,false");
        expect(&e, "TPU_TOPOLOGY_ALT", "false");
        expect(&e, "ENABLE_ICI_RESILIENCY", "true");
        ASSERT_OK(build(&i, FRAMEWORK_TORCH, NULL, 0, &torch, why));
        expect(&torch, "RANK", "11"); /* worker 3 of the third slice of 4 hosts */
        expect(&torch, "WORLD_SIZE", "12");
        expect(&torch, "MASTER_ADDR", "10.9.0.1");
}

static void test_words_of_workers(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment names = ENVIRONMENT_NULL, addresses = ENVIRONMENT_NULL;
        char why[256];

        ASSERT_OK(identity_add(&i, IDENTITY_WORKER_HOSTNAMES, "h0,h1", "file"));
        ASSERT_OK(identity_add(&i, IDENTITY_WORKER_ADDRESSES, "10.0.0.1,10.0.0.2", "metadata"));
        ASSERT_OK(build(&i, FRAMEWORK_PLAIN, NULL, 0, &names, why));
        expect(&names, "TPU_WORKER_HOSTNAMES", "h0,h1");
        (void) snprintf(i.fields[IDENTITY_WORKER_HOSTNAMES].origin, 16, "metadata");
        ASSERT_OK(build(&i, FRAMEWORK_PLAIN, NULL, 0, &addresses, why));
        expect(&addresses, "TPU_WORKER_HOSTNAMES", "10.0.0.1,10.0.0.2");
        ASSERT_STREQ(get(&addresses, "TPU_WORKER_HOSTNAMES")->reason, "worker-addresses from metadata");
}

static void test_a_slice_of_one_host(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        char why[256];

        ASSERT_OK(identity_add(&i, IDENTITY_ACCELERATOR_TYPE, "v6e-4", "test"));
        ASSERT_OK(identity_derive(&i));
        ASSERT_OK(build(&i, FRAMEWORK_JAX, NULL, 0, &e, why));
        expect(&e, "TPU_WORKER_ID", "0");
        expect(&e, "TPU_WORKER_HOSTNAMES", "localhost");
        expect(&e, "TPU_HOST_BOUNDS", "1,1,1");
        expect(&e, "MEGASCALE_COORDINATOR_ADDRESS", "localhost");
        expect(&e, "JAX_COORDINATOR_ADDRESS", "localhost:8476");
        environment_clear(&e);
        ASSERT_OK(build(&i, FRAMEWORK_RAY, NULL, 0, &e, why));
        expect(&e, "RAY_ADDRESS", "localhost:6379");
        /* on a host of its own a worker of Ray may have some of the chips */
        ASSERT_TRUE(!get(&e, "RAY_EXPERIMENTAL_NOSET_TPU_VISIBLE_CHIPS"));
        /* one host a slice, of which there are several */
        set(&i, IDENTITY_SLICES, "2");
        set(&i, IDENTITY_SLICE_ID, "1");
        set(&i, IDENTITY_COORDINATOR, "[fd00::9]:8080");
        environment_clear(&e);
        ASSERT_OK(build(&i, FRAMEWORK_JAX, NULL, 0, &e, why));
        expect(&e, "MEGASCALE_NUM_SLICES", "2");
        expect(&e, "MEGASCALE_SLICE_ID", "1");
        expect(&e, "JAX_COORDINATOR_ADDRESS", "[fd00::9]:8476");
}

/* A run that went on with one slice of two, on hosts whose metadata still has both. */
static void test_one_slice_left(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        struct environment_gang g = gang;
        struct environment_options o = { .framework = FRAMEWORK_JAX, .gang = &g };
        char why[256];

        make_half(&i);
        set(&i, IDENTITY_SLICES, "2");
        set(&i, IDENTITY_SLICE_ID, "1");
        set(&i, IDENTITY_COORDINATOR, "10.0.0.1:8080");
        g.slices = &slices[1];
        g.n_slices = 1;
        g.slice = 0;
        g.coordinator = NULL;
        ASSERT_OK(environment_build(&i, &o, &e, why));
        expect(&e, "MEGASCALE_COORDINATOR_ADDRESS", "10.0.0.3");
        expect(&e, "MEGASCALE_NUM_SLICES", "1");
        expect(&e, "MEGASCALE_SLICE_ID", "0");
        expect(&e, "JAX_COORDINATOR_ADDRESS", "10.0.0.3:8476");
        ASSERT_TRUE(!get(&e, "MEGASCALE_PORT"));
}

TEST_MAIN(test_gang_plain, test_gang_torch, test_torch_of_one_slice, test_gang_jax,
          test_init_args_of_the_user, test_gang_that_does_not_fit, test_slices_of_the_identity,
          test_words_of_workers, test_a_slice_of_one_host, test_one_slice_left)
