/* SPDX-License-Identifier: Apache-2.0 */
/* C++ names out of symbols; c++filt -p says the same of them, with template arguments. */
#include "cxx_name.h"
#include "test.h"

static const struct {
        const char *symbol, *name;
} names[] = {
        { "_ZN4c10d16ProcessGroupGloo7runLoopEi", "c10d::ProcessGroupGloo::runLoop" },
        { "_ZN4gloo9allreduceERNS_16AllreduceOptionsE", "gloo::allreduce" },
        { "_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector::push_back" },
        { "_ZNKSt8functionIFvvEEclEv", "std::function::operator()" },
        { "_ZSt4moveIRiEONSt16remove_referenceIT_E4typeEOS2_", "std::move" },
        { "_ZN5torch8autograd6Engine11thread_mainERKSt10shared_ptrINS0_9GraphTaskEE", "torch::autograd::Engine::thread_main" },
        { "_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo" },
        { "_ZN1A1BC2Ev", "A::B::B" },
        { "_ZN1A1BD0Ev", "A::B::~B" },
        { "_ZN3xla10RendezvousI1KLb1ELi16EE4waitEv", "xla::Rendezvous::wait" },
        { "_ZZN4c10d4Work4waitEvENKUlvE_clEv", "c10d::Work::wait::{…}" },
        { "_ZN1aUlvE0_clEv", NULL },
        { "_Z3foov.cold", "foo" },
        { "_Z3fooIXadL_ZN1A1bEvEEEvv", "foo" },
        { "_ZN6caffe215EmbeddingLookupIiffLb0EEEvllllPKT0_PKT_PKiPKfSA_bPT1_", "caffe2::EmbeddingLookup" },
        { "_ZN4llvm4PBQPlsINS_11raw_ostreamEEERT_S4_RKNS0_6MatrixE", "llvm::PBQP::operator<<" },
        { "_ZThn16_N1A1fEv", "A::f" },
        { "_ZN1AcvbEv", NULL }, /* a conversion: its symbol stays */
        { "read", NULL },
        { "_Z", NULL },
        { "_ZN", NULL },
        { "_ZN99999999999999999999a", NULL },
        { "_ZN3abI", NULL },
        { "_ZN3abcINNNN", NULL },
};

static void test_names(void) {
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char buf[CXX_NAME_MAX];

                if (names[i].name) {
                        if (cxx_name(names[i].symbol, buf) < 0)
                                test_fail(__FILE__, __LINE__, "%s", names[i].symbol);
                        ASSERT_STREQ(buf, names[i].name);
                } else
                        (void) cxx_name(names[i].symbol, buf); /* whatever it makes of it */
        }
}

/* Symbols that mean harm: it ends, inside its bounds, in no time. */
static void test_hostile(void) {
        static const char letters[] = "NIEZSULDTFXJ_0123456789abclt";
        unsigned seed = test_seed();
        char symbol[600], buf[CXX_NAME_MAX];

        for (unsigned round = 0; round < 20000; round++) {
                size_t n = (unsigned) rand_r(&seed) % (sizeof(symbol) - 3);

                memcpy(symbol, "_ZN", 3);
                for (size_t i = 3; i < n; i++)
                        symbol[i] = letters[(unsigned) rand_r(&seed) % (sizeof(letters) - 1)];
                symbol[MAX(n, (size_t) 3)] = '\0';
                if (cxx_name(symbol, buf) == 0)
                        ASSERT_TRUE(strlen(buf) < CXX_NAME_MAX);
        }
}

TEST_MAIN(test_names, test_hostile)
