/* SPDX-License-Identifier: Apache-2.0 */
/* C++ names out of symbols; c++filt -p says the same of them, with template arguments and what is inside
 * functions. */
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
        { "_ZN5torch8autograd6Engine11thread_mainERKSt10shared_ptrINS0_9GraphTaskEE",
          "torch::autograd::Engine::thread_main" },
        { "_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo" },
        { "_ZN1A1BC2Ev", "A::B::B" },
        { "_ZN1A1BD0Ev", "A::B::~B" },
        { "_ZN3xla10RendezvousI1KLb1ELi16EE4waitEv", "xla::Rendezvous::wait" },
        { "_ZZN4c10d4Work4waitEvENKUlvE_clEv", "c10d::Work::wait::{…}" },
        { "_ZN1aUlvE0_clEv", "a::{lambda}::operator()" },
        { "_Z3foov.cold", "foo" },
        { "_Z3fooIXadL_ZN1A1bEvEEEvv", "foo" },
        { "_ZN6caffe215EmbeddingLookupIiffLb0EEEvllllPKT0_PKT_PKiPKfSA_bPT1_", "caffe2::EmbeddingLookup" },
        { "_ZN4llvm4PBQPlsINS_11raw_ostreamEEERT_S4_RKNS0_6MatrixE", "llvm::PBQP::operator<<" },
        { "_ZThn16_N1A1fEv", "A::f" },
        { "_ZN1AcvbEv", "A::operator bool" },
        { "_ZN1AltIiEEbRKS_", "A::operator<" },
        { "_ZN1AixIiEEvi", "A::operator[]" },
        { "_ZN1AnaEm", "A::operator new[]" },
        { "_ZN1AptIiEEvv", "A::operator->" },
        { "_ZN1AgtIiEEvv", "A::operator>" },
        { "_ZN11my_operatorIiE1fEv", "my_operator::f" },
        { "_Z1fIXadL_ZN1AltEiEEEvv", "f" },
        { "_Z1fIXgtLi3ELi2EEEvv", "f" },
        { "_Z1fI1AIFvPFviEEEEvv", "f" },
        { "_ZN1A1fB5cxx11Ev", "A::f" },
        { "_ZZNK1A1fEvENKUliE_clEi", "A::f::{…}" },
        { "_ZNSt3mapISsiSt4lessISsESaISt4pairIKSsiEEEixERS3_", "std::map::operator[]" },
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
                        ASSERT_EQ(cxx_name(names[i].symbol, buf), -EINVAL);
        }
}

/* Each argument says the one before it twice: the symbol is short, and its name has more letters than
 * memory. */
static void test_name_without_end(void) {
        static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        char symbol[1024] = "_Z1fI1PI1AS0_E", buf[CXX_NAME_MAX];

        for (unsigned i = 1; i < 30; i++) {
                char step[16];

                (void) snprintf(step, sizeof(step), "S_IS%c_S%c_E", digits[i], digits[i]);
                strcat(symbol, step);
        }
        strcat(symbol, "Evv");
        ASSERT_EQ(cxx_name(symbol, buf), -E2BIG);
}

/* What nests so deep that reading it would take the stack. */
static void test_depth(void) {
        char symbol[CXX_SYMBOL_MAX + 16] = "_Z1f", buf[CXX_NAME_MAX];

        memset(symbol + 4, 'P', CXX_SYMBOL_MAX - 10);
        strcat(symbol, "i");
        (void) cxx_name(symbol, buf);
        memset(symbol + 4, 'P', CXX_SYMBOL_MAX);
        ASSERT_EQ(cxx_name(symbol, buf), -EINVAL);
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

TEST_MAIN(test_names, test_name_without_end, test_depth, test_hostile)
