/* SPDX-License-Identifier: Apache-2.0 */
/* Text of tpuctl: tables, spans, shell quoting, words, and screens out of hostile JSON. */
#include "fold.h"
#include "screen.h"
#include "table.h"
#include "test.h"
#include "words.h"

/* Runs code with a stream `out` and keeps in text what it wrote. */
#define CAPTURE(text, code)                                \
        char *text = NULL;                                 \
        {                                                  \
                size_t size_ = 0;                          \
                FILE *out = open_memstream(&text, &size_); \
                ASSERT_TRUE(out != NULL);                  \
                code;                                      \
                ASSERT_OK(fclose(out));                    \
        }

static void tables(void) {
        _cleanup_table_ struct table t = TABLE_NULL(3);

        ASSERT_OK(table_add(&t, (const char *const[]) { "A", "BB", "LAST" }));
        ASSERT_OK(table_add(&t, (const char *const[]) { "é…", NULL, "" }));
        ASSERT_OK(
                table_add(&t, (const char *const[]) { "x\033[2Jy\n", "\xc2\x9b\xff", "\xe2\x80\xaeright" }));
        CAPTURE(text, ASSERT_OK(table_print(&t, out)));
        ASSERT_STREQ(text, "A        BB   LAST\n"
                           "é…       -    -\n"
                           "x?[2Jy?  ???  ???right\n");
        free(text);
}

static void long_cells(void) {
        _cleanup_table_ struct table t = TABLE_NULL(2);
        char cell[101], *end;

        memset(cell, 'x', 100);
        cell[100] = '\0';
        ASSERT_OK(table_add(&t, (const char *const[]) { cell, cell }));
        CAPTURE(text, ASSERT_OK(table_print(&t, out)));
        end = strchr(text, ' ');
        ASSERT_EQ(end - text, TABLE_CELL_MAX - 1 + (long) strlen("…"));
        ASSERT_EQ(strlen(end), 2 + 100 + 1); /* the last column is whole */
        free(text);
}

static void spans(void) {
        char buf[SPAN_TEXT_MAX];

        ASSERT_STREQ(short_span_text(85e-6, buf), "85 us");
        ASSERT_STREQ(short_span_text(0.0012, buf), "1.2 ms");
        ASSERT_STREQ(short_span_text(2.5, buf), "2.5 s");
        ASSERT_STREQ(short_span_text(NAN, buf), "-");
        ASSERT_STREQ(span_text(0, buf), "0 s");
        ASSERT_STREQ(span_text(119.9, buf), "119 s");
        ASSERT_STREQ(span_text(120, buf), "2 min");
        ASSERT_STREQ(span_text(7199, buf), "119 min");
        ASSERT_STREQ(span_text(7200, buf), "2 h");
        ASSERT_STREQ(span_text(3 * 86400, buf), "3 d");
        ASSERT_STREQ(span_text(-1, buf), "-");
        ASSERT_STREQ(span_text(NAN, buf), "-");
        ASSERT_STREQ(span_text(1e300, buf), "-");
}

static void shell(void) {
        CAPTURE(text, {
                print_shell_assignment(out, "A=1,2,1");
                print_shell_assignment(out, "B=a b");
                print_shell_assignment(out, "C=it's $HOME");
                print_shell_assignment(out, "D=");
                print_shell_assignment(out, "E=~root");
        });
        ASSERT_STREQ(text, "A=1,2,1\nB='a b'\nC='it'\\''s $HOME'\nD=\nE='~root'\n");
        free(text);
}

static void ages(void) {
        json_t *o = json_pack("{s:s, s:s, s:s, s:i}", "a", "2026-11-21T05:00:00.500Z", "b",
                              "2026-11-21T06:00:00Z", "c", "yesterday", "d", 5);
        const usec_t now = (usec_t) 1795237260 * USEC_PER_SEC; /* 2026-11-21T05:01:00Z */

        ASSERT_TRUE(fabs(field_age(o, "a", now) - 60) < 0.001);
        ASSERT_TRUE(fabs(field_age(o, "b", now)) < 0.001); /* a clock ahead of ours */
        ASSERT_TRUE(isnan(field_age(o, "c", now)) && isnan(field_age(o, "d", now)) &&
                    isnan(field_age(o, "e", now)));
        json_decref(o);
}

/* Screens take any JSON: nothing is trusted to be there or to have its type. */
static void hostile_json(void) {
        static const char *const texts[] = {
                "{}",
                "{\"jobs\": 5, \"hosts\": {}, \"state\": [], \"reasons\": \"x\", \"uplink\": 3, "
                "\"identity\": null}",
                "{\"jobs\": [1, null, {}], \"hosts\": [[], {\"age_seconds\": \"x\"}], \"reasons\": [0, {}], "
                "\"uplink\": {\"classes\": [], \"last_ok\": 1}}",
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                json_t *v = json_loads(texts[i], 0, NULL);

                ASSERT_TRUE(v != NULL);
                CAPTURE(text, {
                        screen_status(v, 0, out);
                        (void) screen_jobs(v, 0, out);
                        (void) screen_fleet(v, out);
                        (void) screen_events(json_object_get(v, "jobs"), out);
                });
                ASSERT_EQ(status_verdict(v), VERDICT_UNKNOWN);
                free(text);
                json_decref(v);
        }
}

static int parse(struct words *w, size_t min, size_t max, const char *const *argv, bool *flag,
                 const char **value) {
        const struct option_def defs[] = { { "json", NULL, "", NULL, flag },
                                           { "to", "X", "", value, NULL } };
        struct options o = { .program = "test", .synopsis = "", .summary = "", .defs = defs, .n_defs = 2 };
        const struct ctl c = { "/r", NULL };
        char *copy[16];
        int argc = 0;

        for (; argv[argc]; argc++)
                copy[argc] = (char *) (uintptr_t) argv[argc];
        return words_parse(&c, &o, argc, copy, min, max, w);
}

static void words_anywhere(void) {
        const char *value = NULL;
        bool flag = false;
        struct words w;

        ASSERT_OK(parse(&w, 0, 0, (const char *const[]) { "verb", NULL }, &flag, &value));
        ASSERT_EQ(w.n, 0);
        ASSERT_OK(parse(&w, 1, 2, (const char *const[]) { "verb", "a", "--json", "b", "--to", "x", NULL },
                        &flag, &value));
        ASSERT_EQ(w.n, 2);
        ASSERT_STREQ(w.items[1], "b");
        ASSERT_TRUE(flag);
        ASSERT_STREQ(value, "x");
        ASSERT_OK(parse(&w, 0, 9, (const char *const[]) { "verb", "a", "--", "--json", "b", NULL }, &flag,
                        &value));
        ASSERT_EQ(w.n, 3);
        ASSERT_STREQ(w.items[1], "--json");
        ASSERT_EQ(parse(&w, 1, 1, (const char *const[]) { "verb", NULL }, &flag, &value), -EINVAL);
        ASSERT_EQ(parse(&w, 0, 1, (const char *const[]) { "verb", "a", "b", NULL }, &flag, &value), -EINVAL);
        ASSERT_EQ(parse(&w, 0, 1, (const char *const[]) { "verb", "a", "--nope", NULL }, &flag, &value),
                  -EINVAL);
}

static void repeated(void) {
        const char *value = NULL;
        const struct option_def defs[] = { { "name", "X", "", &value, NULL },
                                           { "env", "X", "", &value, NULL } };
        const struct options o = {
                .program = "test", .synopsis = "", .summary = "", .defs = defs, .n_defs = 2
        };
        char verb[] = "run", env[] = "--env", a[] = "A=1", name[] = "--name", inline_env[] = "--env=B=2",
             command[] = "--", cmd[] = "env";
        char *argv[] = { verb, env, a, name, env, inline_env, command, env, cmd },
             *short_argv[] = { verb, env };
        struct words w = { .n = 0 };
        int argc = ELEMENTSOF(argv);

        /* "--name --env" names a run "--env"; what stands behind "--" belongs to the command. */
        ASSERT_OK(words_take_repeated(&o, "env", &argc, argv, &w));
        ASSERT_EQ(w.n, 2);
        ASSERT_STREQ(w.items[0], "A=1");
        ASSERT_STREQ(w.items[1], "B=2");
        ASSERT_EQ(argc, 6);
        ASSERT_STREQ(argv[1], "--name");
        ASSERT_STREQ(argv[2], "--env");
        ASSERT_STREQ(argv[4], "--env");
        ASSERT_STREQ(argv[5], "env");
        argc = 2;
        w.n = 0;
        ASSERT_EQ(words_take_repeated(&o, "env", &argc, short_argv, &w), -EINVAL);
}

static void run_names(void) {
        static const char *const bad[] = { "",     "-a",  "A",
                                           "a_b",  "a/b", "a b",
                                           "../x", "a\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
        const struct options o = { .program = "test" };

        ASSERT_OK(words_check_run_name(&o, "a"));
        ASSERT_OK(words_check_run_name(&o, "0-train-2"));
        ASSERT_OK(words_check_run_name(&o, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ(words_check_run_name(&o, bad[i]), -EINVAL);
}

static void add(struct finding_list *l, enum verdict v, const char *check, const char *subject, const char *found,
                const char *wanted) {
        struct finding f;

        finding_init(&f, check, subject);
        f.verdict = v;
        finding_set(f.found, "%s", found);
        finding_set(f.wanted, "%s", wanted);
        ASSERT_OK(finding_list_add(l, &f));
}

static void alike_lines_are_one(void) {
        static const struct {
                const char *check, *subject, *found;
        } want[] = { { "nic.mtu", "eth0, eth1", "8896" },
                     { "nic.link", "eth0", "up" },
                     { "sysctl", "net.ipv4.tcp_rmem, net.core.a and 2 more", "as wanted" },
                     { "nic.mtu", "eth2", "1460" }, /* FAIL: a line of its own, whatever it found */
                     { "sysctl", "net.x", "other" },
                     { "owners", "", "free" } };
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL, folded = FINDING_LIST_NULL;

        add(&l, VERDICT_OK, "nic.mtu", "eth0", "8896", "8896");
        add(&l, VERDICT_OK, "nic.link", "eth0", "up", "");
        add(&l, VERDICT_OK, "sysctl", "net.ipv4.tcp_rmem", "1 2 3", "1 2 3");
        add(&l, VERDICT_FAIL, "nic.mtu", "eth2", "1460", "8896");
        add(&l, VERDICT_OK, "nic.mtu", "eth1", "8896", "8896");
        add(&l, VERDICT_OK, "sysctl", "net.core.a", "0", "0");
        add(&l, VERDICT_OK, "sysctl", "net.core.bbbbbbbbb", "1", "1");
        add(&l, VERDICT_OK, "sysctl", "net.c", "1", "1");
        add(&l, VERDICT_OK, "sysctl", "net.x", "other", "at least 1"); /* OK, but not for being the same */
        add(&l, VERDICT_OK, "owners", "", "free", "");
        ASSERT_OK(fold_findings(&l, &folded));
        ASSERT_EQ(folded.n, ELEMENTSOF(want));
        for (size_t i = 0; i < folded.n; i++) {
                ASSERT_STREQ(folded.items[i].check, want[i].check);
                ASSERT_STREQ(folded.items[i].subject, want[i].subject);
                ASSERT_STREQ(folded.items[i].found, want[i].found);
        }
        ASSERT_EQ(folded.items[3].verdict, VERDICT_FAIL);
}

TEST_MAIN(alike_lines_are_one, tables, long_cells, spans, shell, ages, hostile_json, words_anywhere, repeated, run_names)
