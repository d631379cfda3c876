/* SPDX-License-Identifier: Apache-2.0 */
/* Text of tpuctl: tables, spans, shell quoting, words, and screens out of hostile JSON. */
#include <math.h>

#include "answer.h"
#include "check_look.h"
#include "report.h"
#include "screens.h"
#include "show.h"
#include "table.h"
#include "test.h"
#include "verb_words.h"

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

static void expect(const json_t *o, const char *template, const char *want) {
        const usec_t now = (usec_t) 1795237260 * USEC_PER_SEC; /* 2026-11-21T05:01:00Z */

        CAPTURE(text, show(out, o, now, template));
        ASSERT_STREQ(text, want);
        free(text);
}

static void ages(void) {
        json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:I, s:s}", "a", "2026-11-21T05:00:00.500Z", "b",
                              "2026-11-21T06:00:00Z", "c", "yesterday", "d", -5, "e",
                              (json_int_t) 1795237250 * USEC_PER_SEC, "now", "2026-11-21T05:01:00Z");

        expect(o, "{a:age}", "60 s");
        expect(o, "{b:age}", "0 s"); /* a clock ahead of ours */
        expect(o, "{now:age}", "0 s");
        expect(o, "{b:left} {a:left}", "59 min -");
        expect(o, "{c:age} {d:age} {f:age}", "- - -");
        expect(o, "{e:age} {e:time}", "10 s 2026-11-21T05:00:50.000Z");
        json_decref(o);
}

static void kinds(void) {
        json_t *o = json_pack("{s:i, s:f, s:s, s:{s:[s, s]}, s:f, s:i}", "n", 2048, "part", 0.406, "text",
                              "a\n\033b", "in", "list", "x", "y", "seconds", 10.0, "waited", 4);

        expect(o, "{n} {n:count} {n:bytes} {n:bits}", "2048 2048 2 KiB 16.4 kbit/s");
        expect(o, "{part:percent} {part:span} {n:long} {waited:share}", "41 % 406 ms 34 min 40 %");
        expect(o, "{text} {text:lines}", "a??b a\n?b");
        expect(o, "{in.list.1}{in.list.7}{n:6}.", "y2048  .");
        expect(o, "{text:count} {none:bytes} {in}", "- - ");
        json_decref(o);
}

static void choices(void) {
        json_t *o =
                json_pack("{s:s, s:i, s:b, s:b, s:s}", "a", "x", "zero", 0, "yes", 1, "no", 0, "empty", "");

        expect(o, "1[ {a}]2[ {empty}]3[ {none}]4", "1 x234");
        expect(o, "[{none}|{empty}|{a}|never]", "x");
        expect(o, "[{none}|not known]", "not known");
        expect(o, "[{zero}|never] [{zero>0}never|none] [{zero?}there]", "0 none there");
        expect(o, "[{yes?}yes][{no?}never][{no!}no][{none!} none][{a!}never]", "yesno none");
        expect(o, "[{a=x}is[ {none}] x|never][{a=y}never]", "is x");
        expect(o, "[{none:age}never|{a}[{empty}never|[{yes?}deep]]]", "xdeep");
        expect(o, "[{,}{a}][{,}{none}][{,}b]: {^}[{;}c][{;}d]", "x, b: c; d");
        json_decref(o);
}

static void rows(void) {
        static const struct column columns[] = { { .title = "NAME", .cell = "{name}" },
                                                 { .title = "N", .cell = "[{n} of 9]" } };
        json_t *o = json_pack("{s:{s:i}, s:i}", "a", "n", 5, "b", 7), *list = show_named(o);

        CAPTURE(text, ASSERT_OK(show_table(out, list, 0, columns, ELEMENTSOF(columns))));
        ASSERT_STREQ(text, "NAME  N\na     5 of 9\nb     -\n");
        free(text);
        json_decref(list);
        json_decref(o);
}

/* Screens take any JSON: nothing is trusted to be there or to have its type. */
static void hostile_json(void) {
        static const char *const texts[] = {
                "{}",
                "{\"runs\": 5, \"hosts\": {}, \"state\": [], \"reasons\": \"x\", \"uplink\": 3, "
                "\"identity\": null}",
                "{\"runs\": [1, null, {}], \"hosts\": [[], {\"age_seconds\": \"x\"}], \"reasons\": [0, {}], "
                "\"uplink\": {\"classes\": [], \"last_ok\": 1}, "
                "\"events\": [1, null, {\"time\": 5, \"body\": []}], \"links\": [3, {\"bad\": true, "
                "\"interval\": 1}], "
                "\"kernel\": {\"drops\": [[], 1]}, \"nics\": [{\"run\": \"x\"}, 2]}",
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                json_t *v = json_loads(texts[i], 0, NULL);

                ASSERT_TRUE(v != NULL);
                CAPTURE(text, {
                        (void) screen_status(v, 0, out);
                        (void) screen_host_runs(v, 0, out);
                        (void) screen_fleet(v, 0, out);
                        (void) screen_events(v, 0, out);
                        (void) screen_net(v, 0, out);
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

static void add(struct finding_list *l, enum verdict v, const char *check, const char *subject,
                const char *found,
                const char *wanted) {
        struct finding f;

        finding_init(&f, check, subject);
        f.verdict = v;
        finding_set(f.found, "%s", found);
        finding_set(f.wanted, "%s", wanted);
        ASSERT_OK(finding_list_add(l, &f));
}

static void findings_of_json(void) {
        char long_text[400], text[sizeof(long_text) + 100];
        struct finding f, g;
        json_t *o;

        finding_init(&f, "nic.mtu", "eth0");
        f.verdict = VERDICT_FAIL;
        finding_set(f.found, "1460");
        finding_set(f.wanted, "8896");
        finding_set(f.source, "profile");
        finding_set(f.reason, "why");
        finding_set(f.remedy, "do");
        o = finding_to_json(&f);
        ASSERT_OK(finding_from_json(o, &g));
        ASSERT_EQ(g.verdict, VERDICT_FAIL);
        ASSERT_STREQ(g.check, f.check);
        ASSERT_STREQ(g.subject, f.subject);
        ASSERT_STREQ(g.found, f.found);
        ASSERT_STREQ(g.wanted, f.wanted);
        ASSERT_STREQ(g.source, f.source);
        ASSERT_STREQ(g.reason, f.reason);
        ASSERT_STREQ(g.remedy, f.remedy);
        json_decref(o);
        memset(long_text, 'x', sizeof(long_text) - 1);
        long_text[sizeof(long_text) - 1] = '\0';
        (void) snprintf(text, sizeof(text), "{\"verdict\": \"FINE\", \"check\": \"\\u001b[2J\", \"found\": "
                                            "\"%s\", \"wanted\": 5}",
                        long_text);
        o = json_loads(text, 0, NULL);
        ASSERT_EQ(finding_from_json(o, &g), -EBADMSG);
        ASSERT_EQ(g.verdict, VERDICT_UNKNOWN);
        ASSERT_STREQ(g.check, "?[2J");
        ASSERT_EQ(strlen(g.found), sizeof(g.found) - 1);
        ASSERT_STREQ(g.wanted, "");
        json_decref(o);
        ASSERT_EQ(finding_from_json(NULL, &g), -EBADMSG);
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

TEST_MAIN(alike_lines_are_one, findings_of_json, tables, long_cells, spans, shell, ages, kinds, choices,
          rows, hostile_json,
          words_anywhere, repeated, run_names)
