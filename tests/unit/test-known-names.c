/* SPDX-License-Identifier: Apache-2.0 */
#include "known_names.h"
#include "test.h"

static const char *text_of(const char *wanted, const char *const names[], char buf[static KNOWN_TEXT_MAX]) {
        struct known_names k = known_names(wanted);

        for (size_t i = 0; names[i]; i++)
                known_names_add(&k, names[i]);
        return known_names_text(&k, buf);
}

static void test_sentences(void) {
        static const char *const none[] = { NULL }, *const one[] = { "s0", NULL },
                                 *const states[] = { "ready", "degraded", "unfit", "unknown", NULL };
        char buf[KNOWN_TEXT_MAX];

        ASSERT_STREQ(text_of("s01", none, buf), "; none is known");
        ASSERT_STREQ(text_of("s01", one, buf), "; did you mean 's0'? known: s0");
        ASSERT_STREQ(text_of("broken", states, buf), "; known: ready, degraded, unfit, unknown");
        ASSERT_STREQ(text_of("degarded", states, buf),
                     "; did you mean 'degraded'? known: ready, degraded, unfit, unknown");
        ASSERT_STREQ(text_of("", states, buf), "; known: ready, degraded, unfit, unknown");
}

static void test_what_is_near(void) {
        static const struct {
                const char *wanted, *meant;
        } cases[] = {
                { "fleet", "fleet" },   { "flet", "fleet" },  { "fleeet", "fleet" }, { "felet", "fleet" },
                { "FLEET", "fleet" },   { "flxxx", "" },      { "f", "" },           { "cordn", "cordon" },
                { "crodon", "cordon" }, { "cordonn", "cordon" },
        };
        static const char *const verbs[] = { "uncordon", "fleet", "cordon", "x", NULL };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct known_names k = known_names(cases[i].wanted);
                char buf[KNOWN_TEXT_MAX], want[KNOWN_TEXT_MAX] = "";

                for (size_t n = 0; verbs[n]; n++)
                        known_names_add(&k, verbs[n]);
                if (cases[i].meant[0])
                        (void) snprintf(want, sizeof(want), "; did you mean '%s'?", cases[i].meant);
                ASSERT_STREQ(known_names_meant(&k, buf), want);
        }
}

/* Names come from outside: no list grows beyond its bound, and none is cut within a name. */
static void test_bounds(void) {
        struct known_names k = known_names("host-000077");
        char name[KNOWN_NAME_MAX + 20], buf[KNOWN_TEXT_MAX];

        for (unsigned i = 0; i < 12800; i++) {
                (void) snprintf(name, sizeof(name), "host-%06u", i);
                known_names_add(&k, name);
        }
        ASSERT_EQ(k.n, 12800);
        known_names_text(&k, buf);
        ASSERT_TRUE(startswith(buf, "; did you mean 'host-000077'? known: host-000000, host-000001, "));
        ASSERT_TRUE(strlen(buf) < KNOWN_LIST_MAX + 100);

        memset(name, 'a', sizeof(name));
        name[sizeof(name) - 1] = '\0';
        k = known_names(name);
        known_names_add(&k, name);
        ASSERT_STREQ(known_names_text(&k, buf), "; known: 1");
        name[KNOWN_NAME_MAX - 1] = '\0';
        k = known_names(name);
        known_names_add(&k, name);
        ASSERT_STREQ(known_names_meant(&k, buf) + 16, strcat(name, "'?"));
}

static void test_what_is_not_printable(void) {
        ASSERT_STREQ(known_names("a\xff\nb\033").wanted, "a??b?");
}

TEST_MAIN(test_sentences, test_what_is_near, test_bounds, test_what_is_not_printable)
