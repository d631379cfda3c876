/* SPDX-License-Identifier: Apache-2.0 */
#include "authority.h"
#include "test.h"

enum who {
        ROOT,
        MEMBER,
        REMOTE,
        REMOTE_AND_MEMBER,
        NOBODY
};

static struct caller make(enum who w) {
        struct caller c = { .uid = w == ROOT ? 0 : 1000,
                            .member = w == MEMBER || w == REMOTE_AND_MEMBER,
                            .remote = w == REMOTE || w == REMOTE_AND_MEMBER };

        (void) snprintf(c.name, sizeof(c.name), "%s", w == ROOT ? "root" : "alice");
        return c;
}

/* The whole table of rights. own: the run is, or is to be, of the caller's own user. */
static void test_table(void) {
        static const struct {
                enum who who;
                enum action action;
                bool own, others; /* allowed */
        } table[] = {
                { ROOT, ACTION_LIST, true, true },
                { ROOT, ACTION_START, true, true },
                { ROOT, ACTION_STOP, true, true },
                { ROOT, ACTION_CAPTURE, true, true },
                { MEMBER, ACTION_LIST, true, true },
                { MEMBER, ACTION_START, true, false },
                { MEMBER, ACTION_STOP, true, false },
                { MEMBER, ACTION_CAPTURE, true, false },
                { REMOTE, ACTION_LIST, true, true },
                { REMOTE, ACTION_START, false, false },
                { REMOTE, ACTION_STOP, false, false },
                { REMOTE, ACTION_CAPTURE, true, true },
                /* Whoever owns hostd gains nothing by a group. */
                { REMOTE_AND_MEMBER, ACTION_LIST, true, true },
                { REMOTE_AND_MEMBER, ACTION_START, false, false },
                { REMOTE_AND_MEMBER, ACTION_STOP, false, false },
                { REMOTE_AND_MEMBER, ACTION_CAPTURE, true, true },
                { NOBODY, ACTION_LIST, true, true },
                { NOBODY, ACTION_START, false, false },
                { NOBODY, ACTION_STOP, false, false },
                { NOBODY, ACTION_CAPTURE, false, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                for (int own = 0; own < 2; own++) {
                        struct caller c = make(table[i].who);
                        struct refusal r = { "", "" };
                        int k = authority_decide(&c, table[i].action, own ? c.uid : 4711, &r);

                        if (k != ((own ? table[i].own : table[i].others) ? 0 : -EACCES))
                                test_fail(__FILE__, __LINE__, "row %zu, own %d: %d", i, own, k);
                        ASSERT_EQ(k < 0, r.reason[0] != '\0');
                        ASSERT_EQ(k < 0, r.remedy[0] != '\0');
                }
}

/* Nobody but root may name root as the user of a run. */
static void test_never_root(void) {
        for (enum who w = MEMBER; w <= NOBODY; w++) {
                struct caller c = make(w);
                struct refusal r;

                ASSERT_EQ(authority_decide(&c, ACTION_START, 0, &r), -EACCES);
        }
}

static void test_words(void) {
        struct caller c = make(NOBODY);
        struct refusal r;

        ASSERT_EQ(authority_decide(&c, ACTION_STOP, 1000, &r), -EACCES);
        ASSERT_STREQ(r.reason, "user alice may not stop runs: not root and not in group tpu-run");
        ASSERT_STREQ(r.remedy, "sudo usermod -aG tpu-run alice");
}

static void test_identify(void) {
        const struct ucred root = { .pid = 1, .uid = 0, .gid = 0 },
                           unknown = { .pid = 1, .uid = 3999999999u, .gid = 3999999999u };
        struct caller c;

        authority_identify(&root, &c);
        ASSERT_EQ(c.uid, 0);
        ASSERT_STREQ(c.name, "root");
        ASSERT_FALSE(c.remote);
        authority_identify(&unknown, &c);
        ASSERT_STREQ(c.name, "3999999999");
        ASSERT_FALSE(c.member || c.remote);
}

TEST_MAIN(test_table, test_never_root, test_words, test_identify)
